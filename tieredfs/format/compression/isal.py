"""Decompression of gzip by Intel's ISA-L: two to three times as fast as zlib."""

from typing import Any

from isal import igzip_lib, isal_zlib

from tieredfs.format.compression.bounded_output import (
    MalformedDataError,
    allocate,
    believed,
    read_bounded,
)
from tieredfs.format.compression.gzip_members import gzip_size_hint

__all__ = ["decompress_gzip", "decompress_gzip_block"]

_MAGIC = b"\x1f\x8b"
_FLAGS_AT = 3
_RESERVED = 0xE0  # zlib refuses what has them, ISA-L does not look
_GZIP = 31  # with its header, and the largest window
_PIECE = 256 << 10
_FIRST = 4 << 10
"""Bytes that a later member gets at first, and then as many again as it had: it copies
what it does not need, and there may be many thousands of others behind it."""
_ERROR: Any = igzip_lib.error  # typed as if it were an instance


def decompress_gzip(view: memoryview, limit: int) -> memoryview:
    """Decompress the members of a gzip file."""
    try:
        hint = believed(gzip_size_hint(view), len(view))
        return read_bounded(lambda: _Members(view).read, hint, limit)
    except _ERROR as error:
        raise MalformedDataError(str(error)) from error


def decompress_gzip_block(view: memoryview, out: memoryview) -> int:
    """Decompress a single member into memory of the size that it claims."""
    size = len(out)
    member = isal_zlib.decompressobj(_GZIP)
    try:
        found = member.decompress(view, size + 1)  # one more tells the end
    except _ERROR as error:
        raise MalformedDataError(str(error)) from error
    if len(found) != size or not member.eof or member.unused_data:
        raise MalformedDataError("not a single member of the size that it says")
    out[:] = found
    return size


class _Members:
    """What comes out of one member after the other."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0  # up to here it was given away
        self._give = 0
        self._member: igzip_lib.IgzipDecompressor | None = None

    def read(self, size: int, /) -> bytes | memoryview:
        """Return this many bytes; fewer mean the end."""
        piece = self._read_piece(min(size, _PIECE))
        if len(piece) < _PIECE:
            return piece
        out, at = allocate(size), 0
        while piece:
            out[at : at + len(piece)] = piece
            at += len(piece)
            piece = self._read_piece(min(size - at, _PIECE))
        return out[:at] if at > size // 2 else bytes(out[:at])

    def _read_piece(self, size: int) -> bytes:
        """Return this many bytes; fewer mean the end."""
        parts: list[bytes] = []
        left = size
        while left:
            if self._member is None:
                if self._at == len(self._view):
                    break
                self._member = _open_member(self._view[self._at :])
                self._give = _FIRST if self._at else _PIECE
            wanted = self._give if self._member.needs_input else 0
            given = self._view[self._at : self._at + wanted]
            self._at += len(given)
            self._give += wanted
            more = self._member.decompress(given, left)
            if self._member.eof:
                self._at -= len(self._member.unused_data)
                self._member = None
            elif not more and self._member.needs_input and self._at == len(self._view):
                raise MalformedDataError("cut off")
            if more:
                parts.append(more)
                left -= len(more)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _open_member(rest: memoryview) -> igzip_lib.IgzipDecompressor:
    if rest[: len(_MAGIC)] != _MAGIC[: len(rest)]:
        # Like zlib, and so like librdkafka, take zlib's own format as well.
        return igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_ZLIB)
    if len(rest) > _FLAGS_AT and rest[_FLAGS_AT] & _RESERVED:
        raise MalformedDataError("flags that are reserved")
    return igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
