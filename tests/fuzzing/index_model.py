"""How the indexes of a segment read, and what is looked up in them, entry by entry."""

import struct
from collections.abc import Sequence

from fuzzing.log_model import Refused, Unknown

__all__ = [
    "aborts",
    "control",
    "last_at",
    "offsets",
    "producers",
    "times",
    "unpadded",
]

_MAX = (1 << 63) - 1


def offsets(
    data: bytes, base: int, end: int | None, size: int | None
) -> list[tuple[int, int]]:
    """Read an offset index: absolute offsets, and positions.

    Raises:
        Refused: An entry is cut off, does not rise, or lies outside the segment.
    """
    found: list[tuple[int, int]] = []
    previous = (base - 1, 0)
    for relative, position in _entries(">ii", data):
        entry = base + relative, position
        if entry[0] <= previous[0] or entry[1] <= previous[1] or entry[0] > _MAX:
            raise Refused
        found.append(entry)
        previous = entry
    if found and end is not None and found[-1][0] > end:
        raise Refused
    if found and size is not None and found[-1][1] >= size:
        raise Refused
    return found


def times(data: bytes, base: int, end: int | None) -> list[tuple[int, int]]:
    """Read a time index: timestamps, and absolute offsets.

    Raises:
        Refused: An entry is cut off, does not rise, or lies outside the segment.
    """
    found: list[tuple[int, int]] = []
    previous = (-1, base)
    for stamp, relative in _entries(">qi", data):
        entry = stamp, base + relative
        if entry[0] <= previous[0] or entry[1] < previous[1] or entry[1] > _MAX:
            raise Refused
        found.append(entry)
        previous = entry
    if found and end is not None and found[-1][1] > end:
        raise Refused
    return found


def aborts(data: bytes, base: int) -> list[tuple[int, ...]]:
    """Read a transaction index: producer, first, last and stable offset.

    Raises:
        Refused: An entry is cut off, does not rise, or is no transaction.
        Unknown: An entry is of another version.
    """
    found: list[tuple[int, ...]] = []
    previous = base - 1
    for version, producer, first, last, stable in _entries(">hqqqq", data):
        if version:
            raise Unknown
        if producer < 0 or last <= previous or not 0 <= first < last:
            raise Refused
        if not 0 <= stable <= last + 1:
            raise Refused
        found.append((producer, first, last, stable))
        previous = last
    return found


def producers(data: bytes, checksum: int) -> list[tuple[int, ...]]:
    """Read a producer snapshot whose bytes from the seventh on have a checksum.

    Raises:
        Refused: It is cut off, or not what its checksum or its count say.
        Unknown: It is of another version.
    """
    if len(data) < 10:
        raise Refused
    version, crc, count = struct.unpack_from(">hIi", data)
    if version != 1:
        raise Unknown
    if crc != checksum:
        raise Refused
    found = _entries(">qhiqiqiq", data[10:])
    if len(found) != count:
        raise Refused
    return found


def control(key: bytes, value: bytes | None) -> tuple[int, int | None]:
    """Read a control record: its type, -1 if unknown, and the coordinator's epoch.

    Raises:
        Refused: It is cut off, or its version is negative.
    """
    if len(key) < 4:
        raise Refused
    version, kind = struct.unpack_from(">hh", key)
    if version < 0:
        raise Refused
    if kind not in {0, 1}:
        return (kind if 0 <= kind <= 6 else -1), None
    if value is None or len(value) < 6:
        raise Refused
    return kind, struct.unpack_from(">hi", value)[1]


def unpadded(data: bytes, size: int) -> bytes:
    """Drop the entries of zeros at the end, one by one, from a part of one on."""
    entries = [data[at : at + size] for at in range(0, len(data), size)]
    while entries and not any(entries[-1]):
        entries.pop()
    return b"".join(entries)


def last_at(values: Sequence[int], most: int) -> int:
    """Return where the last value is that is not above ``most``; -1 for none."""
    return max((at for at, value in enumerate(values) if value <= most), default=-1)


def _entries(form: str, data: bytes) -> list[tuple[int, ...]]:
    size = struct.calcsize(form)
    if len(data) % size:
        raise Refused
    return [struct.unpack_from(form, data, at) for at in range(0, len(data), size)]
