"""Store the objects of a segment so that no copy of it makes another one unreadable.

An encrypted segment is encrypted anew by each copy: the log of one cannot be read with
the manifest of another. So objects are created, never overwritten. A put that was given
up, and that the store performs long afterwards, then changes nothing.

The manifest tells whether an earlier copy was finished, so it is looked for first. If
there is one, and the log and the indexes can be read with it, that copy stays, and this
one has succeeded. Otherwise what is there is deleted, the manifest first, and the
segment is stored anew: a manifest never comes to describe the objects of a later copy.

Copying one segment in several processes concurrently is no error, but one that recovers
may delete what another is copying. So a copy looks, once its manifest is stored,
whether the log and the indexes are still its own. If they are not, it starts again, or
raises AlreadyExistsError. Before that it waits, for a time that is drawn: two that
start again together would meet again.

A copy to where nothing is stored takes six requests, in the time of four: the manifest
that is missing; the log and the indexes; the manifest; and the ends of the two.

Where a store cannot create objects exclusively, they are overwritten, unless there is
a manifest.
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.storage import CopiedObject, LogContent, copy_objects, run_all
from tieredfs_aiven.manifest import Manifest, parse_manifest
from tieredfs_aiven.object_names import Suffix
from tieredfs_aiven.segment_encoder import EncodedSegment
from tieredfs_aiven.stored_segment import StoredSegment

__all__ = ["delete_segment", "replace_segment", "store_segment"]

_ATTEMPTS: Final = 6

_FIRST_WAIT_SECONDS: Final = 0.01
_WAIT_GROWTH: Final = 4

_COMPARED: Final = 1 << 10
"""Bytes at its end by which an object is recognised. Two copies that were encrypted
differ in the last 16 of them, the tag; two that were compressed in other chunks differ
in size, or in the last frame.
"""

_PIECE: Final = 8 << 20
"""Bytes of each request when a whole log is compared."""


def store_segment(
    target: StoredSegment,
    segment: EncodedSegment,
    *,
    wait: Callable[[float], object] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> bytes:
    """Store a segment, unless it is stored already.

    Args:
        target: Where it is stored, and the keys that verify an earlier copy.
        segment: Its objects.
        wait: Waits some seconds.
        draw: Returns a random number from 0 to 1.

    Returns:
        The manifest that is stored: this one, or that of an earlier copy.

    Raises:
        AlreadyExistsError: Another segment is stored there, or another process is
            copying this one.
        PermissionDeniedError: An encrypted copy is stored there, and there is no
            private key to verify it.
        TieredFSError: As in ``copy_objects``.
    """
    failure: AlreadyExistsError | None = None
    longest = _FIRST_WAIT_SECONDS
    for _ in range(_ATTEMPTS):
        if failure is not None:
            wait(draw() * longest)
            longest *= _WAIT_GROWTH
        stored = _find_manifest(target)
        if stored is not None and _is_whole(target, stored, segment):
            return stored
        if stored is not None or failure is not None:
            delete_segment(target.store, target.stem)
        try:
            _create(target, segment)
        except AlreadyExistsError as error:
            failure = error
        else:
            if _is_ours(target, segment):
                return segment.manifest
            failure = AlreadyExistsError(
                f"{_name(target)} is not stored: another process has replaced its "
                "objects meanwhile: copy the segment again"
            )
    stored = _find_manifest(target)
    if stored is not None:
        if _is_whole(target, stored, segment):
            return stored
        # No reader may take the objects of several copies for one segment.
        target.store.delete([_key(target.stem, Suffix.MANIFEST)])
    raise failure or AlreadyExistsError(_name(target))


def replace_segment(target: StoredSegment, segment: EncodedSegment) -> bytes:
    """Store a segment in place of a damaged copy of it.

    Where the stored manifest fits the new objects as well, they replace the old ones,
    and readers see one or the other of each. Elsewhere they see no segment meanwhile.

    Args:
        target: As in ``store_segment``.
        segment: As in ``store_segment``.

    Returns:
        The manifest that is stored.

    Raises:
        TieredFSError: As in ``store_segment``.
    """
    data = _find_manifest(target)
    if data is not None and _fits(target, data, segment):
        _copy(target, segment, overwrite=True)
        if _is_ours(target, segment):
            return segment.manifest
    delete_segment(target.store, target.stem)
    return store_segment(target, segment)


def delete_segment(store: ObjectStore, stem: str) -> None:
    """Delete the objects of a segment, its manifest first."""
    store.delete([_key(stem, Suffix.MANIFEST)])
    store.delete(_key(stem, suffix) for suffix in _PARTS)


_PARTS: Final = (Suffix.LOG, Suffix.INDEXES)


def _key(stem: str, suffix: Suffix) -> str:
    return f"{stem}.{suffix}"


def _name(target: StoredSegment) -> str:
    return f"{target.store.url}/{target.stem}"


def _create(target: StoredSegment, segment: EncodedSegment) -> None:
    """Store objects exclusively, where the store can do that."""
    try:
        _copy(target, segment, overwrite=False)
    except UnsupportedOperationError:
        _copy(target, segment, overwrite=True)


def _copy(target: StoredSegment, segment: EncodedSegment, *, overwrite: bool) -> None:
    """Store the log and the indexes concurrently, and the manifest last."""
    log, indexes, manifest = (
        CopiedObject(_key(target.stem, suffix), content, overwrite)
        for suffix, content in (
            (Suffix.LOG, segment.log),
            (Suffix.INDEXES, segment.indexes),
            (Suffix.MANIFEST, segment.manifest),
        )
    )
    copy_objects(target.store, _name(target), [log, indexes], manifest)


def _find_manifest(target: StoredSegment) -> bytes | None:
    """Return the content of the manifest's object; None if there is none."""
    try:
        return bytes(target.fetch_manifest())
    except NotFoundError:
        return None


