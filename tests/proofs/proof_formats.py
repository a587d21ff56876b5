"""Every real log and index, damaged: a typed error or the same answer, in bounds.

What a checksum covers cannot come out wrong. To get behind it, records are damaged
before the checksum is made right again: what then comes out is somebody's records, and
all that is asked for is that it is whole, or a typed error.
"""

import resource
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from support.damage import damaged
from support.golden import decode, headers_of, log_batches, rows_of
from support.kafka_data import KAFKA
from support.wire import seal, seal_message
from tieredfs.errors import CorruptDataError, TieredFSError, UnsupportedFormatError
from tieredfs.format.batch.header import HEADER_SIZE, MAGIC, BatchHeader
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import compress, decompress
from tieredfs.format.compression.lz4_frames import repair_lz4_header
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex

_CRC_END = 21  # bytes of a batch that no checksum covers
_SLOWEST = timedelta(seconds=20)  # for one damaged log of at most 300 KB
_MAX_MEMORY = 512 << 20  # that a whole campaign may add to the process


@contextmanager
def _typed_error(name: str) -> Iterator[None]:
    """Let an error pass that is typed and names what is damaged."""
    try:
        yield
    except (CorruptDataError, UnsupportedFormatError) as error:
        if not str(error).startswith(name):
            raise


def _files(suffix: str) -> list[Path]:
    found = sorted(KAFKA.glob(f"*/*/*/*{suffix}")) + sorted(
        KAFKA.glob(f"*/*/*{suffix}")
    )
    return [path for path in found if "expected" not in path.parts]


def _name(path: Path) -> str:
    return "/".join(path.relative_to(KAFKA).parts)


@cache
def _true_rows(log: Path) -> list[list[dict[str, Any]]]:
    return [rows_of(decode([batch])) for batch in log_batches(log.read_bytes())]


def _is_whole(log: Path) -> bool:
    try:
        return bool(_true_rows(log))
    except TieredFSError:
        return False  # the sample data has damaged logs of its own


def _headers(log: Path) -> list[BatchHeader]:
    return list(headers_of(log.read_bytes()))


# Of a torn log damage could restore the byte that is missing, and with it a true batch.
_LOGS = [log for log in _files(".log") if _is_whole(log) and "torn" not in str(log)]
_NEW = [log for log in _LOGS if all(h.magic == MAGIC for h in _headers(log))]
_OLD = [log for log in _LOGS if all(h.magic < MAGIC for h in _headers(log))]
assert len(_NEW) > 60
assert len(_OLD) > 9


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < _MAX_MEMORY


def _read(log: bytes) -> list[list[dict[str, Any]]]:
    """Read a log batch by batch, up to the typed error that ends it."""
    rows: list[list[dict[str, Any]]] = []
    with _typed_error("log: "):
        rows.extend(rows_of(decode([batch])) for batch in log_batches(log))
    return rows


def _payloads(rows: list[dict[str, Any]]) -> str:
    """Leave out the offsets: no checksum covers where a batch begins."""
    return repr([[v for k, v in row.items() if k != "offset"] for row in rows])


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_LOGS), st.data())
def test_a_damaged_log_gives_true_batches_or_a_typed_error(
    log: Path, data: st.DataObject
) -> None:
    true = {_payloads(rows) for rows in _true_rows(log)}
    for rows in _read(data.draw(damaged(log.read_bytes()))):
        assert _payloads(rows) in true


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_LOGS), st.data())
def test_a_log_cut_anywhere_gives_the_batches_before_the_cut(
    log: Path, data: st.DataObject
) -> None:
    stored = log.read_bytes()
    cut = data.draw(st.integers(0, len(stored)))
    whole = sum(header.end <= cut for header in headers_of(stored))
    assert _read(stored[:cut]) == _true_rows(log)[:whole]


@pytest.mark.parametrize("log", _LOGS, ids=_name)
def test_every_bit_that_no_checksum_covers_is_checked_or_moves_one_batch(
    log: Path,
) -> None:
    stored = log.read_bytes()
    headers = list(headers_of(stored))
    edges = [None, *headers, None]
    for before, header, after in zip(edges, headers, edges[2:], strict=False):
        start = before.position if before else header.position
        around = bytearray(stored[start : after.end if after else header.end])
        at = header.position - start
        for bit in range(8 * _CRC_END):
            around[at + bit // 8] ^= 1 << bit % 8
            found: list[BatchHeader] = []
            with _typed_error("log: "):
                found.extend(headers_of(around, offset=start))
            true = [h for h in (before, header, after) if h]
            for one, other in zip(found, true, strict=False):
                # The checked fields, and how far the offsets reach.
                assert one[5:] == other[5:]
                span = one.last_offset - one.base_offset
                assert span == other.last_offset - other.base_offset
            around[at + bit // 8] ^= 1 << bit % 8


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_NEW), st.data())
def test_damaged_records_under_a_right_checksum_are_whole_or_a_typed_error(
    log: Path, data: st.DataObject
) -> None:
    stored = log.read_bytes()
    header = data.draw(st.sampled_from(list(headers_of(stored))))
    batch = stored[header.position : header.end]
    records = decompress(header.codec, batch[HEADER_SIZE:])
    body = compress(header.codec, data.draw(damaged(bytes(records))))
    _decode_sealed(batch[:HEADER_SIZE] + body)


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_NEW), st.data())
def test_a_damaged_batch_under_a_right_checksum_is_whole_or_a_typed_error(
    log: Path, data: st.DataObject
) -> None:
    stored = log.read_bytes()
    header = data.draw(st.sampled_from(list(headers_of(stored))))
    batch = stored[header.position : header.end]
    _decode_sealed(data.draw(damaged(batch, _CRC_END)))


