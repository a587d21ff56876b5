"""What becomes of some bytes: a few edits, drawn fast from a seeded generator.

Hypothesis draws better examples, a thousand times slower: here it is the number that
counts.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

from support.wire import encode_varint

__all__ = ["INT32S", "INT64S", "choice", "mutated", "number"]

_T = TypeVar("_T")

_INTERESTING: Final = tuple(
    base + step
    for base in (0, 7, 61, 1 << 7, 1 << 8, 1 << 15, 1 << 16, 1 << 24, 1 << 28)
    for step in (-1, 0, 1)
)
INT32S: Final = (*_INTERESTING, -(1 << 31), (1 << 31) - 1, -2, 1000, 100_000, 1 << 30)
"""Values of an int32 at which something changes."""

INT64S: Final = (
    *INT32S,
    *((1 << bits) + step for bits in (31, 32, 35, 48, 62) for step in (-1, 0, 1)),
    (1 << 63) - 2,
    (1 << 63) - 1,
    -(1 << 63),
)
"""Values of an int64 at which something changes."""

_WIDTHS: Final = (1, 2, 4, 8)
_SMALL: Final = 12
_RUN: Final = 64


def number(rng: Random, below: int) -> int:
    """Draw a number from 0 on; 0 if there is none."""
    return int(rng.random() * below)


def choice(rng: Random, values: Sequence[_T]) -> _T:
    """Draw one of some values."""
    return values[int(rng.random() * len(values))]


def mutated(
    rng: Random, data: bytes, others: Sequence[bytes] = (), *, start: int = 0
) -> bytes:
    """Return the bytes after one edit, or a few.

    Args:
        rng: Where all that is drawn comes from.
        data: The bytes as they were.
        others: Bytes of the same kind: runs of them are put in.
        start: Those before this position stay.
    """
    out = bytearray(data)
    edits = 1
    while edits < 8 and rng.random() < 0.4:
        edits += 1
    for _ in range(edits):
        choice(rng, _EDITS)(rng, out, start)
        if others and rng.random() < 0.1:
            _splice(rng, out, start, choice(rng, others))
    return bytes(out)


def _place(rng: Random, out: bytearray, start: int) -> int:
    return start + number(rng, len(out) - start)


def _length(rng: Random) -> int:
    return 1 + number(rng, _SMALL if rng.random() < 0.8 else _RUN)


def _flip(rng: Random, out: bytearray, start: int) -> None:
    if len(out) > start:
        out[_place(rng, out, start)] ^= 1 << number(rng, 8)


def _set(rng: Random, out: bytearray, start: int) -> None:
    if len(out) > start:
        out[_place(rng, out, start)] = number(rng, 256)


def _add(rng: Random, out: bytearray, start: int) -> None:
    if len(out) > start:
        at = _place(rng, out, start)
        out[at] = (out[at] + choice(rng, (-2, -1, 1, 2))) & 0xFF


def _integer(rng: Random, out: bytearray, start: int) -> None:
    width = choice(rng, _WIDTHS)
    value = choice(rng, INT64S) & ((1 << 8 * width) - 1)
    at = _place(rng, out, start)
    out[at : at + width] = value.to_bytes(width, "big")


def _varint(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    out[at : at + 1 + number(rng, 2)] = encode_varint(choice(rng, INT64S))


def _endless(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    out[at : at + 1] = b"\xff" * (1 + number(rng, 10))


def _insert(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    out[at:at] = rng.randbytes(_length(rng))


def _delete(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    del out[at : at + _length(rng)]


def _repeat(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    to = _place(rng, out, start)
    out[to:to] = out[at : at + _length(rng)]


def _zero(rng: Random, out: bytearray, start: int) -> None:
    at = _place(rng, out, start)
    size = min(_length(rng), len(out) - at)
    out[at : at + size] = bytes(size)


def _cut(rng: Random, out: bytearray, start: int) -> None:
    if rng.random() < 0.3:
        del out[_place(rng, out, start) :]
    elif len(out) > start:
        del out[max(start, len(out) - _length(rng)) :]


def _splice(rng: Random, out: bytearray, start: int, other: bytes) -> None:
    first = number(rng, len(other))
    run = other[first : first + _length(rng)]
    at = _place(rng, out, start)
    out[at : at + (len(run) if rng.random() < 0.5 else 0)] = run


_EDITS: Final[tuple[Callable[[Random, bytearray, int], None], ...]] = (
    _flip,
    _flip,
    _set,
    _add,
    _integer,
    _integer,
    _varint,
    _endless,
    _insert,
    _delete,
    _repeat,
    _zero,
    _cut,
)
