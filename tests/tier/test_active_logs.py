"""Every log that Kafka reads is read where a broker would be writing it."""

from pathlib import Path

import pytest

from servers import Bucket
from support.golden import Golden, expected_record_facts, goldens, record_facts, rows_of
from support.log_directories import native, push_all, source_of, topic_of, write_log
from support.segments import records
from support.wire import encode_batch
from tieredfs import CorruptBatchError
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, verify

LOGS = [
    golden
    for golden in goldens(".log.expected.jsonl")
    if "record-formats" in golden.source.parts
    and not golden.source.parent.name.startswith("damaged-")
]
every_log = pytest.mark.parametrize("golden", LOGS, ids=str)


@every_log
def test_a_log_of_any_format_is_read_pushed_and_verified(
    golden: Golden, tmp_path: Path
) -> None:
    folder = write_log(tmp_path / "broker", {int(golden.source.stem): golden.read()})
    (folder / "leader-epoch-checkpoint").unlink()
    source = source_of(tmp_path / "broker")
    lines = golden.lines()
    kafkas = [expected_record_facts(one) for one in lines if not one.get("control")]
    archive = native(Bucket(str(tmp_path / "archive"), {}))
    report = push_all(source, archive, active=True)
    assert [one.outcome for one in report.segments] == [PushOutcome.COPIED]
    for storage in (source, archive):
        topic = topic_of(storage)
        assert topic.end_offsets() == {0: lines[-1]["offset"] + 1}
        found = [record_facts(row) for row in rows_of(topic.scan().to_table())]
        assert found == kafkas
    (seen,) = verify(archive, archive.list_partitions(), Depth.EVERYTHING)
    assert seen.problems == ()


@pytest.mark.parametrize("gap", [0, 1, 1000])
def test_what_a_replica_got_from_a_cleaned_log_may_begin_and_go_on_behind_a_hole(
    tmp_path: Path, gap: int
) -> None:
    logs = {0: encode_batch(records(gap, 5)) + encode_batch(records(5 + 2 * gap, 5))}
    write_log(tmp_path, logs)
    found = topic_of(source_of(tmp_path)).scan().to_table()["offset"].to_pylist()
    assert found == [*range(gap, gap + 5), *range(2 * gap + 5, 2 * gap + 10)]


@pytest.mark.parametrize("bit", range(31, 63))
def test_a_last_offset_that_no_segment_reaches_is_corrupt(
    tmp_path: Path, bit: int
) -> None:
    last = bytearray(encode_batch(records(5, 5)))
    last[7 - bit // 8] ^= 1 << bit % 8
    write_log(tmp_path, {0: encode_batch(records(0, 5)) + last})
    with pytest.raises(CorruptBatchError, match=r"t-0/0+: end offset"):
        topic_of(source_of(tmp_path)).end_offsets()
