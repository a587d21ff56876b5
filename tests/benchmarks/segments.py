"""Segments of a log to measure on, from a writer that is not ours.

aiokafka's builder writes some MiB of batches, which are then repeated with their base
offsets moved on: no checksum covers these. The same seed gives the same bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.compression.codec import Codec

__all__ = ["KIB", "MIB", "Batch", "Record", "Segment", "Shape", "records", "segment"]

KIB: Final = 1 << 10
MIB: Final = 1 << 20

_BUILT: Final = 4 * MIB
"""Bytes of batches that are made; the rest repeats them."""

_CHECKED_FROM: Final = 21
_SEED: Final = 20241105
_FIRST: Final = 1_730_000_000_000  # ms
_NO_KEY: Final = 64  # one record of so many has none,
_TOMBSTONE: Final = 97  # … has no value
_TEXT: Final = 1 << 20  # words: the values of a batch are not to overlap much
_WORDS: Final = 4000
_EVENTS: Final = ("view", "click", "search", "purchase", "refund")
_HEADERS: Final = (("trace-id", b"4bf92f3577b34da6"), ("source", b"web"))

Record = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, timestamp (ms), key, value and headers, as aiokafka's builder takes them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records and the batches of a segment are like.

    Attributes:
        value_size: Bytes of a value that is no tombstone.
        batch_size: Most bytes of a batch before compression.
        codec: How batches are compressed.
    """

    value_size: int
    batch_size: int
    codec: Codec = Codec.NONE

    def __str__(self) -> str:
        """Name it as a table does."""
        codec = "" if self.codec is Codec.NONE else f"{self.codec.name.lower()}, "
        return (
            f"{codec}values of {_size(self.value_size)}, "
            f"batches of {_size(self.batch_size)}"
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch.

    Attributes:
        data: Its bytes.
        count: How many records it has.
        size: Bytes it has without compression.
    """

    data: bytes = field(repr=False)
    count: int
    size: int

    def at(self, offset: int) -> bytes:
        """Return its bytes with another base offset."""
        return struct.pack(">q", offset) + self.data[8:]

    @property
    def payload(self) -> bytes:
        """Its records as they are stored."""
        return self.data[HEADER_SIZE:]


@dataclass(frozen=True, slots=True)
class Segment:
    """A log, and what is in it.

    Attributes:
        data: Its bytes.
        batches: Its batches; of repeated ones the first with its own base offset.
        checked: What the checksum of each batch covers.
        size: Bytes it would have without compression.
    """

    data: bytes = field(repr=False)
    batches: tuple[Batch, ...] = field(repr=False)
    checked: tuple[bytes, ...] = field(repr=False)
    size: int


@lru_cache(maxsize=2)
def segment(shape: Shape, size: int) -> Segment:
    """Write a segment of about ``size`` bytes before compression, a batch at least."""
    built = list(_batches(shape, min(size, _BUILT)))
    batches: list[Batch] = []
    while sum(batch.size for batch in batches) < size:
        batches += built
    offset = 0
    parts = []
    for batch in batches:
        parts.append(batch.at(offset))
        offset += batch.count
    return Segment(
        data=b"".join(parts),
        batches=tuple(batches),
        checked=tuple(part[_CHECKED_FROM:] for part in parts),
        size=sum(batch.size for batch in batches),
    )


def records(value_size: int) -> Iterator[Record]:
    """Yield records without end: JSON-like values, keys of 16 bytes, 0-2 headers."""
    text = _text()
    draw = np.random.default_rng(_SEED)
    offset, stamp = 0, _FIRST
    while True:
        for ahead, start, user in draw.integers(
            0, (40, len(text) - value_size, 100_000), (1000, 3)
        ).tolist():
            stamp += ahead
            event = _EVENTS[(start + user) % len(_EVENTS)]
            head = f'{{"id":{offset},"user":"u{user}","event":"{event}","text":"'
            value = (head.encode() + text[start : start + value_size])[:value_size]
            yield (
                offset,
                stamp,
                None if offset % _NO_KEY == 0 else b"user-%011d" % user,
                None if offset % _TOMBSTONE == 0 else value[:-2] + b'"}',
                list(_HEADERS[: start % 3]),
            )
            offset += 1


@cache
def _text() -> bytes:
    """Return some MiB of words, of which few are frequent and most are rare."""
    draw = np.random.default_rng(_SEED)
    letters = np.array(list("aaabcdeeeefghiiijklmnnnooopqrrrssstttuuvwxyz"))
    words = ["".join(draw.choice(letters, draw.integers(2, 9))) for _ in range(_WORDS)]
    return " ".join(words[at % _WORDS] for at in draw.zipf(1.3, _TEXT)).encode()


def _batches(shape: Shape, size: int) -> Iterator[Batch]:
    done = 0
    source = records(shape.value_size)
    record = next(source)
    base = 0
    while done < size:
        builder = DefaultRecordBatchBuilder(
            2, int(shape.codec), 0, -1, -1, -1, shape.batch_size
        )
        base = record[0]
        while builder.append(record[0] - base, *record[1:]) is not None:
            record = next(source)
        whole = builder.size()
        yield Batch(bytes(builder.build()), record[0] - base, whole)
        done += whole


def _size(size: int) -> str:
    if size >= MIB:
        return f"{size // MIB} MiB"
    return f"{size // KIB} KiB" if size >= KIB else f"{size} B"
