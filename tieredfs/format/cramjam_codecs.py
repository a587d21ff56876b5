"""Decompression of snappy by cramjam, in place."""

import cramjam

from tieredfs.format.pyarrow_codecs import unpack_snappy_block
from tieredfs.format.snappy_blocks import unpack_snappy

__all__ = ["decompress_snappy"]


def decompress_snappy(view: memoryview, limit: int) -> memoryview:
    """Decompress snappy, raw or in xerial blocks."""
    return unpack_snappy(view, limit, _unpack_block)


def _unpack_block(block: memoryview, out: memoryview) -> None:
    try:
        cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError:
        # It refuses a short literal with a long length at the end, which snappy takes.
        unpack_snappy_block(block, out)
