"""zstd, with memory for what comes out and not for what is claimed."""

from typing import Final

import pyarrow as pa

__all__ = ["MalformedFrameError", "unpack", "unpack_at_most"]

_CODEC: Final = pa.Codec("zstd")
_ERRORS = (OSError, pa.ArrowInvalid)  # but no lack of memory: it is no damage
_PIECE: Final = 1 << 20
_RATIO: Final = 256


class MalformedFrameError(Exception):
    """The bytes are no zstd frame, or of another size than they should be."""


def unpack(data: memoryview, size: int) -> memoryview:
    """Decompress to exactly ``size`` bytes.

    Raises:
        MalformedFrameError: ``data`` is no frame of so many bytes.
    """
    if size > _PIECE + _RATIO * len(data):  # hardly: so see it before it is allocated
        found = unpack_at_most(data, size)
    else:
        try:
            found = memoryview(_CODEC.decompress(pa.py_buffer(data), size)).cast("B")
        except _ERRORS as error:
            raise MalformedFrameError(str(error)) from error
    if len(found) != size:
        raise MalformedFrameError(f"{len(found)} bytes come out, not {size}")
    return found


def unpack_at_most(data: memoryview, limit: int) -> memoryview:
    """Decompress to whatever comes out, piece by piece.

    Raises:
        MalformedFrameError: ``data`` is no frame, or of more than ``limit`` bytes.
    """
    pieces: list[pa.Buffer] = []
    left = limit
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd")
        while len(piece := stream.read_buffer(min(_PIECE, left + 1))):
            left -= len(piece)
            if left < 0:
                raise MalformedFrameError(f"more than {limit} bytes come out")
            pieces.append(piece)
    except _ERRORS as error:
        raise MalformedFrameError(str(error)) from error
    return memoryview(b"".join(pieces))
