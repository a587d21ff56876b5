"""Columns that need no record: compressed batches are answered from their headers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from support.golden import decode, header_of, log_batches, rows_of
from support.kafka_data import KAFKA
from support.wire import (
    CODECS,
    LOG_APPEND_TIME,
    WireRecord,
    encode_batch,
    encode_record,
)
from support.wire_logs import logs
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.header import CRC_END
from tieredfs.format.batch.placeholders import (
    MAX_COUNT,
    replaceable,
    with_placeholders,
)
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.records.decode import RecordDecoder

pytestmark = pytest.mark.usefixtures("each_kernel")

_NARROW = ("topic", "partition", "offset", "timestampType")
_PACKED = sorted(set(CODECS) - {"none"})
_GARBAGE = b"not a frame of any codec"
_LOGS = {path.relative_to(KAFKA) for path in KAFKA.glob("**/*.log")}
_REFUSED = {
    path for path in _LOGS if path.parent.name in {"damaged-crc", "damaged-zero-tail"}
}
_WHOLE = sorted(_LOGS - _REFUSED)


def _dense(base: int, count: int, codec: str = "zstd", **fields: Any) -> bytes:  # noqa: ANN401 - encode_batch's
    records = [WireRecord(base + at, at, b"k", b"v" * 9) for at in range(count)]
    return encode_batch(records, codec=codec, **fields)


def _narrow(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in _NARROW} for row in rows]


@pytest.mark.parametrize("log", _WHOLE, ids=str)
def test_what_brokers_wrote_has_the_rows_of_all_columns(log: Path) -> None:
    data = (KAFKA / log).read_bytes()
    assert rows_of(decode(data, _NARROW)) == _narrow(rows_of(decode(data)))
    assert sum(
        batch.num_rows for batch in RecordDecoder("t", 0, ()).decode(scan_log(data))
    ) == len(decode(data, ("key",)))


@pytest.mark.parametrize("log", sorted(_REFUSED), ids=str)
def test_a_log_that_is_refused_is_refused_for_any_columns(log: Path) -> None:
    data = (KAFKA / log).read_bytes()
    with pytest.raises(CorruptBatchError) as narrow:
        decode(data, _NARROW)
    with pytest.raises(CorruptBatchError) as whole:
        decode(data)
    assert str(narrow.value) == str(whole.value)


def test_brokers_wrote_some_that_are_replaced_and_some_that_are_not() -> None:
    found = [
        bool(replaceable(batch)[0])
        for log in _WHOLE
        for batch in log_batches((KAFKA / log).read_bytes())
        if batch.is_packed[0]
    ]
    assert any(found)
    assert not all(found)


@st.composite
def _mixed(draw: st.DrawFn) -> bytes:
    """Draw batches of any codec, some large, with and without holes."""
    log, offset = b"", draw(st.integers(0, 1 << 60))
    for _ in range(draw(st.integers(1, 12))):
        count = draw(st.integers(1, 200))
        hole = draw(st.sampled_from([0, 0, 1]))
        records = [
            WireRecord(offset + at + hole * (at >= count // 2), at, None, b"v" * at)
            for at in range(count)
        ]
        stored = draw(st.sampled_from([None, None, 30_000]))
        codec = draw(st.sampled_from(sorted(CODECS)))
        if stored:  # a run that is long enough to be replaced between others
            noise = np.random.default_rng(0).bytes(stored)
            records[0] = WireRecord(records[0].offset, 0, None, noise)
        log += encode_batch(
            records,
            codec=codec,
            attributes=draw(st.sampled_from([0, LOG_APPEND_TIME])),
            base_offset=offset,
            last_offset=offset + count - 1 + hole,
        )
        offset += count + hole + draw(st.sampled_from([0, 0, 7]))
    return log


@given(_mixed() | logs().map(lambda drawn: drawn[0]), st.data())
@settings(max_examples=60)
def test_any_batches_have_the_rows_of_all_columns(
    log: bytes, data: st.DataObject
) -> None:
    rows = rows_of(decode(log))
    first = data.draw(st.integers(0, len(rows)))
    start = rows[first]["offset"] + data.draw(st.integers(-1, 1)) if rows[first:] else 0
    end = start + data.draw(st.integers(0, 1 << 10) | st.just(1 << 62))
    cut = (batches.within(max(start, 0), end) for batches in scan_log(log, name="log"))
    wanted = [row for row in rows if start <= row["offset"] < end]
    assert rows_of(decode(cut, _NARROW)) == _narrow(wanted)


@pytest.mark.parametrize("codec", _PACKED)
def test_what_is_compressed_is_not_read(codec: str) -> None:
    log = _dense(5, 40) + _dense(45, 3, codec, payload=_GARBAGE) + _dense(48, 2)
    assert decode(log, ("offset",))["offset"].to_pylist() == list(range(5, 50))
    with pytest.raises(CorruptBatchError, match="log: batch at position"):
        decode(log)
    with pytest.raises(CorruptBatchError, match="log: batch at position"):
        decode(log, ("offset", "timestamp"))


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(_dense(5, 3, last_offset=9, payload=_GARBAGE), id="with holes"),
        pytest.param(
            _dense(5, MAX_COUNT + 1, payload=_GARBAGE), id="very many records"
        ),
        pytest.param(_dense(5, 1, "none", payload=_GARBAGE), id="uncompressed"),
    ],
)
def test_other_batches_are_read(bad: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="log: batch at position"):
        decode(bad, ("offset",))


@given(st.data(), st.sampled_from(_PACKED), st.booleans())
@settings(max_examples=100)
def test_damage_is_found_by_the_checksum(
    data: st.DataObject,
    codec: str,
    other_between: bool,
) -> None:
    parts = [_dense(at * 5, 5, codec) for at in range(4)]
    if other_between:
        parts[1] = encode_batch([WireRecord(5, 0), WireRecord(9, 0)], codec=codec)
    bad = data.draw(st.integers(0, 3))
    before = len(decode(b"".join(parts[:bad]), ("key",)))
    wrong = bytearray(parts[bad])
    wrong[data.draw(st.integers(CRC_END, len(wrong) - 1))] ^= data.draw(
        st.integers(1, 255)
    )
    found = 0
    with pytest.raises(CorruptBatchError):  # noqa: PT012 - rows before the error count
        for piece in RecordDecoder("t", 0, ("offset",)).decode(
            scan_log(b"".join([*parts[:bad], wrong, *parts[bad + 1 :]]), name="log")
        ):
            found += piece.num_rows
    assert found <= before


def test_every_count_has_as_many_placeholders() -> None:
    counts = [1, 2, 63, 64, 65, 8191, 8192, 8193, MAX_COUNT - 1, MAX_COUNT]
    for count in counts:
        log = encode_batch(
            [WireRecord(0, 0)],
            codec="lz4",
            payload=_GARBAGE,
            count=count,
            last_offset=count - 1,
        )
        offsets = decode(log, ("offset",))["offset"].to_numpy()
        assert np.array_equal(offsets, np.arange(count))


def test_placeholders_are_records_without_anything() -> None:
    log = _dense(0, 8193)
    (batch,) = log_batches(log)
    (found,) = with_placeholders(batch)
    start, end = int(found["start"][0]), int(found["end"][0])
    assert bytes(found.buffer[start:end]) == b"".join(
        encode_record(WireRecord(at, 0), 0, 0) for at in range(8193)
    )
    assert found.table.tolist()[0][:-2] == batch.table.tolist()[0][:-2]


def test_the_last_offset_there_can_be_is_counted() -> None:
    last = (1 << 63) - 1
    log = _dense(last - 2, 3, payload=_GARBAGE)
    assert decode(log, ("offset",))["offset"].to_pylist() == [last - 2, last - 1, last]
    (whole,) = log_batches(
        encode_batch(codec="zstd", base_offset=0, last_offset=(1 << 31) - 1)
    )
    assert header_of(whole).record_count == 0
    assert not replaceable(whole)[0]


def test_short_runs_between_others_are_not_replaced() -> None:
    holes = [_dense(at * 10, 3, last_offset=at * 10 + 4) for at in range(3)]
    runs = [_dense(at * 10 + 5, 2) for at in range(3)]
    noise = np.random.default_rng(0).bytes(20_000)
    runs[1] = encode_batch([WireRecord(15, 0, None, noise)], codec="zstd")
    parts = [part for pair in zip(holes, runs, strict=True) for part in pair]
    (found,) = scan_log(b"".join(parts), name="log")
    assert replaceable(found).tolist() == [False, False, False, True, False, False]


def test_many_batches_give_pieces_of_the_usual_size() -> None:
    count = 50_000
    log = b"".join(
        encode_batch(
            codec="zstd",
            payload=_GARBAGE,
            base_offset=at * count,
            last_offset=(at + 1) * count - 1,
            count=count,
        )
        for at in range(20)
    )
    pieces = list(RecordDecoder("t" * 249, 0, _NARROW).decode(scan_log(log)))
    assert sum(piece.num_rows for piece in pieces) == 20 * count
    assert all(piece.nbytes <= 8 << 20 for piece in pieces)
    ends = [piece["offset"][-1].as_py() for piece in pieces]
    assert all(one < other for one, other in pairwise(ends))
