"""Listings: complete, sorted, and current."""

from collections.abc import Sequence
from itertools import product
from urllib.parse import unquote

import pytest

from objects.guarantees.model import guarantee
from objects.subject import Subject
from support.stores import CLOUDS, SECOND
from tieredfs import NotFoundError, ObjectStore
from tieredfs.objects import StoreCapability

KEYS = [
    *("a-b/c", "a/b-c/d", "a/b.txt", "a/b/c", "a0", "ab/c", "b/x.y", "b/x/y/z", "z"),
    "é/ü",
]
"""Sorted: a folder's keys come after its siblings with ``-`` or ``.`` < ``/``."""

FILES = {key: key.encode() for key in KEYS}
APART = {key: b"1" for key in KEYS if not {"-", "."} & set(key)}
"""Keys whose order does not depend on whether a server lists folder by folder."""

PREFIXES = ["", "a", "a/", "a/b", "ab", "b/x", "b/x/y/z", "z", "zz", "é", "q/"]
AFTER = ["", "a0", "a/b/c", "aa", "b/w", "b/x/y/z", "b/x/y/zz", "zz"]
AMONG = ["a", "ab", "a-b/c", "a/", "a/b-c", "a/b-c/d", "b/x", "b/x.y"]


@guarantee("listings are complete and sorted", given=FILES)
def complete_and_sorted(subject: Subject) -> None:
    """Every object is listed once, with its size, in the code-point order of keys, with
    or without folders. A server that returns pages in another order is refused.
    """
    found = list(subject.store.list())
    assert [entry.key for entry in found] == KEYS
    assert [entry.size for entry in found] == [len(key.encode()) for key in KEYS]


@guarantee("a prefix is any text", given=FILES)
def prefixes(subject: Subject) -> None:
    """A prefix need not be a whole path component; a missing one gives an empty
    listing.
    """
    for prefix in PREFIXES:
        assert subject.keys(prefix) == [key for key in KEYS if key.startswith(prefix)]


@guarantee("a delimiter folds folders", given=FILES)
def folded(subject: Subject) -> None:
    """With `delimiter="/"`, all keys below a folder are one entry.

    A server that has folders, such as SeaweedFS, may list one that was emptied.
    """
    for prefix in PREFIXES:
        found = set()
        for key in KEYS:
            if key.startswith(prefix):
                head, slash, _ = key.removeprefix(prefix).partition("/")
                found.add(prefix + head + slash)
        assert subject.keys(prefix, delimiter="/") == sorted(found)


def _check_start_after(subject: Subject, marks: Sequence[str]) -> None:
    for prefix, after in product(["", "a/", "b"], marks):
        assert subject.keys(prefix, start_after=after) == [
            key for key in subject.given if key.startswith(prefix) and key > after
        ], (prefix, after)


@guarantee("a listing begins after a key", given=APART)
def start_after(subject: Subject) -> None:
    """`start_after` omits that key and all keys before it."""
    _check_start_after(subject, AFTER)


@guarantee("… that is like a folder's name", given=FILES, not_by=("s3",))
def start_after_among(subject: Subject) -> None:
    """The key may be, or begin with, the name of a folder, and folders may have
    siblings whose names continue with `-` or `.`.
    """
    _check_start_after(subject, [*AFTER, *AMONG])


@guarantee(
    "… without listing the keys before it",
    places=CLOUDS,
    needs=StoreCapability.SEEK_LISTING,
    given=APART,
)
def seeks(subject: Subject) -> None:
    """The request contains the key at which the server starts."""
    with subject.proxied() as (store, proxy):
        found = [entry.key for entry in store.list(start_after="b/w")]
        assert found == [key for key in APART if key > "b/w"]
        (asked,) = proxy.requests()
        assert unquote(asked.target).count("b/w") == 1


@guarantee("folders are not objects", needs=StoreCapability.WRITE)
def no_folders(subject: Subject) -> None:
    """Folder markers of other tools and empty directories are not listed, and not
    found.
    """
    subject.store.put("folder/a", b"1", overwrite=True)
    for key in ("folder", "empty", "deep/er"):
        subject.others_mark_folder(key)
    assert subject.keys() == ["folder/a"]
    assert subject.keys("folder/") == ["folder/a"]
    assert subject.keys("folder/", delimiter="/") == ["folder/a"]
    assert subject.keys("empty/") == []
    with pytest.raises(NotFoundError):
        subject.store.head("empty")


@guarantee("listings are never cached", needs=StoreCapability.WRITE)
def never_cached(subject: Subject) -> None:
    """The next call sees what another client has written or deleted."""
    assert subject.keys("x/") == []
    subject.others_put("x/1", b"1")
    assert subject.keys("x/") == ["x/1"]
    subject.others_put("x/2", b"22")
    subject.others_delete("x/1")
    assert subject.keys("x/") == ["x/2"]
    subject.others_put("x/2", b"333")
    assert [entry.size for entry in subject.store.list("x/")] == [3]
    assert subject.store.head("x/2").size == 3


@guarantee("a missing container is not found", places=(*CLOUDS, *SECOND))
def missing_container(subject: Subject) -> None:
    """A missing bucket or container is a `NotFoundError`, even for listings; a missing
    folder is just empty.
    """
    store = ObjectStore(*subject.container)
    for call in (
        lambda: list(store.list()),
        lambda: list(store.list("a/", delimiter="/")),
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: store.put("a", b"1", overwrite=True),
    ):
        with pytest.raises(NotFoundError):
            call()
    # Whatever the server answers, only a missing container makes a listing fail so.
    expected = f"^not found: {store.url}: there is no such (bucket|container)$"
    with pytest.raises(NotFoundError, match=expected):
        list(store.list())
    assert subject.keys("no/such/folder/") == []