def _decode_sealed(batch: bytes) -> None:
    """Decode a batch once its length and checksum are right again."""
    length = struct.pack(">i", len(batch) - 12)
    _check_sealed(seal(bytearray(batch[:8] + length + batch[12:])))


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_OLD), st.data())
def test_damaged_messages_in_a_wrapper_are_whole_or_a_typed_error(
    log: Path, data: st.DataObject
) -> None:
    stored = log.read_bytes()
    header = data.draw(st.sampled_from(_headers(log)))
    start = header.position + (34 if header.magic else 26)
    if header.codec is Codec.NONE:
        start = header.position + 16
        sealed = stored[header.position : start]
        sealed += data.draw(damaged(stored[start : header.end]))
    else:
        packed = repair_lz4_header(stored[start : header.end])
        if header.codec is not Codec.LZ4:
            packed = stored[start : header.end]
        inside = decompress(header.codec, packed)
        body = compress(header.codec, data.draw(damaged(bytes(inside))))
        sealed = stored[header.position : start - 4]
        sealed += struct.pack(">i", len(body)) + body
    length = struct.pack(">i", len(sealed) - 12)
    _check_sealed(seal_message(bytearray(sealed[:8] + length + sealed[12:])))


def _check_sealed(sealed: bytes) -> None:
    with _typed_error("log: "):
        (header,) = headers_of(sealed, name="log")
        table = decode(sealed)
        table.validate(full=True)
        offsets = table["offset"].to_pylist()
        assert len(offsets) == header.record_count
        assert all(a < b for a, b in pairwise([header.base_offset - 1, *offsets]))
        assert all(offset <= header.last_offset for offset in offsets)


def _base(path: Path) -> int:
    return int(path.name[:20])


def _offsets(data: bytes, path: Path) -> object:
    index = OffsetIndex.parse(data, _base(path), name="x")
    entries = [index.entry(number) for number in range(len(index))]
    assert all(a < b and p < q for (a, p), (b, q) in pairwise(entries))
    assert all(offset >= _base(path) and at > 0 for offset, at in entries)
    return entries


def _times(data: bytes, path: Path) -> object:
    index = TimeIndex.parse(data, _base(path), name="x")
    entries = [index.entry(number) for number in range(len(index))]
    assert all(s < t and a <= b for (s, a), (t, b) in pairwise(entries))
    return entries


def _aborts(data: bytes, path: Path) -> object:
    entries = TransactionIndex.parse(data, _base(path), name="x").entries
    assert all(a.last_offset < b.last_offset for a, b in pairwise(entries))
    return list(entries)


def _producers(data: bytes, _path: Path) -> object:
    return list(ProducerSnapshot.parse(data, name="x").producers)


def _epochs(data: bytes, _path: Path) -> object:
    entries = parse_leader_epochs(data, name="x").entries
    assert all(a < b and s < t for (a, s), (b, t) in pairwise(entries))
    return list(entries)


_PARSERS: dict[str, Callable[[bytes, Path], object]] = {
    ".index": _offsets,
    ".timeindex": _times,
    ".txnindex": _aborts,
    ".snapshot": _producers,
    "leader?epoch?checkpoint": _epochs,
}
_INDEXES = [(path, suffix) for suffix in _PARSERS for path in _files(suffix)]
assert len({suffix for _, suffix in _INDEXES}) == len(_PARSERS)
_of_an_index = pytest.mark.parametrize(
    ("path", "suffix"), _INDEXES, ids=[_name(path) for path, _ in _INDEXES]
)


def _parsed(data: bytes, path: Path, suffix: str) -> object:
    """Parse an index; None when it is refused, as it should be, by its name."""
    found: list[object] = []
    with _typed_error("x: "):
        found.append(_PARSERS[suffix](data, path))
    return found[0] if found else None


@_of_an_index
def test_every_flipped_bit_of_an_index_is_refused_or_leaves_a_valid_index(
    path: Path, suffix: str
) -> None:
    data = bytearray(path.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))  # flips in the padding are all alike
    for bit in range(8 * min(len(data), used + 40)):
        data[bit // 8] ^= 1 << bit % 8
        found = _parsed(bytes(data), path, suffix)
        assert found is None or suffix != ".snapshot"  # a checksum covers all of it
        data[bit // 8] ^= 1 << bit % 8


@_of_an_index
def test_every_truncation_of_an_index_is_refused_or_leaves_a_valid_index(
    path: Path, suffix: str
) -> None:
    data = path.read_bytes()
    whole: Any = _parsed(data, path, suffix)
    for cut in range(min(len(data), 4096)):
        found: Any = _parsed(data[:cut], path, suffix)
        if found and whole and suffix != "leader?epoch?checkpoint":
            assert found == whole[: len(found)]


@settings(deadline=_SLOWEST)
@given(st.sampled_from(_INDEXES), st.data())
def test_a_damaged_index_is_refused_or_valid(
    index: tuple[Path, str], data: st.DataObject
) -> None:
    path, suffix = index
    _parsed(data.draw(damaged(path.read_bytes())), path, suffix)
