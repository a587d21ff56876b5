"""Logs from before version 2, and logs that go on in it, are logs like any other."""

from pathlib import Path

import pytest

from servers import Bucket
from support.golden import Golden, expected_record_facts, goldens, record_facts, rows_of
from support.log_directories import (
    native,
    partition_of,
    push_all,
    source_of,
    topic_of,
    write_log,
)
from support.stores import files_of
from tieredfs import ObjectStore, OffsetAndTimestamp
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage import RemoteStorageManager

_OLD = [
    golden
    for golden in goldens(".log.expected.jsonl")
    if golden.source.parent.name.startswith(("v0-", "v1-", "mixed-"))
]
_every_log = pytest.mark.parametrize("golden", _OLD, ids=str)


def _end(golden: Golden) -> int:
    end: int = golden.lines()[-1]["offset"] + 1
    return end


def _logdir(golden: Golden, root: Path) -> Path:
    """Lay the log out as a closed segment, with an empty active one behind it."""
    write_log(root, {int(golden.source.stem): golden.read(), _end(golden): b""})
    return root


def _stored(golden: Golden, root: Path, place: Bucket) -> RemoteStorageManager:
    report = push_all(source_of(_logdir(golden, root)), native(place))
    assert [one.outcome for one in report.segments] == [PushOutcome.COPIED]
    return native(place)


@_every_log
def test_a_scan_gives_the_records_that_kafka_reads(
    golden: Golden, tmp_path: Path
) -> None:
    topic = topic_of(source_of(_logdir(golden, tmp_path)))
    found = [record_facts(row) for row in rows_of(topic.scan().to_table())]
    assert found == [expected_record_facts(record) for record in golden.lines()]
    assert topic.end_offsets() == {0: _end(golden)}


@_every_log
def test_a_scan_may_begin_at_any_offset(golden: Golden, tmp_path: Path) -> None:
    topic = topic_of(source_of(_logdir(golden, tmp_path)))
    offsets = [record["offset"] for record in golden.lines()]
    for number in range(0, len(offsets), 7):
        found = topic.scan(start=offsets[number], columns=("offset",)).to_table()
        assert found["offset"].to_pylist() == offsets[number:]


@_every_log
def test_a_pushed_log_is_described_verified_and_pulled_byte_for_byte(
    golden: Golden, tmp_path: Path
) -> None:
    place = Bucket(str(tmp_path / "native"), {})
    stored = _stored(golden, tmp_path / "broker", place)
    (segment,) = stored.list_segments(partition_of())
    described = stored.describe(segment)
    stamps = [record["timestamp"] for record in golden.lines()]
    assert described.max_timestamp_ms == max(stamps)
    (report,) = verify(stored, stored.list_partitions(), Depth.EVERYTHING)
    assert report.problems == ()
    back = ObjectStore(str(tmp_path / "back"))
    pull(stored, back, stored.list_partitions())
    assert golden.read() in files_of(tmp_path / "back").values()


@_every_log
def test_a_time_is_found_where_the_first_record_as_late_is(
    golden: Golden, tmp_path: Path
) -> None:
    place = Bucket(str(tmp_path / "native"), {})
    topic = topic_of(_stored(golden, tmp_path / "broker", place))
    stamps = [(r["timestamp"], r["offset"]) for r in golden.lines()]
    for wanted in {0, *(stamp for stamp, _ in stamps[::9] if stamp >= 0)}:
        first = next(((s, o) for s, o in stamps if s >= wanted), None)
        expected = None if first is None else OffsetAndTimestamp(first[1], first[0])
        assert topic.offsets_for_times({0: wanted}) == {0: expected}
