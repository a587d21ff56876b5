"""Decompression of snappy and of lz4 blocks with cramjam, into given memory."""

from inspect import signature

import cramjam

from tieredfs.format.compression.bounded_output import MalformedDataError
from tieredfs.format.compression.pyarrow import decompress_lz4, unpack_snappy_block
from tieredfs.format.compression.snappy_blocks import unpack_snappy

__all__ = [
    "decompress_lz4",  # pyarrow's, for frames that the kernel does not split
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
        # cramjam rejects a short final literal with a long length; snappy accepts it.
        unpack_snappy_block(block, out)


def decompress_snappy_block(block: memoryview, out: memoryview) -> int:
    """Decompress a raw block into a buffer of the size that the block claims."""
    try:
        return cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise MalformedDataError(str(error)) from error


def _decompress_lz4_block(block: memoryview, out: memoryview) -> int:
    """Decompress a block without its frame; return the size of the output."""
    try:
        return cramjam.lz4.decompress_block_into(block, out, output_len=len(out))
    except cramjam.DecompressionError as error:
        raise MalformedDataError(str(error)) from error


# Before 2.11 cramjam read the first bytes of a block as its size.
decompress_lz4_block = (
    _decompress_lz4_block
    if "output_len" in signature(cramjam.lz4.decompress_block_into).parameters
    else None
)
