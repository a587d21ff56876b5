"""What a decoder gives is bounded, whatever the batches are."""

from collections.abc import Iterator

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from support.golden import decode, log_batches
from support.wire import WireRecord, encode_batch
from tieredfs import Options
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import COLUMNS

pytestmark = pytest.mark.usefixtures("each_kernel")

_MIB = 1 << 20
_MAX = 8 * _MIB


def _log(batches: int, records: int, size: int, codec: str = "none") -> bytes:
    """Write a log of batches of records of ``size`` bytes of value."""
    value = b"v" * size
    return b"".join(
        encode_batch(
            [WireRecord(at * records + i, 0, b"k", value) for i in range(records)],
            codec=codec,
        )
        for at in range(batches)
    )


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    ("batches", "records", "size"),
    [
        (3, 4, 3 * _MIB),  # batches larger than a piece
        (1, 64, _MIB // 2),  # one batch of many pieces
        (40, 1, _MIB),  # batches of one record
        (64, 1024, 512),  # batches much smaller than a piece
    ],
)
def test_pieces_hold_one_to_eight_mib(
    codec: str, batches: int, records: int, size: int
) -> None:
    log = _log(batches, records, size, codec)
    pieces = list(RecordDecoder("t", 0).decode(scan_log(log, name="log")))
    assert sum(piece.num_rows for piece in pieces) == batches * records
    assert all(piece.nbytes <= _MAX for piece in pieces)
    assert all(piece.nbytes >= _MIB for piece in pieces[:-1])


@pytest.mark.parametrize("most", [_MIB // 16, _MIB // 4, _MIB, 64 * _MIB])
def test_pieces_hold_what_an_option_allows(most: int) -> None:
    log = _log(batches=40, records=100, size=1024)
    options = Options(output_batch_bytes=most)
    pieces = list(RecordDecoder("t", 0, None, options).decode(scan_log(log)))
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches(_pieces(log))
    assert all(piece.nbytes <= most for piece in pieces)
    assert all(piece.nbytes >= most / 4 for piece in pieces[:-1])
    assert (len(pieces) == 1) == (most == 64 * _MIB)


def test_a_record_larger_than_a_piece_is_a_piece_of_its_own() -> None:
    values = [b"a", b"b" * (9 * _MIB), b"c"]
    records = [WireRecord(at, 0, None, value) for at, value in enumerate(values)]
    log = encode_batch(records)
    pieces = list(RecordDecoder("t", 0, ("value",)).decode(scan_log(log, name="log")))
    assert [piece.num_rows for piece in pieces] == [1, 1, 1]
    assert [piece["value"][0].as_py() for piece in pieces] == values


def test_many_small_batches_come_out_together() -> None:
    log = _log(batches=2000, records=2, size=50)
    pieces = list(RecordDecoder("t", 0).decode(scan_log(log, name="log")))
    assert [piece.num_rows for piece in pieces] == [4000]


def test_small_compressed_batches_of_many_pieces_keep_their_offsets() -> None:
    log = _log(40, 100, 1024, "zstd")
    pieces = RecordDecoder("t", 0, ("offset",)).decode(scan_log(log, name="log"))
    assert [o for piece in pieces for o in piece["offset"].to_pylist()] == [
        *range(4000)
    ]


def test_small_batches_of_different_codecs_come_out_together() -> None:
    codecs = ["none", "gzip", "snappy", "snappy-raw", "lz4", "zstd", "none", "none"]
    log = b"".join(
        encode_batch([WireRecord(at, at, b"k", codec.encode())], codec=codec)
        for at, codec in enumerate(codecs)
    )
    pieces = list(RecordDecoder("t", 0).decode(scan_log(log, name="log")))
    assert len(pieces) == 1
    assert pieces[0]["value"].to_pylist() == [codec.encode() for codec in codecs]


def test_batches_are_decoded_only_as_they_are_needed() -> None:
    opened = 0
    log = _log(batches=60, records=1, size=_MIB)

    def counted() -> Iterator[LogBatches]:
        nonlocal opened
        for batch in log_batches(log):
            opened += 1
            yield batch

    pieces = RecordDecoder("t", 0).decode(counted())
    next(pieces)
    assert opened <= 9


def _pieces(
    log: bytes, topic: str = "t", columns: tuple[str, ...] | None = None
) -> list[pa.RecordBatch]:
    return list(RecordDecoder(topic, 0, columns).decode(scan_log(log, name="log")))


@pytest.mark.parametrize("columns", [None, ("topic",), ("key", "value", "headers")])
@pytest.mark.parametrize("topic", ["t", "t" * 249], ids=["short", "long"])
def test_pieces_of_tiny_records_are_bounded_too(
    topic: str, columns: tuple[str, ...] | None
) -> None:
    records = [WireRecord(at, 0) for at in range(300_000)]
    pieces = _pieces(encode_batch(records, codec="zstd"), topic, columns)
    assert sum(piece.num_rows for piece in pieces) == len(records)
    assert max(piece.nbytes for piece in pieces) <= _MAX
    if columns is None:
        assert min(piece.nbytes for piece in pieces[:-1]) >= _MIB


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(((b"", None),) * 40, id="empty headers"),
        pytest.param(((b"\xff" * 400, b""),), id="names that are not UTF-8"),
        pytest.param(((b"name", b"v" * 200),) * 2, id="usual headers"),
    ],
)
def test_pieces_of_records_with_headers_are_bounded_too(
    headers: tuple[tuple[bytes, bytes | None], ...],
) -> None:
    records = [WireRecord(at, 0, None, None, headers) for at in range(40_000)]
    pieces = _pieces(encode_batch(records))
    assert sum(piece.num_rows for piece in pieces) == len(records)
    assert max(piece.nbytes for piece in pieces) <= _MAX
    assert min(piece.nbytes for piece in pieces[:-1]) >= _MIB


