"""Batches whose records can be decoded: uncompressed, and of version 2."""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch_header import CODEC_MASK, CRC_END, MAGIC, MIN_RECORD, Codec
from tieredfs.format.bounded_output import allocate
from tieredfs.format.checksum import check_crc32c
from tieredfs.format.codecs import MAX_DECOMPRESSED, decompress
from tieredfs.format.log_batches import LogBatches
from tieredfs.format.message_set import upgraded_records
from tieredfs.format.read_ahead import open_ahead

__all__ = ["unpacked"]

_NOTHING: Final = memoryview(b"")
_CODECS: Final = tuple(Codec)
_TOGETHER: Final = 1 << 20
"""Bytes of small batches that are put side by side."""


def unpacked(runs: Iterable[LogBatches]) -> Generator[LogBatches]:
    """Yield the same batches, their records uncompressed and of version 2.

    Batches that are so already stay where they are; of the others small ones are put
    side by side, up to 1 MiB. While whoever asked is busy with these, another thread
    unpacks the next: see ``read_ahead``.

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
    """Unpack batches, the next ones in another thread, and put small ones together."""
    parts: list[memoryview] = []
    held = first = 0
    try:
        for part in open_ahead(range(len(run)), *_opener(run)):
            if parts and held + part.size > _TOGETHER:
                yield _together(run, first, parts)
                first, held, parts = first + len(parts), 0, []
            parts.append(part.data)
            held += part.size
    except Exception:
        if parts:  # what lies before the error comes out first
            yield _together(run, first, parts)
        raise
    yield _together(run, first, parts)


class _Part(NamedTuple):
    """The records of a batch as they are decoded."""

    data: memoryview
    size: int


def _opener(run: LogBatches) -> tuple[Callable[[int], _Part], Callable[[int], int]]:
    """Return what unpacks a batch, and what says how much of it is to decompress."""
    # As plain numbers: a batch of a few KiB is unpacked in microseconds.
    columns = ("position", "size", "crc", "attributes", "record_count", "magic")
    numbers = (run[name].tolist() for name in (*columns, "start", "end"))
    rows: list[tuple[int, ...]] = list(zip(*numbers, strict=True))

    def unpack(number: int) -> _Part:
        position, size, crc, attributes, count, magic, start, end = rows[number]
        where = f"{run.name}: batch at position {position}"
        if not run.is_checked:
            checked = run.buffer[end - size + CRC_END : end]
            check_crc32c(checked, crc, where=where)
        stored = run.buffer[start:end]
        if not count:
            data = _NOTHING
        elif magic < MAGIC:
            (batch,) = run.take([number])
            data = upgraded_records(stored, batch.header, name=where)
        else:
            data = _decompressed(_CODECS[attributes & CODEC_MASK], stored, count, where)
        return _Part(data, len(data))

    def work(number: int) -> int:
        _, _, _, attributes, count, _, start, end = rows[number]
        return end - start if count and attributes & CODEC_MASK else 0

    return unpack, work


def _decompressed(
    codec: Codec, stored: memoryview, count: int, where: str
) -> memoryview:
    least = MIN_RECORD * count
    if least > MAX_DECOMPRESSED:
        raise _too_few(where, count, MAX_DECOMPRESSED)
    data = decompress(codec, stored, name=where)
    if least > len(data):
        raise _too_few(where, count, len(data))
    return data


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
