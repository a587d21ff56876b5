"""What becomes of a copy of three objects, each of which may fail in its own way."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.outcomes import Outcome, OutcomeStore
from support.samples import KEYS
from tieredfs import (
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.log.scrub.scrub import LeftoverState, scrub
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.stores import InterceptedStore
from tieredfs_aiven import Aiven

_T = TypeVar("_T")

PARTITION = PARTITIONS[0]
ONE = sample(PARTITION, 1)
OPTIONS: Mapping[str, Any] = {
    "key_prefix": "a/",
    "chunk_size": 300,
    "encryption_keys": KEYS,
}
MODES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "zstd": {"compression": "zstd"},
    "encrypted": {"encryption_key_id": "k1"},
}
SUFFIXES = ("log", "indexes", "rsm-manifest")
CELLS = [dict(zip(SUFFIXES, cell, strict=True)) for cell in product(Outcome, repeat=3)]


def listed(store: ObjectStore) -> list[SegmentMetadata]:
    """Return the segments that another process sees."""
    try:
        return Aiven(store, **OPTIONS).list_segments(PARTITION)
    except NotFoundError:
        return []


def assert_whole(store: ObjectStore, one: Sample = ONE) -> None:
    """Assert that another process reads all of a segment."""
    storage = Aiven(store, **OPTIONS)
    assert [segment.id for segment in listed(store)] == [one.metadata.id]
    assert storage.fetch_log_segment(one.metadata) == one.log
    assert dict(storage.fetch_all_indexes(one.metadata)) == dict(one.data.indexes)
    described = storage.describe(one.metadata)
    assert described.end_offset == one.metadata.end_offset
    assert not list(storage.scrub(PARTITION))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(cell.values()))
def test_a_copy_is_whole_or_an_error_after_which_nothing_is_seen(
    memory: ObjectStore, cell: Mapping[str, Outcome], mode: str
) -> None:
    faulty = OutcomeStore.over(memory, cell)
    storage = Aiven(faulty, **OPTIONS, **MODES[mode])
    lost = [s for s in SUFFIXES if cell[s] in {Outcome.FAILED, Outcome.HUNG}]
    if not lost:
        storage.copy_log_segment(ONE.metadata, ONE.data)
        assert_whole(memory)
        return
    with pytest.raises(TieredFSError) as caught:
        storage.copy_log_segment(ONE.metadata, ONE.data)
    named = [s for s in lost if s != "rsm-manifest"] or lost
    failed = str(caught.value).partition("(not stored: ")[2].partition(";")[0]
    assert all(f".{suffix}" in failed for suffix in named)
    assert not listed(memory)
    left = {entry.key: entry.size for entry in memory.list()}
    leftovers = list(Aiven(memory, **OPTIONS).scrub(PARTITION))
    assert {leftover.key: leftover.size for leftover in leftovers} == left
    again = Aiven(memory, **OPTIONS, **MODES[mode])
    again.copy_log_segment(ONE.metadata, ONE.data)
    assert_whole(memory)
    faulty.land()
    assert_whole(memory)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(cell.values()))
def test_a_second_copy_never_damages_the_first(
    memory: ObjectStore, cell: Mapping[str, Outcome], mode: str
) -> None:
    options = {**OPTIONS, **MODES[mode]}
    first = Aiven(memory, **options).copy_log_segment(ONE.metadata, ONE.data)
    before = {entry.key: memory.get(entry.key) for entry in memory.list()}
    faulty = OutcomeStore.over(memory, cell)
    try:
        found = Aiven(faulty, **options).copy_log_segment(ONE.metadata, ONE.data)
        assert found == first
    except TieredFSError:
        pass
    faulty.land()
    assert {entry.key: memory.get(entry.key) for entry in memory.list()} == before
    assert_whole(memory)


class BeforePut(InterceptedStore):
    """The same objects, where a function is called before an object is put.

    They are put concurrently.
    """

    suffix: str
    call: Callable[[], object]

    @classmethod
    def over(
        cls, store: ObjectStore, suffix: str, call: Callable[[], object]
    ) -> "BeforePut":
        made = cls._onto(store)
        made.suffix, made.call = suffix, call
        return made

    @property
    def is_local(self) -> bool:
        return False

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb.startswith("put") and keys[0].endswith(self.suffix):
            self.call()
        return execute()


def leave_indexes(folder: Path, mode: str) -> ObjectStore:
    """Let a copy die three days ago that had stored only the indexes."""
    store = ObjectStore(str(folder))
    dying = OutcomeStore.over(store, {"log": Outcome.FAILED})
    with pytest.raises(StorageUnavailableError):
        Aiven(dying, **OPTIONS, **MODES[mode]).copy_log_segment(ONE.metadata, ONE.data)
    (left,) = folder.rglob("*.indexes")
    at = time.time() - 3 * 86_400
    os.utime(left, (at, at))
    return store


def wait_until_younger(path: Path, seconds: float = 60) -> None:
    """Wait until a file has been written again; no longer than some seconds."""
    end = time.monotonic() + seconds
    while path.stat().st_mtime < time.time() - 86_400 and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("mode", ["plain", "zstd"])
def test_a_scrub_while_the_log_is_sent_keeps_what_the_copy_has_adopted(
    tmp_path: Path, mode: str
) -> None:
    store = leave_indexes(tmp_path, mode)
    (left,) = tmp_path.rglob("*.indexes")
    states: list[LeftoverState] = []

    def run_scrub() -> None:
        wait_until_younger(left)
        report = scrub(Aiven(store, **OPTIONS), [PARTITION], delete=True)
        states.extend(one.state for one in report.leftovers)

    sent = BeforePut.over(store, "log", run_scrub)
    Aiven(sent, **OPTIONS, **MODES[mode]).copy_log_segment(ONE.metadata, ONE.data)
    assert states == [LeftoverState.KEPT]
    assert_whole(store)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_late_scrub_deletes_of_a_repeated_copy_is_put_again(
    tmp_path: Path, mode: str
) -> None:
    """It had looked at the objects before the copy began."""
    store = leave_indexes(tmp_path, mode)

    once = [True]

    def delete() -> None:
        if once:
            once.clear()
            store.delete([e.key for e in store.list() if e.key.endswith(".indexes")])

    sent = BeforePut.over(store, "rsm-manifest", delete)
    Aiven(sent, **OPTIONS, **MODES[mode]).copy_log_segment(ONE.metadata, ONE.data)
    assert_whole(store)
