"""Numbers from Arrow to numpy.

pyarrow's own ways there import pandas, where it is installed, which takes longer than
most of what is asked for.
"""

import numpy as np
import pyarrow as pa

from tieredfs.format.varints import Int64Array

__all__ = ["int64s"]

_SIZE = 8


def int64s(array: pa.Array) -> Int64Array:
    """Return numbers or times of 64 bits, none of them null, as they lie in memory."""
    held = array.buffers()[1]
    if held is None or not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(held, np.int64, len(array), _SIZE * array.offset)
