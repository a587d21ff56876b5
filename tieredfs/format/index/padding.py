"""The zero padding of an index that a broker is still writing.

A broker makes the indexes of its active segment at their full size and cuts them when
the segment is rolled; until then zeros follow the last entry.
"""

from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["without_padding"]


def without_padding(data: Buffer, entry_size: int) -> memoryview:
    """Return an index without the entries of zeros at its end.

    Bytes that do not make up an entry are dropped as well when they are zeros: the
    full size of an index file is no multiple of every entry's size.

    Args:
        data: The whole index file.
        entry_size: Bytes of one entry.
    """
    view = byte_view(data)
    used = len(bytes(view).rstrip(b"\0"))
    return view[: min(len(view), -(-used // entry_size) * entry_size)]
