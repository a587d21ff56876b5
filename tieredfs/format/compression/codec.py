"""The compression codecs of a batch, with their numbers in the batch header."""

from enum import IntEnum

__all__ = ["Codec"]


class Codec(IntEnum):
    """The compression codec of a batch's records."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