@given(
    st.lists(
        st.tuples(st.integers(0, 3 * _MIB), st.integers(1, 30)),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from(COLUMNS), unique=True),
)
@settings(max_examples=30)
def test_no_piece_of_several_records_is_larger_than_eight_mib(
    groups: list[tuple[int, int]], columns: list[str]
) -> None:
    sizes = [
        size
        for size, count in groups
        for _ in range(min(count, 1 + _MAX // (size + 1)))
    ]
    records = [WireRecord(at, 0, b"k", bytes(size)) for at, size in enumerate(sizes)]
    pieces = _pieces(encode_batch(records, codec="lz4"), "t", tuple(columns))
    assert sum(piece.num_rows for piece in pieces) == len(records)
    assert all(piece.nbytes <= _MAX for piece in pieces if piece.num_rows > 1)


def test_no_columns_still_count_the_records() -> None:
    pieces = _pieces(_log(3, 10, 10), "t", ())
    assert [(piece.num_columns, piece.num_rows) for piece in pieces] == [(0, 30)]
    table = pa.Table.from_batches(pieces, pa.schema([]))
    assert table.num_rows == 30


def test_a_piece_does_not_keep_the_log_alive() -> None:
    (piece,) = RecordDecoder("t", 0).decode(log_batches(_log(1, 1000, 100)))
    held = sum(
        buffer.size
        for column in piece.columns
        for buffer in column.buffers()
        if buffer is not None
    )
    assert held <= 2 * piece.nbytes


def test_a_cut_in_the_middle_of_a_group_keeps_the_order() -> None:
    log = _log(batches=10, records=10, size=10)
    cut = (b.within(35, 67) for b in scan_log(log, name="log"))
    assert decode(cut, ("offset",))["offset"].to_pylist() == list(range(35, 67))


@pytest.mark.parametrize(
    ("first", "end", "kept"),
    [
        (0, 19, list(range(10, 19))),
        (11, 1 << 40, list(range(11, 20))),
        (12, 18, list(range(12, 18))),
        (10, 20, list(range(10, 20))),
        (20, 1 << 40, []),
        (0, 10, []),
    ],
)
def test_the_window_of_one_batch_does_not_touch_its_neighbours(
    first: int, end: int, kept: list[int]
) -> None:
    batches = list(log_batches(_log(batches=3, records=10, size=10)))
    batches[1] = batches[1].within(first, end)
    found = decode(batches, ("offset",))["offset"].to_pylist()
    assert found == [*range(10), *kept, *range(20, 30)]
