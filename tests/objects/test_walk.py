"""A walk gives every key once, in order, however often it is interrupted."""

from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.objects.backends.folders import FoldersBackend, Item
from tieredfs.objects.backends.listing import Child, Listing, ObjectInfo, Walk

PARTS = st.sampled_from(["a", "a-b", "a.b", "b", "é", "日"])
KEYS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


class Tree:
    """Folders made of keys; reading one fails now and then."""

    def __init__(self, keys: Iterable[str], failures: float, random: Random) -> None:
        self.keys = set(keys)
        self.reads = 0
        self._failures = failures
        self._random = random

    def read(self, folder: str) -> list[Child]:
        self._fail()
        self.reads += 1
        found: dict[str, Child] = {}
        for key in self.keys:
            if key.startswith(folder):
                name, slash, _ = key.removeprefix(folder).partition("/")
                path = f"{folder}{name}{slash}"
                found[path] = (path, None if slash else partial(self._at, path))
        return list(found.values())

    def _at(self, key: str) -> ObjectInfo:
        self._fail()
        return ObjectInfo(key, len(key))

    def _fail(self) -> None:
        if self._random.random() < self._failures:
            raise OSError("try again")


@given(
    keys=st.sets(KEYS, max_size=12),
    prefix=st.sampled_from(["", "a", "a/", "a/a", "a-b/a", "no/"]),
    after=st.one_of(st.just(""), KEYS),
    delimiter=st.sampled_from(["", "/"]),
    size=st.sampled_from([1, 2, 1000]),
    failures=st.sampled_from([0.0, 0.3]),
    random=st.randoms(use_true_random=False),
)
def test_every_key_comes_once_and_in_order(  # noqa: PLR0917 - the axes of the rule
    keys: set[str],
    prefix: str,
    after: str,
    delimiter: str,
    size: int,
    failures: float,
    random: Random,
) -> None:
    tree = Tree(keys, failures, random)
    walk = Walk(Listing(prefix, after, delimiter))
    found: list[ObjectInfo] = []
    more = True
    while more:
        try:
            page = walk.page(
                tree.read, max_folders=random.choice([1, 100]), max_entries=size
            )
        except OSError:
            continue
        assert len(page.entries) <= size
        found += page.entries
        more = page.following is not None
    wanted = {key for key in keys if key.startswith(prefix)}
    if delimiter:
        cut = len(prefix)
        wanted = {k[:cut] + "".join(k[cut:].partition("/")[:2]) for k in wanted}
    expected = sorted(key for key in wanted if key > after)
    # A folder that the walk begins inside is returned too; the store omits it.
    assert [entry.key for entry in found if entry.key > after] == expected


def test_a_folder_before_the_start_is_not_read() -> None:
    tree = Tree(["a/1", "b/1", "c/1", "c/2"], 0, Random(0))  # noqa: S311 - no secret
    walk = Walk(Listing("", "c/1", ""))
    page = walk.page(tree.read, max_folders=100)
    assert [entry.key for entry in page.entries] == ["c/2"]
    assert page.following is None
    assert tree.reads == 2


def test_what_is_removed_meanwhile_is_left_out() -> None:
    def gone() -> ObjectInfo:
        raise FileNotFoundError

    walk = Walk(Listing("", "", ""))
    page = walk.page(lambda _: [("a", gone), ("b", lambda: ObjectInfo("b", 1))])
    assert [entry.key for entry in page.entries] == ["b"]


def test_a_failure_is_raised_and_nothing_is_lost() -> None:
    tries = iter([False, True])

    def once() -> ObjectInfo:
        if not next(tries):
            raise OSError("try again")
        return ObjectInfo("b", 1)

    walk = Walk(Listing("", "", ""))
    children: list[Child] = [("a", lambda: ObjectInfo("a", 1)), ("b", once)]
    with pytest.raises(OSError, match="try again"):
        walk.page(lambda _: children)
    page = walk.page(lambda _: pytest.fail("the folder has been read"))
    assert [entry.key for entry in page.entries] == ["a", "b"]


class Chain(FoldersBackend):
    """Folders, each in the one before, with a file in the last if there is any."""

    depth = 2000
    holds = True

    def items(self, folder: str, timeout: float) -> list[Item]:
        """Return the children of a folder."""
        del timeout
        if folder.count("/") < self.depth:
            return [Item("a", None, 0)]
        return [Item("file", 1, 0)] if self.holds else []


@pytest.mark.parametrize("holds", [True, False])
def test_folders_are_looked_through_however_deep_they_are(holds: bool) -> None:
    chain = Chain(MemoryFileSystem(), "/")
    chain.holds = holds
    page = chain.page(Listing("", "", "/"), None, 30)
    assert [entry.key for entry in page.entries] == (["a/"] if holds else [])
