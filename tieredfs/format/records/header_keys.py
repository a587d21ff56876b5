"""Decode the keys of headers as text, as Java does."""

import codecs
import warnings
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.errors import TieredFSWarning
from tieredfs.format.buffers import Buffer
from tieredfs.format.records.schema import MALFORMED_BYTES, MalformedRecordsError
from tieredfs.integers import MAX_INT32

__all__ = ["MAX_REPLACED_BYTES", "decode_text", "replaced_size"]

_ASCII: Final = 0x80
_MAX_TEXT_BYTES: Final = MAX_INT32 - 1  # of a string array: Arrow's own limit
_PIECE_BYTES: Final = 1 << 20

MAX_REPLACED_BYTES: Final = _MAX_TEXT_BYTES // MALFORMED_BYTES
"""Bytes that fit an array as text, however many of them are malformed."""


def decode_text(array: pa.Array) -> pa.Array:
    """Decode UTF-8 as Java does: malformed bytes become U+FFFD.

    Malformed bytes issue a TieredFSWarning, because the text does not preserve them.

    Args:
        array: Binary array without nulls, whose rows fill its data buffer.

    Raises:
        MalformedRecordsError: With U+FFFD the text has 2 GiB or more. It is not built.
    """
    _, ends, data = array.buffers()
    used = int(np.frombuffer(ends, np.int32, 1, 4 * len(array))[0])
    if np.frombuffer(data, np.uint8, used).max(initial=0) < _ASCII:
        return pa.Array.from_buffers(pa.string(), len(array), [None, ends, data])
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        if used > MAX_REPLACED_BYTES:
            _check_size(array)
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


def replaced_size(data: Buffer, piece_bytes: int = _PIECE_BYTES) -> int:
    """Return the bytes of UTF-8 whose malformed bytes are replaced, without making it.

    Args:
        data: The text.
        piece_bytes: Bytes to decode at a time.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    view = memoryview(data)
    places = range(0, len(view), piece_bytes)
    size = sum(
        len(decoder.decode(bytes(view[start : start + piece_bytes])).encode())
        for start in places
    )
    return size + len(decoder.decode(b"", final=True).encode())


def _check_size(array: pa.Array) -> None:
    size = sum(replaced_size(item.as_buffer()) for item in array)
    if size > _MAX_TEXT_BYTES:
        msg = (
            f"header keys that are not UTF-8 take {size} bytes with U+FFFD in place of "
            f"malformed bytes, more than {_MAX_TEXT_BYTES}"
        )
        raise MalformedRecordsError(msg)
