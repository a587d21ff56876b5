"""Decode the keys of headers as text, as Java does."""

import warnings
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.errors import TieredFSWarning

__all__ = ["decode_text"]

_ASCII: Final = 0x80


def decode_text(array: pa.Array) -> pa.Array:
    """Decode UTF-8 as Java does: malformed bytes become U+FFFD.

    Malformed bytes issue a TieredFSWarning, because the text does not preserve them.

    Args:
        array: Binary array without nulls, whose rows fill its data buffer.
    """
    _, ends, data = array.buffers()
    used = int(np.frombuffer(ends, np.int32, 1, 4 * len(array))[0])
    if np.frombuffer(data, np.uint8, used).max(initial=0) < _ASCII:
        return pa.Array.from_buffers(pa.string(), len(array), [None, ends, data])
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        warnings.warn(
            "not all header keys are UTF-8: malformed bytes are read as U+FFFD, as by "
            "Kafka's own clients",
            TieredFSWarning,
            stacklevel=2,
        )
        return pa.array(
            [item.decode("utf-8", "replace") for item in array.to_pylist()],
            pa.string(),
        )
