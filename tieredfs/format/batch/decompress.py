"""Make batches ready for decoding: uncompressed, and of version 2."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.blocks import decompress_blocks
from tieredfs.format.batch.header import CODEC_MASK, CRC_END, MAGIC, MIN_RECORD
from tieredfs.format.batch.legacy import upgraded_records
from tieredfs.format.batch.placeholders import replaceable, with_placeholders
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.checksum import check_crc32c
from tieredfs.format.compression.bounded_output import allocate
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import MAX_DECOMPRESSED, decompress
from tieredfs.format.compression.decompress_ahead import (
    MIN_WORK_BYTES,
    decompress_ahead,
)

__all__ = ["decompress_batches"]

_LIMIT_NAME: Final = "the option max_decompressed_bytes"
_NOTHING: Final = memoryview(b"")
_CODECS: Final = tuple(Codec)
_MAX_JOINED_BYTES: Final = 1 << 20
"""Decompressed bytes of small batches that are joined in one buffer."""

_COLUMNS: Final = (
    *("position", "size", "crc", "attributes", "record_count", "magic"),
    *("start", "end"),
)


def decompress_batches(
    batches: Iterable[LogBatches],
    max_batch_bytes: int | None = None,
    *,
    offsets_only: bool = False,
) -> Generator[LogBatches]:
    """Yield the same batches, their records uncompressed and of version 2.

    Batches that need no conversion are not copied. Small batches among the others are
    joined in buffers of up to 1 MiB. While the caller processes the batches yielded,
    another thread decompresses the next ones: see ``decompress_ahead``.

    Args:
        batches: The batches.
        max_batch_bytes: Maximum size of the records of one batch, decompressed; None
            for 256 MiB and an error that does not name an option to raise.
        offsets_only: Whether neither payloads nor timestamps of records are needed:
            then placeholders replace the records of a compressed batch whose header
            states their offsets. It is not decompressed, only its checksum is verified.

    Raises:
        CorruptBatchError: A checksum does not match, or the records of a batch are not
            valid data of its codec, decompress to more than ``max_batch_bytes``, or to
            less than its record count needs. The batches before it have been yielded.
    """
    for group in batches:
        if not offsets_only or not len(group):
            yield from _uncompressed(group, max_batch_bytes)
            continue
        replaced = replaceable(group)
        is_replaced = bool(replaced[0])
        for part in group.split(replaced[1:] != replaced[:-1]):
            if is_replaced:
                yield from with_placeholders(part)
            else:
                yield from _uncompressed(part, max_batch_bytes)
            is_replaced = not is_replaced


def _uncompressed(
    batches: LogBatches, max_batch_bytes: int | None
) -> Iterator[LogBatches]:
    """Yield batches as they are, or decompress them."""
    packed = batches.is_packed
    if not packed.any():
        yield batches
        return
    for part in batches.split(packed[1:] != packed[:-1]):
        if part.is_packed[0]:
            yield from _unpacked(part, max_batch_bytes)
        else:
            yield part


def _unpacked(batches: LogBatches, max_batch_bytes: int | None) -> Iterator[LogBatches]:
    """Decompress batches: large ones in another thread, small ones together."""
    large = batches["end"] - batches["start"] >= MIN_WORK_BYTES
    parts = batches.split(large[1:] | large[:-1])
    for opened in decompress_ahead(
        parts, partial(_open, max_batch_bytes=max_batch_bytes), _work
    ):
        yield from opened.batches


class _Opened(NamedTuple):
    """Decompressed batches, or small ones that are decompressed on iteration."""

    batches: Iterable[LogBatches]
    size: int = 0


def _work(batches: LogBatches) -> int:
    """Return the bytes to decompress ahead of the caller; 0 for small batches."""
    row = batches.table[0]
    if (
        len(batches) > 1
        or not row["record_count"]
        or not row["attributes"] & CODEC_MASK
    ):
        return 0
    return int(row["end"] - row["start"])


def _open(batches: LogBatches, *, max_batch_bytes: int | None) -> _Opened:
    """Decompress a large batch, or prepare to decompress small ones on iteration."""
    if len(batches) > 1 or _work(batches) < MIN_WORK_BYTES:
        return _Opened(_small(batches, max_batch_bytes))
    (found,) = _small(batches, max_batch_bytes)
    return _Opened((found,), len(found.buffer))


def _small(batches: LogBatches, max_batch_bytes: int | None) -> Iterator[LogBatches]:
    """Decompress batches, many at a time where possible, else one by one."""
    parts: list[memoryview] = []
    held = first = row = 0
    rows: list[tuple[int, ...]] = []
    limit = MAX_DECOMPRESSED if max_batch_bytes is None else max_batch_bytes
    try:
        while row < len(batches):
            found = decompress_blocks(batches, row, limit)
            if not found and not rows:
                # As plain integers: a small batch takes only microseconds.
                rows = list(
                    zip(*(batches[name].tolist() for name in _COLUMNS), strict=True)
                )
            part = (
                _NOTHING if found else _unpack(batches, row, rows[row], max_batch_bytes)
            )
            if parts and (found or held + len(part) > _MAX_JOINED_BYTES):
                yield _together(batches, first, parts)
                held, parts = 0, []
            if found:
                yield found
                row += len(found)
                continue
            if not parts:
                first = row
            parts.append(part)
            held += len(part)
            row += 1
    except Exception:
        if parts:  # batches before the error are yielded first
            yield _together(batches, first, parts)
        raise
    if parts:
        yield _together(batches, first, parts)


def _unpack(
    batches: LogBatches, number: int, row: tuple[int, ...], max_batch_bytes: int | None
) -> memoryview:
    """Decompress one batch with its codec's library."""
    position, size, crc, attributes, count, magic, start, end = row
    where = f"{batches.name}: batch at position {position}"
    if not batches.is_checked:
        checked = batches.buffer[end - size + CRC_END : end]
        check_crc32c(checked, crc, where=where)
    if not count:
        return _NOTHING
    stored = batches.buffer[start:end]
    if magic < MAGIC:
        (batch,) = batches.take([number])
        limit, limit_name = _limit(max_batch_bytes)
        return upgraded_records(
            stored, batch.header, name=where, limit=limit, limit_name=limit_name
        )
    codec = _CODECS[attributes & CODEC_MASK]
    return _decompressed(codec, stored, count, where, max_batch_bytes)


