"""The frames of zstd data: their ends, and the maximum size of their output.

The maximum size of a frame's output follows from its blocks. It does not depend on the
content size in the frame's header, which most of Kafka's clients leave out. Source:
RFC 8878, 3.1.
"""

from typing import NamedTuple

from tieredfs.format.compression.bounded_output import MalformedDataError

__all__ = ["ZstdFrames", "scan_zstd"]

_MAGIC = bytes.fromhex("28b52ffd")
_SKIPPABLE = bytes.fromhex("2a4d18")  # after a byte 5x
_BLOCK_MAX = 128 << 10
_WINDOW_MAX = 128 << 20
"""zstd's default limit; a decompressor may allocate a window of this size."""

_DICTIONARY_SIZES = (0, 1, 2, 4)
_RLE, _RESERVED = 1, 3
_SHORT_SIZE = 2  # bytes; a size field of this width is stored minus 256


class ZstdFrames(NamedTuple):
    """The sizes found in the headers of zstd data.

    Attributes:
        bound: Maximum size of the output in bytes.
        window: Maximum window for back references in bytes.
        content_size: Size of the output in bytes; None unless the data is a single
            frame with a content size.
        is_single: Whether the data is a single frame and nothing else.
    """

    bound: int
    window: int
    content_size: int | None
    is_single: bool


def scan_zstd(view: memoryview) -> ZstdFrames:
    """Read the headers of all frames and blocks, without decompressing.

    Raises:
        MalformedDataError: The data is cut off, or is not a series of frames.
    """
    bound = window = end = 0
    try:
        while end < len(view):
            frame, end = _scan_frame(view, end)
            if frame.is_single and end == len(view):
                return frame
            bound += frame.bound
            window = max(window, frame.window)
    except IndexError:
        end = len(view) + 1
    if end > len(view):
        raise MalformedDataError("cut off")
    return ZstdFrames(bound, window, None, is_single=False)


def _scan_frame(view: memoryview, start: int) -> tuple[ZstdFrames, int]:
    """Return a frame and its end, which may be past the end of the data.

    Raises:
        IndexError: The frame is cut off.
    """
    at = start + 4
    if view[start:at] != _MAGIC:
        if view[start + 1 : at] == _SKIPPABLE and view[start] >> 4 == 5:  # noqa: PLR2004 - see above
            if at + 4 > len(view):
                raise IndexError
            size = int.from_bytes(view[at : at + 4], "little")
            return ZstdFrames(0, 0, None, is_single=False), at + 4 + size
        raise (
            MalformedDataError("no frame begins here")
            if at <= len(view)
            else IndexError
        )
    flags = view[at]
    single, size_flag = flags & 0x20, flags >> 6
    window = 0
    if not single:
        exponent, mantissa = divmod(view[at + 1], 8)
        window = (8 + mantissa) << (7 + exponent)
        at += 1
    at += 1 + _DICTIONARY_SIZES[flags & 3]
    content = None
    if single or size_flag:
        width = 1 << size_flag
        content = int.from_bytes(view[at : at + width], "little")
        content += 256 * (width == _SHORT_SIZE)
        at += width
        window = window or content
    if window > _WINDOW_MAX:
        msg = f"window of {window} bytes exceeds {_WINDOW_MAX}"
        raise MalformedDataError(msg)
    bound, at = _scan_blocks(view, at)
    if content is not None and content > bound:
        msg = f"content size {content} exceeds the {bound} bytes that fit the blocks"
        raise MalformedDataError(msg)
    at += flags & 4  # the checksum has four bytes
    return ZstdFrames(bound, window, content, is_single=start == 0), at


def _scan_blocks(view: memoryview, at: int) -> tuple[int, int]:
    """Return the maximum size of the output of a frame's blocks, and their end."""
    bound = 0
    last = 0
    while not last:
        header = view[at] | view[at + 1] << 8 | view[at + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += 3
        if kind == _RLE:
            bound += size
            at += 1
        elif kind == 0:
            bound += size
            at += size
        elif kind == _RESERVED:
            raise MalformedDataError("block of a reserved type")
        else:
            bound += _BLOCK_MAX
            at += size
    return bound, at
