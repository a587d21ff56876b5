"""Batches whose records can be decoded: uncompressed, and of version 2."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.blocks import open_blocks
from tieredfs.format.batch.header import CODEC_MASK, CRC_END, MAGIC, MIN_RECORD
from tieredfs.format.batch.legacy import upgraded_records
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.checksum import check_crc32c
from tieredfs.format.compression.bounded_output import allocate
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.codecs import MAX_DECOMPRESSED, decompress
from tieredfs.format.compression.decompress_ahead import MIN_WORK, decompress_ahead

__all__ = ["unpacked"]

_LIMIT_NAME: Final = "max_batch_bytes (--max-batch-bytes)"
_NOTHING: Final = memoryview(b"")
_CODECS: Final = tuple(Codec)
_TOGETHER: Final = 1 << 20
"""Bytes of small batches that are put side by side."""

_COLUMNS: Final = (
    *("position", "size", "crc", "attributes", "record_count", "magic"),
    *("start", "end"),
)


def unpacked(
    runs: Iterable[LogBatches], max_batch_bytes: int | None = None
) -> Generator[LogBatches]:
    """Yield the same batches, their records uncompressed and of version 2.

    Batches that are so already stay where they are; of the others small ones are put
    side by side, up to 1 MiB. While whoever asked is busy with these, another thread
    unpacks the next: see ``read_ahead``.

    Args:
        runs: The batches.
        max_batch_bytes: Most bytes that the records of one may have; None for 256 MiB,
            which the caller has no way to raise.

    Raises:
        CorruptBatchError: The records of a batch are not what its codec writes,
            decompress to more than a batch may have, or to less than its records need.
            The batches before it have come out.
    """
    for run in runs:
        packed = run.is_packed
        if not packed.any():
            yield run
            continue
        for part in run.split(packed[1:] != packed[:-1]):
            if part.is_packed[0]:
                yield from _unpacked(part, max_batch_bytes)
            else:
                yield part


def _unpacked(run: LogBatches, max_batch_bytes: int | None) -> Iterator[LogBatches]:
    """Unpack batches: large ones in another thread, small ones together."""
    large = run["end"] - run["start"] >= MIN_WORK
    stretches = run.split(large[1:] | large[:-1])
    for opened in decompress_ahead(
        stretches, partial(_open, max_batch_bytes=max_batch_bytes), _work
    ):
        yield from opened.batches


class _Opened(NamedTuple):
    """Batches whose records can be decoded, or will be when their turn comes."""

    batches: Iterable[LogBatches]
    size: int = 0


def _work(run: LogBatches) -> int:
    """Return how much there is to decompress ahead: of small batches nothing."""
    row = run.table[0]
    if len(run) > 1 or not row["record_count"] or not row["attributes"] & CODEC_MASK:
        return 0
    return int(row["end"] - row["start"])


def _open(run: LogBatches, *, max_batch_bytes: int | None) -> _Opened:
    """Open a large batch, or make ready to open small ones."""
    if len(run) > 1 or _work(run) < MIN_WORK:
        return _Opened(_small(run, max_batch_bytes))
    (found,) = _small(run, max_batch_bytes)
    return _Opened((found,), len(found.buffer))


def _small(run: LogBatches, max_batch_bytes: int | None) -> Iterator[LogBatches]:
    """Open batches one by one, or many at a time where all is as usual."""
    parts: list[memoryview] = []
    held = first = row = 0
    rows: list[tuple[int, ...]] = []
    limit = MAX_DECOMPRESSED if max_batch_bytes is None else max_batch_bytes
    try:
        while row < len(run):
            found = open_blocks(run, row, limit)
            if (
                not found and not rows
            ):  # plain numbers: a small batch takes microseconds
                rows = list(
                    zip(*(run[name].tolist() for name in _COLUMNS), strict=True)
                )
            part = _NOTHING if found else _unpack(run, row, rows[row], max_batch_bytes)
            if parts and (found or held + len(part) > _TOGETHER):
                yield _together(run, first, parts)
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
        if parts:  # what lies before the error comes out first
            yield _together(run, first, parts)
        raise
    if parts:
        yield _together(run, first, parts)


def _unpack(
    run: LogBatches, number: int, row: tuple[int, ...], max_batch_bytes: int | None
) -> memoryview:
    """Unpack a batch as its codec does it."""
    position, size, crc, attributes, count, magic, start, end = row
    where = f"{run.name}: batch at position {position}"
    if not run.is_checked:
        checked = run.buffer[end - size + CRC_END : end]
        check_crc32c(checked, crc, where=where)
    if not count:
        return _NOTHING
    stored = run.buffer[start:end]
    if magic < MAGIC:
        (batch,) = run.take([number])
        limit, limit_name = _limit(max_batch_bytes)
        return upgraded_records(
            stored, batch.header, name=where, limit=limit, limit_name=limit_name
        )
    codec = _CODECS[attributes & CODEC_MASK]
    return _decompressed(codec, stored, count, where, max_batch_bytes)


def _decompressed(
    codec: Codec, stored: memoryview, count: int, where: str, most: int | None
) -> memoryview:
    limit, limit_name = _limit(most)
    least = MIN_RECORD * count
    if least > limit:
        raise _too_few(where, count, limit)
    data = decompress(codec, stored, limit=limit, name=where, limit_name=limit_name)
    if least > len(data):
        raise _too_few(where, count, len(data))
    return data


def _limit(most: int | None) -> tuple[int, str | None]:
    """Return how many bytes may come out, and what a user raises to read more."""
    return (MAX_DECOMPRESSED, None) if most is None else (most, _LIMIT_NAME)


def _too_few(where: str, count: int, size: int) -> CorruptBatchError:
    return CorruptBatchError(f"{where}: {size} bytes cannot hold {count} records")


def _together(run: LogBatches, first: int, parts: list[memoryview]) -> LogBatches:
    """Return batches whose records are in these parts, one behind the other."""
    ends = np.cumsum([len(part) for part in parts])
    table = run.table[first : first + len(parts)].copy()
    table["end"] = ends
    table["start"][0], table["start"][1:] = 0, ends[:-1]
    return run.with_records(table, parts[0] if len(parts) == 1 else _joined(parts))


def _joined(parts: list[memoryview]) -> memoryview:
    whole = allocate(sum(map(len, parts)))
    position = 0
    for part in parts:
        whole[position : position + len(part)] = part
        position += len(part)
    return whole.toreadonly()