def _decompressed(
    codec: Codec, stored: memoryview, count: int, where: str, max_bytes: int | None
) -> memoryview:
    limit, limit_name = _limit(max_bytes)
    min_size = MIN_RECORD * count
    if min_size > limit:
        raise _too_few(where, count, limit)
    data = decompress(codec, stored, limit=limit, name=where, limit_name=limit_name)
    if min_size > len(data):
        raise _too_few(where, count, len(data))
    return data


def _limit(max_bytes: int | None) -> tuple[int, str | None]:
    """Return the output limit in bytes, and the name of the option that raises it."""
    return (MAX_DECOMPRESSED, None) if max_bytes is None else (max_bytes, _LIMIT_NAME)


def _too_few(where: str, count: int, size: int) -> CorruptBatchError:
    return CorruptBatchError(f"{where}: {size} bytes cannot hold {count} records")


def _together(batches: LogBatches, first: int, parts: list[memoryview]) -> LogBatches:
    """Return batches whose records are these parts, joined in one buffer."""
    ends = np.cumsum([len(part) for part in parts])
    table = batches.table[first : first + len(parts)].copy()
    table["end"] = ends
    table["start"][0], table["start"][1:] = 0, ends[:-1]
    return batches.with_records(table, parts[0] if len(parts) == 1 else _joined(parts))


def _joined(parts: list[memoryview]) -> memoryview:
    whole = allocate(sum(map(len, parts)))
    position = 0
    for part in parts:
        whole[position : position + len(part)] = part
        position += len(part)
    return whole.toreadonly()
