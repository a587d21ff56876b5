"""What an earlier copy has left becomes part of a later one, also beside a scrub."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from tieredfs import ObjectInfo, ObjectStore, StorageUnavailableError
from tieredfs.storage import CopiedObject, copy_objects
from tieredfs.testing.stores import InterceptedStore

_T = TypeVar("_T")

LOG, INDEXES, MARK = (
    CopiedObject(f"s.{name}", name.encode() * 9, overwrite=False)
    for name in ("log", "indexes", "mark")
)
ALL = (LOG, INDEXES, MARK)
DAYS = 3 * 86_400


class Hooked(InterceptedStore):
    """The same objects, where a function is called before each request."""

    hook: Callable[[str, str], object]

    @classmethod
    def over(cls, store: ObjectStore, hook: Callable[[str, str], object]) -> "Hooked":
        made = cls._onto(store)
        made.hook = hook
        return made

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        self.hook(verb, keys[0])
        return execute()


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(str(tmp_path))


def leave(store: ObjectStore, one: CopiedObject, age: float = DAYS) -> None:
    """Store an object as a copy has left it that died some seconds ago."""
    assert isinstance(one.content, bytes)
    store.put(one.key, one.content, overwrite=False)
    at = time.time() - age
    os.utime(Path(store.url.removeprefix("file://")) / one.key, (at, at))


def copy(store: ObjectStore, **recheck: bool) -> None:
    copy_objects(store, "the segment", [LOG, INDEXES], MARK, **recheck)


def assert_whole(store: ObjectStore) -> None:
    assert {e.key: bytes(store.get(e.key)) for e in store.list()} == {
        one.key: one.content for one in ALL
    }


def age_of(store: ObjectStore, one: CopiedObject) -> float:
    modified = store.head(one.key).modified
    assert modified is not None
    return time.time() - modified / 1000


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.key)
@pytest.mark.parametrize("age", [DAYS, 3700, -DAYS])
def test_an_old_object_is_written_again(
    store: ObjectStore, one: CopiedObject, age: float
) -> None:
    """One of the future is as old: the clock of this machine may be wrong."""
    leave(store, one, age)
    before = store.head(one.key)
    copy(store)
    assert_whole(store)
    assert store.head(one.key) != before
    assert age_of(store, one) < 600


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.key)
def test_a_young_object_stays_as_it_is(store: ObjectStore, one: CopiedObject) -> None:
    leave(store, one, 1800)
    before = store.head(one.key)
    copy(store)
    assert_whole(store)
    assert store.head(one.key) == before


def test_an_object_of_unknown_age_is_written_again(store: ObjectStore) -> None:
    class Timeless(Hooked):
        def head(self, key: str) -> ObjectInfo:
            return replace(super().head(key), modified=None)

    leave(store, INDEXES, 0)
    calls: list[tuple[str, str]] = []
    copy(Timeless.over(store, lambda verb, key: calls.append((verb, key))))
    assert calls.count(("put", INDEXES.key)) == 2


def test_an_old_object_is_written_again_before_the_mark(store: ObjectStore) -> None:
    ages: list[float] = []

    def look(verb: str, key: str) -> None:
        if verb == "put" and key == MARK.key:
            ages.append(age_of(store, INDEXES))

    leave(store, INDEXES)
    copy(Hooked.over(store, look))
    assert [age < 600 for age in ages] == [True]


def test_an_old_object_that_cannot_be_written_again_is_an_error(
    store: ObjectStore,
) -> None:
    puts: list[str] = []

    def refuse(verb: str, key: str) -> None:
        if verb == "put" and key == INDEXES.key:
            puts.append(key)
            if len(puts) > 1:
                raise StorageUnavailableError("no answer")

    leave(store, INDEXES)
    with pytest.raises(
        StorageUnavailableError,
        match=r"not stored: no answer \(perhaps stored: s.indexes; not sent: s.mark",
    ):
        copy(Hooked.over(store, refuse))
    assert {entry.key for entry in store.list()} == {LOG.key, INDEXES.key}


@pytest.mark.parametrize("one", [LOG, INDEXES], ids=lambda one: one.key)
def test_what_a_scrub_has_deleted_meanwhile_is_put_again(
    store: ObjectStore, one: CopiedObject
) -> None:
    """It had looked at the object before that was written again."""

    def scrub(verb: str, key: str) -> None:
        if verb == "put" and key == MARK.key:
            store.delete([one.key])

    leave(store, one)
    copy(Hooked.over(store, scrub))
    assert_whole(store)


def test_all_are_looked_up_where_a_scrub_may_be_deleting(store: ObjectStore) -> None:
    def scrub(verb: str, key: str) -> None:
        if verb == "put" and key == MARK.key:
            store.delete([LOG.key, INDEXES.key])

    copy(Hooked.over(store, scrub), recheck=True)
    assert_whole(store)


def test_no_answer_whether_a_scrub_has_deleted_it_is_an_error(
    store: ObjectStore,
) -> None:
    def refuse(verb: str, key: str) -> None:
        if verb == "head" and key == INDEXES.key and MARK.key in stored():
            raise StorageUnavailableError("no answer")

    def stored() -> set[str]:
        return {entry.key for entry in store.list()}

    leave(store, INDEXES)
    with pytest.raises(StorageUnavailableError, match=r"perhaps stored: s.indexes"):
        copy(Hooked.over(store, refuse))


def test_a_copy_that_finds_nothing_looks_for_nothing(store: ObjectStore) -> None:
    calls: list[str] = []
    copy(Hooked.over(store, lambda verb, _: calls.append(verb)))
    assert calls == ["put"] * 3
