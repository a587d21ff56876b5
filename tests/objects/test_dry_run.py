"""A store that writes nothing, compared with one that does."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.errors import (
    AlreadyExistsError,
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects import DryRunStore, ObjectStore, RequestPolicy
from tieredfs.testing.stores import scratch_store

KEYS = ["a-b", "a/b", "a/c/d", "a/e", "ab", "b/a"]
"""None is the folder of another, which disks cannot hold."""
Write = Callable[[ObjectStore], object]


def put(key: str, size: int, overwrite: bool) -> Write:
    return lambda store: store.put(key, bytes(size), overwrite=overwrite)


writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(put, st.sampled_from(KEYS), st.integers(0, 3), st.booleans()),
    st.sampled_from(KEYS).map(lambda key: lambda store: store.delete([key])),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)).map(
        lambda keys: lambda store: store.copy(*keys)
    ),
)


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except TieredFSError as error:
        return error.kind


def seen(store: ObjectStore) -> object:
    """Return all that listings and heads say, but for versions."""
    listings = itertools.product(["", "a", "a/", "b"], ["", "a", "a/b"], ["", "/"])
    return [
        [(entry.key, entry.size) for entry in store.list(p, start_after=s, delimiter=d)]
        for p, s, d in listings
    ], [outcome(lambda k=key: store.head(k).size) for key in KEYS]  # type: ignore[misc]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=3)),
    st.lists(writes, max_size=8),
)
def test_it_lists_what_a_store_would_and_changes_nothing(
    before: dict[str, bytes], done: list[Write]
) -> None:
    with scratch_store() as untouched, scratch_store() as written:
        for store in (untouched, written):
            for key, data in before.items():
                store.put(key, data, overwrite=True)
        dry = DryRunStore.over(untouched)
        view = dry.with_policy(RequestPolicy(deadline=7))
        for number, write in enumerate(done):
            on = (dry, view)[number % 2]
            assert outcome(lambda: write(on)) == outcome(lambda: write(written))  # noqa: B023 - called here
        assert seen(dry) == seen(view) == seen(written)
        assert {e.key: bytes(untouched.get(e.key)) for e in untouched.list()} == before


def test_nothing_of_it_can_write(tmp_path: Path) -> None:
    """Not even a verb that it does not know of: the requests below it refuse."""
    store = DryRunStore.over(ObjectStore(str(tmp_path / "store")))
    (tmp_path / "file").write_bytes(b"x")
    store.put_file("a", tmp_path / "file", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        store.put_file("a", tmp_path / "file", overwrite=False)
    store.delete(["a"])
    with pytest.raises(NotFoundError):
        store.get("a")
    assert store.abort_uploads(timedelta()) == ()
    assert store.probe_capabilities()
    with pytest.raises(UnsupportedOperationError, match="written in a dry run"):
        ObjectStore.put(_as_base(store), "b", b"", overwrite=True)
    assert not (tmp_path / "store").exists()


def _as_base(store: DryRunStore) -> ObjectStore:
    """Return the store without the verbs of its class."""
    base = ObjectStore.__new__(ObjectStore)
    vars(base).update(vars(store))
    return base


def test_what_takes_no_objects_is_refused_as_ever() -> None:
    store = DryRunStore.over(ObjectStore("http://127.0.0.1:9/x"))
    with pytest.raises(UnsupportedOperationError, match=r"put: it is read-only$"):
        store.put("a", b"", overwrite=True)


def test_what_is_remembered_of_a_store_is_not_mixed_with_a_dry_run() -> None:
    store = ObjectStore("memory://somewhere")
    assert DryRunStore.over(store).identity != store.identity


class _Labelled(DryRunStore):
    """A dry run with a name of its own."""

    label = ""


def test_a_view_of_a_dry_run_keeps_its_class_and_what_it_has() -> None:
    store = _Labelled.over(ObjectStore("memory://labelled"))
    store.label = "mine"
    view = store.with_policy(RequestPolicy(attempts=1))
    assert isinstance(view, _Labelled)
    assert view.label == "mine"
