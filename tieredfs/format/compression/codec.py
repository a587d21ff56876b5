"""The compression codecs of a batch, with their numbers in the batch header."""

from enum import IntEnum
from typing import Final, Literal

__all__ = ["MAX_CODEC", "Codec", "CodecName"]


class Codec(IntEnum):
    """The compression codec of a batch's records."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""The name of a codec, as in Kafka's ``compression.type``."""

MAX_CODEC: Final = max(Codec).value
"""The largest number of a codec: a batch with a larger one is of a newer Kafka."""
