"""Decompression of zstd with python-zstandard, which reuses its context."""

import threading
from functools import partial

import zstandard

from tieredfs.format.compression.bounded_output import (
    MalformedDataError,
    Reader,
    TooMuchOutputError,
    plausible_size,
    read_bounded,
)
from tieredfs.format.compression.zstd_frames import ZstdFrames, scan_zstd

__all__ = ["decompress_zstd", "decompress_zstd_block"]


class _Context(threading.local):
    """A context for each thread: a context serves one call at a time."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_CONTEXT = _Context()
_MAX_REUSED_WINDOW_BYTES = 8 << 20
"""Largest window for which the context is reused: it never frees its window."""


def decompress_zstd(view: memoryview, limit: int) -> memoryview:
    """Decompress zstd frames."""
    frames = scan_zstd(view)
    size = frames.bound if frames.content_size is None else frames.content_size
    if frames.content_size is not None and size > limit:
        raise TooMuchOutputError
    try:
        hint = plausible_size(frames.bound, len(view))
        if frames.is_single and 0 < size <= limit and hint == frames.bound:
            found = _context(frames).decompress(view, frames.bound)
            return memoryview(found)
        return read_bounded(partial(_start, view, frames), hint, limit)
    except zstandard.ZstdError as error:
        raise MalformedDataError(str(error)) from error


def decompress_zstd_block(view: memoryview, out: memoryview) -> int:
    """Decompress a single frame into a buffer of the maximum size of its output."""
    try:
        found = _CONTEXT.decompressor.decompress(view, len(out))
    except zstandard.ZstdError as error:
        raise MalformedDataError(str(error)) from error
    size = len(found)
    out[:size] = found
    return size


def _start(view: memoryview, frames: ZstdFrames) -> Reader:
    # The scan has checked that no frame is cut off: this reader would not notice.
    return _context(frames).stream_reader(view, read_across_frames=True).read


def _context(frames: ZstdFrames) -> zstandard.ZstdDecompressor:
    if frames.window > _MAX_REUSED_WINDOW_BYTES:
        return zstandard.ZstdDecompressor()
    return _CONTEXT.decompressor
