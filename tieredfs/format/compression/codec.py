"""The codecs that a batch may be compressed with, as its header numbers them."""

from enum import IntEnum

__all__ = ["Codec"]


class Codec(IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
