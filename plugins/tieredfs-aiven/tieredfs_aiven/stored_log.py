"""Read a range of a log from its chunks, with one range of one object."""

from collections.abc import Callable

from tieredfs import CorruptObjectError
from tieredfs_aiven.chunk_index import Chunk
from tieredfs_aiven.compression import MalformedFrameError, unpack
from tieredfs_aiven.encryption import DataKey, WrongTagError
from tieredfs_aiven.manifest import Manifest

__all__ = ["read_log", "stored_range"]


def read_log(
    fetch: Callable[[int, int], memoryview],
    manifest: Manifest,
    key: DataKey | None,
    start: int,
    end: int,
    *,
    name: str,
) -> memoryview:
    """Return the bytes of a log from ``start`` to the end of the chunk with ``end``.

    Args:
        fetch: Returns a range of the log's object; called once, or not at all if the
            range is empty.
        manifest: The segment's manifest.
        key: The segment's data key, if it is encrypted.
        start: First byte.
        end: Byte after the last, inside the log.
        name: Object name used in error messages.

    Raises:
        CorruptObjectError: A chunk is not what was stored.
    """
    index = manifest.chunks
    if start == end:
        return memoryview(b"")
    if manifest.is_plain:
        return fetch(start, end)
    stored_start, stored_end = index.covering(start, end)
    stored = fetch(stored_start, stored_end)
    pieces: list[memoryview] = []
    for chunk in index.chunks(start, end):
        at = chunk.stored_start - stored_start
        found = _read_chunk(
            stored[at : at + chunk.stored_size],
            chunk,
            key,
            is_compressed=manifest.is_compressed,
            name=name,
        )
        pieces.append(found[max(start - chunk.start, 0) :])
    whole = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
    return whole.toreadonly()


def stored_range(
    manifest: Manifest, start: int, end: int
) -> tuple[tuple[int, int], int]:
    """Return what ``read_log`` fetches for a range of a log.

    Args:
        manifest: The segment's manifest.
        start: First byte.
        end: Byte after the last, inside the log.

    Returns:
        The range of the log's object, and the position in the log that it reaches.
    """
    index = manifest.chunks
    if start == end or manifest.is_plain:
        return (start, end), end
    chunks = -(-end // index.chunk_size)
    return index.covering(start, end), min(chunks * index.chunk_size, index.size)


def _read_chunk(
    stored: memoryview,
    chunk: Chunk,
    key: DataKey | None,
    *,
    is_compressed: bool,
    name: str,
) -> memoryview:
    try:
        found = stored if key is None else key.decrypt(stored)
        if is_compressed:
            return unpack(found, chunk.size)
        if len(found) == chunk.size:
            return found
        detail = f"it has {len(found)} bytes, not {chunk.size}"
    except (MalformedFrameError, WrongTagError) as error:
        detail = str(error)
    end = chunk.stored_start + chunk.stored_size
    msg = f"{name} [{chunk.stored_start}, {end}): the chunk is damaged: {detail}"
    raise CorruptObjectError(msg)
