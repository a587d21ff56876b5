"""What becomes of a copy of three objects, each of which may fail in its own way."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from support.outcomes import Outcome, OutcomeStore
from support.samples import KEYS
from tieredfs import NotFoundError, ObjectStore, SegmentMetadata, TieredFSError
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs_aiven import Aiven

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
