"""What a copy reads of a log, and what it refuses to store."""

from dataclasses import replace
from pathlib import Path

import pytest

from tieredfs import (
    CorruptIndexError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    inspect_log_segment,
)
from tieredfs.testing.samples import PARTITIONS, sample

ONE = sample(PARTITIONS[0], 1)


@pytest.mark.parametrize("is_file", [False, True])
def test_what_is_written_is_the_log_and_what_is_returned_its_facts(
    is_file: bool, tmp_path: Path
) -> None:
    data = ONE.data
    if is_file:
        path = tmp_path / "a.log"
        path.write_bytes(ONE.log)
        data = replace(data, log=path)
    pieces: list[memoryview] = []
    found = inspect_log_segment(ONE.metadata, data, pieces.append)
    assert b"".join(pieces) == ONE.log
    assert found.facts.max_timestamp_ms == ONE.described.max_timestamp_ms
    assert not found.inconsistent
    assert found.rebuilt.keys() == ONE.data.indexes.keys()


def test_what_no_reader_could_read_is_refused(tmp_path: Path) -> None:
    def ignore(piece: memoryview) -> None:
        del piece

    endless = replace(ONE.metadata, end_offset=None)
    with pytest.raises(InvalidArgumentError, match="no end offset"):
        inspect_log_segment(endless, ONE.data, ignore)
    missing = replace(ONE.data, log=tmp_path / "missing.log")
    with pytest.raises(NotFoundError, match=r"missing\.log"):
        inspect_log_segment(ONE.metadata, missing, ignore)
    other = sample(PARTITIONS[0], 0).data.indexes[IndexType.TIMESTAMP]
    wrong = LogSegmentData(ONE.log, {**ONE.data.indexes, IndexType.TIMESTAMP: other})
    with pytest.raises(CorruptIndexError, match="TIMESTAMP index"):
        inspect_log_segment(ONE.metadata, wrong, ignore)
