"""Parse many stems of the native layout together.

All stems have the same length, so many of them are a matrix of bytes. It is laid out by
place in the stem, because numpy combines the rows of a matrix several times as fast as
its columns.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.segment.key import KNOWN_FLAGS
from tieredfs.format.segment.key_table import KEY_DTYPE, KeyTable, RowMask
from tieredfs.format.segment.native_fields import DASHES, PLACES, STEM_LENGTH
from tieredfs.integers import MAX_INT32, MAX_INT64

__all__ = ["parse_stems"]

_ZERO, _DASH, _DIGITS = ord("0"), ord("-"), 10

_UINT64_DIGITS: Final = 19
"""Number of decimal digits that always fit uint64."""

_POWERS: Final = 10 ** np.arange(_UINT64_DIGITS - 1, -1, -1, dtype=np.uint64)
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_INVALID: Final = 255
_SEXTETS: Final = np.full(256, _INVALID, np.uint8)
_SEXTETS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(len(_ALPHABET))

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.uint64]


def parse_stems(stems: Sequence[str]) -> tuple[KeyTable, RowMask]:
    """Parse stems: see ``KeyScheme.parse_stems``."""
    table = np.zeros(len(stems), KEY_DTYPE)
    joined = "".join(stems)
    if joined.isascii() and set(map(len, stems)) == {STEM_LENGTH}:
        is_valid = np.ones(len(stems), np.bool_)
    else:
        chosen = [len(stem) == STEM_LENGTH and stem.isascii() for stem in stems]
        joined = "".join(compress(stems, chosen))
        is_valid = np.array(chosen, np.bool_)
    rows = np.flatnonzero(is_valid)
    text = np.frombuffer(joined.encode("ascii"), np.uint8).reshape(-1, STEM_LENGTH)
    table[rows], is_valid[rows] = _parse(np.ascontiguousarray(text.T))
    return table, is_valid


def _parse(text: _Bytes) -> tuple[KeyTable, RowMask]:
    """Parse stems, and return which of them are valid.

    Args:
        text: Their characters: a row for each place, a column for each stem.
    """
    table = np.zeros(text.shape[1], KEY_DTYPE)
    digits = text - np.uint8(_ZERO)  # what is below wraps around to above 9
    is_valid: RowMask = (text[DASHES] == _DASH).all(axis=0)
    for name in ("end_offset", "start_offset"):
        value, fits = _number(digits[PLACES[name]])
        is_valid &= fits & (value < MAX_INT64)
        table[name] = value.astype(np.int64)
    is_valid &= table["start_offset"] <= table["end_offset"]
    is_valid &= _parse_timestamps(text, digits, table)
    is_valid &= _parse_epochs(text, digits, table)
    for name in ("log_length", "tail_length"):
        value, fits = _number(digits[PLACES[name]])
        is_valid &= fits
        table[name] = value.astype(np.int64)
    flags = digits[PLACES["flags"]]
    is_valid &= (flags[:-1] == 0).all(axis=0) & (flags[-1] <= KNOWN_FLAGS)
    table["flags"] = flags[-1]
    sextets = _SEXTETS[text[PLACES["id"]]]
    is_valid &= (sextets != _INVALID).all(axis=0) & (sextets[-1] & 15 == 0)
    table["id"] = _octets(sextets).view("V16")[:, 0]
    return table, is_valid


def _number(field: _Bytes) -> tuple[_Numbers, RowMask]:
    """Return the numbers whose digits are rows, and which columns are of digits."""
    kept = min(len(field), _UINT64_DIGITS)
    value = _POWERS[-kept:] @ field[-kept:].astype(np.uint64)
    fits: RowMask = (field < _DIGITS).all(axis=0) & (field[:-kept] == 0).all(axis=0)
    return value, fits


def _parse_timestamps(text: _Bytes, digits: _Bytes, table: KeyTable) -> RowMask:
    place = PLACES["max_timestamp_ms"]
    sign = text[place.start]
    is_negative = sign == _DASH
    value, fits = _number(digits[place][1:])
    limit = np.where(is_negative, np.uint64(MAX_INT64 + 1), np.uint64(MAX_INT64))
    stamps = value.astype(np.int64)
    table["max_timestamp_ms"] = np.where(is_negative, -stamps, stamps)
    is_signed: RowMask = np.where(is_negative, value > 0, sign == _ZERO)
    return fits & (value <= limit) & is_signed


def _parse_epochs(text: _Bytes, digits: _Bytes, table: KeyTable) -> RowMask:
    place = PLACES["epoch"]
    value, fits = _number(digits[place])
    below, below_fits = _number(digits[place][1:])
    is_none = (text[place.start] == _DASH) & below_fits & (below == 1)
    table["epoch"] = np.where(is_none, -1, value.astype(np.int64)).astype(np.int32)
    found: RowMask = is_none | (fits & (value <= MAX_INT32))
    return found


def _octets(sextets: _Bytes) -> _Bytes:
    """Return the 16 bytes of each id, which is a column of 22 sextets."""
    made = np.empty((16, sextets.shape[1]), np.uint8)
    a, b, c, d = (sextets[n:20:4] for n in range(4))
    made[0:15:3] = a << 2 | b >> 4
    made[1:15:3] = b << 4 | c >> 2
    made[2:15:3] = c << 6 | d
    made[15] = sextets[20] << 2 | sextets[21] >> 4
    return np.ascontiguousarray(made.T)
