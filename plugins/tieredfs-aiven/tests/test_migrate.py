"""What the plugin's original wrote is moved to other layouts, byte for byte."""

from pathlib import Path

import pytest

from support.samples import DATA, KEYS, Sample, new_store, samples
from tieredfs import IndexType, RemoteStorageManager, open_storage
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.push.outcome import PushOutcome

TIERS = {
    (one.folder, one.expected["step"]): one
    for one in samples()
    if one.folder.is_relative_to(DATA)
}
MADE_UP = "txn.topic-0-1"
"""The sample whose producer snapshot its log contradicts."""

_Content = dict[tuple[str, int, str], tuple[bytes, dict[IndexType, bytes]]]


def contents(storage: RemoteStorageManager) -> _Content:
    """Return the log and the indexes of every segment."""
    found: _Content = {}
    for partition in storage.list_partitions():
        for listed in storage.list_segments(partition):
            indexes = storage.fetch_all_indexes(listed)
            log = b"".join(storage.stream_log(storage.describe(listed, indexes)))
            data = {kind: bytes(index) for kind, index in indexes.items()}
            if partition.topic == MADE_UP:
                data.pop(IndexType.PRODUCER_SNAPSHOT)
            name = str(partition), listed.start_offset, str(listed.id)
            found[name] = log, data
    return found


@pytest.mark.parametrize(
    "one", TIERS.values(), ids=[f"{Path(f).name}-{step}" for f, step in TIERS]
)
@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ("single-object", {}),
        ("single-object", {"compression": "zstd"}),
        ("kafka-local", {}),
    ],
)
def test_every_tier_is_moved(
    one: Sample, layout: str, options: dict[str, object]
) -> None:
    source, target = one.open(), open_storage(new_store(), layout, options)
    partitions = source.list_partitions()
    expected = contents(source)
    report = migrate(source, target, partitions)
    assert report.errors == []
    assert report.count(PushOutcome.COPIED) == len(expected) > 0
    assert contents(target) == expected
    for moved in report.segments:
        is_made_up = moved.segment.partition.topic == MADE_UP
        assert moved.rebuilt == ((IndexType.PRODUCER_SNAPSHOT,) if is_made_up else ())
    again = migrate(source, target, partitions)
    assert again.count(PushOutcome.PRESENT) == len(expected)


def test_a_tier_without_its_key_is_refused_segment_by_segment() -> None:
    one = next(s for s in TIERS.values() if s.folder.name == "encrypted")
    source = type(one.open())(one.open().store, key_prefix="tiered/")
    assert KEYS
    target = open_storage(new_store(), "single-object")
    report = migrate(source, target, source.list_partitions())
    assert report.count(PushOutcome.COPIED) == 0
    assert len(report.errors) == len(report.segments) > 1
