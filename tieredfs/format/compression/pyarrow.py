"""Decompression with pyarrow, which is always installed."""

from functools import partial

import pyarrow as pa

from tieredfs.format.compression.bounded_output import (
    MalformedDataError,
    Reader,
    TooMuchOutputError,
    plausible_size,
    read_bounded,
)
from tieredfs.format.compression.gzip_members import gzip_size_hint
from tieredfs.format.compression.lz4_frames import lz4_size_hint
from tieredfs.format.compression.snappy_blocks import unpack_snappy
from tieredfs.format.compression.zstd_frames import scan_zstd

__all__ = ["decompress_gzip", "decompress_lz4", "decompress_snappy", "decompress_zstd"]

_SNAPPY = pa.Codec("snappy")
_ZSTD = pa.Codec("zstd")
_ERRORS = (OSError, pa.ArrowInvalid)  # not pa.ArrowMemoryError: it is not damage


def decompress_gzip(view: memoryview, limit: int) -> memoryview:
    """Decompress the members of a gzip file."""
    return _read("gzip", view, gzip_size_hint(view), limit)


def decompress_lz4(view: memoryview, limit: int) -> memoryview:
    """Decompress lz4 frames."""
    return _read("lz4", view, lz4_size_hint(view), limit)


def decompress_zstd(view: memoryview, limit: int) -> memoryview:
    """Decompress zstd frames."""
    frames = scan_zstd(view)
    size = frames.content_size
    if size is not None and size > limit:
        raise TooMuchOutputError
    if size is None or size > plausible_size(size, len(view)):
        return _read("zstd", view, frames.bound, limit)
    try:
        found = _ZSTD.decompress(pa.py_buffer(view), size)
    except _ERRORS as error:
        raise MalformedDataError(str(error)) from error
    return memoryview(found).cast("B")


def decompress_snappy(view: memoryview, limit: int) -> memoryview:
    """Decompress snappy, raw or in xerial blocks."""
    return unpack_snappy(view, limit, unpack_snappy_block)


def unpack_snappy_block(block: memoryview, out: memoryview) -> None:
    """Decompress a raw block into a buffer of the size that the block claims."""
    try:
        found = _SNAPPY.decompress(pa.py_buffer(block), len(out))
    except _ERRORS as error:
        raise MalformedDataError(str(error)) from error
    out[:] = memoryview(found).cast("B")


def _read(codec: str, view: memoryview, hint: int, limit: int) -> memoryview:
    try:
        hint = plausible_size(hint, len(view))
        return read_bounded(partial(_start, codec, view), hint, limit)
    except _ERRORS as error:
        raise MalformedDataError(str(error)) from error


def _start(codec: str, view: memoryview) -> Reader:
    source = pa.BufferReader(pa.py_buffer(view))
    read: Reader = pa.CompressedInputStream(source, codec).read_buffer
    return read