def _is_ours(target: StoredSegment, segment: EncodedSegment) -> bool:
    """Return whether the log and the indexes are the given ones.

    The whole objects are not compared: this copy has stored them, or another one has.
    """

    def is_there(suffix: Suffix, content: bytes | LogContent) -> bool:
        size = _size(content)
        start = max(size - _COMPARED, 0)
        try:
            found = target.store.get_range(_key(target.stem, suffix), start, size)
        except (NotFoundError, CorruptDataError):
            return False
        return found == _read(content, start, size)

    contents = (segment.log, segment.indexes)
    tasks = [
        partial(is_there, suffix, content)
        for suffix, content in zip(_PARTS, contents, strict=True)
    ]
    concurrency = 1 if target.store.is_local else len(tasks)
    return all(run_all(tasks, concurrency=concurrency))


def _size(content: bytes | LogContent) -> int:
    return len(content) if isinstance(content, bytes) else content.size


def _read(content: bytes | LogContent, start: int, end: int) -> bytes:
    if isinstance(content, bytes):
        return content[start:end]
    return content.read(start, end)


def _is_whole(target: StoredSegment, data: bytes, segment: EncodedSegment) -> bool:
    """Return whether the log and the indexes can be read with a stored manifest.

    Their sizes do not show it: those of two encrypted copies are equal.

    Args:
        target: Where they are stored.
        data: The manifest.
        segment: The segment as it was encoded now.

    Raises:
        AlreadyExistsError: It is another segment, or one with other bytes.
        CorruptObjectError: The manifest is damaged.
        PermissionDeniedError: There is no private key to find it out.
    """
    if data == segment.manifest:
        return _is_ours(target, segment)
    stored = parse_manifest(data, target.name(Suffix.MANIFEST))
    _check_same(stored, segment.layout, _name(target))
    sizes = (stored.chunks.total_stored_size, stored.indexes_size)
    try:
        for suffix, size in zip(_PARTS, sizes, strict=True):
            if target.store.head(_key(target.stem, suffix)).size != size:
                return False
        if stored.wrapped_key is not None:
            target.read_indexes(stored, stored.indexes)
        for start, piece in _compared(target, stored):
            if piece != segment.plain_log.fetch(start, start + len(piece)):
                raise AlreadyExistsError(
                    f"{_name(target)} exists with another log, or is damaged: its "
                    f"bytes [{start}, {start + len(piece)}) are not the given ones"
                )
    except (NotFoundError, CorruptDataError):
        return False
    except PermissionDeniedError as error:
        raise PermissionDeniedError(
            f"{_name(target)} is stored already, and whether it can be read is not "
            f"known: {error}"
        ) from error
    return True


def _compared(
    target: StoredSegment, stored: Manifest
) -> Iterator[tuple[int, memoryview]]:
    """Yield what is compared of a stored log, each piece with its position.

    Of a log in chunks it is the first one: it shows whether the manifest is that of
    the log, and a whole log would have to be decrypted and decompressed.
    """
    size = stored.chunks.size
    if not stored.is_plain:
        yield 0, target.read_log(stored, 0, min(size, 1))
        return
    for start in range(0, size, _PIECE):
        yield start, target.read_log(stored, start, min(start + _PIECE, size))


def _check_same(stored: Manifest, mine: Manifest, name: str) -> None:
    """Check that a manifest is one of the same segment.

    Raises:
        AlreadyExistsError: It is not.
    """
    theirs, ours = stored.segment, mine.segment
    if theirs is None or ours is None:
        return
    found = theirs.end_offset, stored.chunks.size
    given = ours.end_offset, mine.chunks.size
    if found != given:
        raise AlreadyExistsError(
            f"{name} exists with another log: it ends at offset {found[0]} and has "
            f"{found[1]} bytes, the given one ends at {given[0]} and has {given[1]}"
        )


def _fits(target: StoredSegment, data: bytes, segment: EncodedSegment) -> bool:
    """Return whether new objects can be read with the stored manifest, and vice versa.

    Args:
        target: Where they are stored.
        data: The stored manifest.
        segment: The new objects.
    """
    mine = segment.layout
    try:
        stored = parse_manifest(data, target.name(Suffix.MANIFEST))
    except (CorruptDataError, UnsupportedFormatError):
        return False
    if stored.wrapped_key is not None or mine.wrapped_key is not None:
        return False
    fits_log = (stored.is_plain and mine.is_plain) or (
        stored.is_compressed == mine.is_compressed
        and stored.chunks.format() == mine.chunks.format()
    )
    return fits_log and stored.indexes == mine.indexes
