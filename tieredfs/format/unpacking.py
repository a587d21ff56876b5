"""Batches whose records can be decoded: uncompressed, and of version 2."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch_header import HEADER_SIZE, MAGIC, MIN_RECORD
from tieredfs.format.codecs import MAX_DECOMPRESSED, decompress
from tieredfs.format.log_batches import LogBatch, LogBatches
from tieredfs.format.message_set import upgraded_records

__all__ = ["unpacked"]

_TOGETHER: Final = 1 << 20
"""Bytes of small batches that are put side by side."""


def unpacked(runs: Iterable[LogBatches]) -> Iterator[LogBatches]:
    """Yield the same batches, their records uncompressed and of version 2.

    Batches that are so already stay where they are. No more than one batch that is not,
    or small ones of 1 MiB together, are unpacked ahead of what has come out.

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
        turns = np.flatnonzero(packed[1:] != packed[:-1]) + 1
        for first, end in zip([0, *turns], [*turns, len(run)], strict=True):
            part = run.take(slice(first, end))
            if packed[first]:
                yield from _unpacked(part)
            else:
                yield part


def _unpacked(run: LogBatches) -> Iterator[LogBatches]:
    """Unpack batches, and put small ones side by side."""
    parts: list[memoryview] = []
    held = first = 0
    try:
        for row, batch in enumerate(run):
            part = _unpack(batch)
            if parts and held + len(part) > _TOGETHER:
                yield _together(run.take(slice(first, row)), parts)
                parts, held, first = [], 0, row
            parts.append(part)
            held += len(part)
    except CorruptBatchError:
        if parts:  # what lies before the error comes out first
            yield _together(run.take(slice(first, first + len(parts))), parts)
        raise
    yield _together(run.take(slice(first, len(run))), parts)


def _unpack(batch: LogBatch) -> memoryview:
    """Return the records of a batch as they are decoded."""
    header, end = batch.header, batch.start + batch.header.size
    if not header.record_count:
        return memoryview(b"")
    if header.magic < MAGIC:
        message = batch.buffer[batch.start : end]
        return upgraded_records(message, header, name=batch.where)
    least = MIN_RECORD * header.record_count
    if least > MAX_DECOMPRESSED:
        raise _too_few(batch, MAX_DECOMPRESSED)
    stored = batch.buffer[batch.start + HEADER_SIZE : end]
    data = decompress(header.codec, stored, name=batch.where)
    if least > len(data):
        raise _too_few(batch, len(data))
    return data


def _too_few(batch: LogBatch, size: int) -> CorruptBatchError:
    count = batch.header.record_count
    return CorruptBatchError(f"{batch.where}: {size} bytes cannot hold {count} records")


def _together(run: LogBatches, parts: list[memoryview]) -> LogBatches:
    """Return batches whose records lie in these parts, one behind the other."""
    ends = np.cumsum([len(part) for part in parts])
    table = run.table.copy()
    table["end"] = ends
    table["start"][0], table["start"][1:] = 0, ends[:-1]
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    return run.with_records(table, data)
