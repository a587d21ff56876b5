"""zstd, with memory for the actual output and not for the stated size."""

from typing import Final

import pyarrow as pa

__all__ = ["MalformedFrameError", "pack", "unpack", "unpack_at_most"]

_CODEC: Final = pa.Codec("zstd")
_WRITER: Final = pa.Codec("zstd", 3)  # the level of the plugin, which is zstd's default
_ERRORS = (OSError, pa.ArrowInvalid)  # but not MemoryError, which is not damage
_PIECE: Final = 1 << 20
_RATIO: Final = 256


class MalformedFrameError(Exception):
    """The bytes are not a zstd frame, or have an unexpected size."""


def pack(data: bytes) -> bytes:
    """Compress to a frame that states the size of its content, as the plugin does."""
    packed: bytes = _WRITER.compress(data, asbytes=True)
    return packed


def unpack(data: memoryview, size: int) -> memoryview:
    """Decompress to exactly ``size`` bytes.

    Raises:
        MalformedFrameError: ``data`` is not a frame of ``size`` bytes.
    """
    if size > _PIECE + _RATIO * len(data):  # implausible: check before allocating
        found = unpack_at_most(data, size)
    else:
        try:
            found = memoryview(_CODEC.decompress(pa.py_buffer(data), size)).cast("B")
        except _ERRORS as error:
            raise MalformedFrameError(str(error)) from error
    if len(found) != size:
        raise MalformedFrameError(f"decompressed size is {len(found)}, not {size}")
    return found


def unpack_at_most(data: memoryview, limit: int) -> memoryview:
    """Decompress data of unknown size, one piece at a time.

    Raises:
        MalformedFrameError: ``data`` is not a frame, or one of more than ``limit``
            bytes.
    """
    pieces: list[pa.Buffer] = []
    left = limit
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd")
        while len(piece := stream.read_buffer(min(_PIECE, left + 1))):
            left -= len(piece)
            if left < 0:
                raise MalformedFrameError(
                    f"decompressed size is more than {limit} bytes"
                )
            pieces.append(piece)
    except _ERRORS as error:
        raise MalformedFrameError(str(error)) from error
    return memoryview(b"".join(pieces))
