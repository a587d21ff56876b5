"""The zero padding of an index that a broker is still writing.

A broker preallocates the indexes of its active segment and truncates them when the
segment is rolled; until then zeros follow the last entry.
"""

from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["without_padding"]


def without_padding(data: Buffer, entry_size: int) -> memoryview:
    """Return an index without the zero entries at its end.

    Zero bytes that do not make up an entry are dropped as well: the preallocated size
    of an index file is not a multiple of every entry size.

    Args:
        data: The whole index file.
        entry_size: Size of one entry in bytes.
    """
    view = byte_view(data)
    used = len(bytes(view).rstrip(b"\0"))
    return view[: min(len(view), -(-used // entry_size) * entry_size)]
