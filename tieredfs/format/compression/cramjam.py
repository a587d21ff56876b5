"""Decompression of snappy and of lz4's blocks by cramjam, in place."""

from inspect import signature

import cramjam

from tieredfs.format.compression.bounded_output import MalformedDataError
from tieredfs.format.compression.pyarrow import decompress_lz4, unpack_snappy_block
from tieredfs.format.compression.snappy_blocks import unpack_snappy

__all__ = [
    "decompress_lz4",  # frames that the kernel does not take apart: it is no slower
    "decompress_lz4_block",
    "decompress_snappy",
    "decompress_snappy_block",
]


def decompress_snappy(view: memoryview, limit: int) -> memoryview:
    """Decompress snappy, raw or in xerial blocks."""
    return unpack_snappy(view, limit, _unpack_block)


def _unpack_block(block: memoryview, out: memoryview) -> None:
    try:
        cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError:
        # It refuses a short literal with a long length at the end, which snappy takes.
        unpack_snappy_block(block, out)


def decompress_snappy_block(block: memoryview, out: memoryview) -> int:
    """Decompress a raw block into memory of the size that it claims."""
    try:
        return cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise MalformedDataError(str(error)) from error


def _decompress_lz4_block(block: memoryview, out: memoryview) -> int:
    """Decompress a block without its frame into memory; return how much came out."""
    try:
        return cramjam.lz4.decompress_block_into(block, out, output_len=len(out))
    except cramjam.DecompressionError as error:
        raise MalformedDataError(str(error)) from error


# Before 2.11 the first bytes of a block were taken for its size.
decompress_lz4_block = (
    _decompress_lz4_block
    if "output_len" in signature(cramjam.lz4.decompress_block_into).parameters
    else None
)
