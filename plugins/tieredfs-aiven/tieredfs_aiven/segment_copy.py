"""Store the objects of a segment so that no copy of it makes another one unreadable.

An encrypted segment is encrypted anew by each copy: the log of one cannot be read with
the manifest of another. So objects are created, never overwritten. A put that was given
up, and that the store performs long afterwards, then changes nothing.

If an object is there already, the manifest tells whether an earlier copy was finished.
If it was, that one stays, and this copy has succeeded. Otherwise what it left is
deleted, and the segment is stored anew. Copying one segment in several processes
concurrently is no error, but one that recovers may delete what another is copying,
which then starts again, or raises AlreadyExistsError.

Where a store cannot create objects exclusively, they are overwritten, unless there is
a manifest.
"""

from typing import Final

from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    NotFoundError,
    ObjectStore,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.storage import CopiedObject, LogContent, copy_objects
from tieredfs_aiven.manifest import Manifest, parse_manifest
from tieredfs_aiven.object_names import Suffix
from tieredfs_aiven.segment_encoder import EncodedSegment

__all__ = ["delete_segment", "replace_segment", "store_segment"]

_ATTEMPTS: Final = 3

_COMPARED: Final = 64 << 10
"""Bytes by which an object is recognised, of those with the same size: two that were
encrypted differ in the first of them.
"""


def store_segment(store: ObjectStore, stem: str, segment: EncodedSegment) -> bytes:
    """Store a segment, unless it is stored already.

    Args:
        store: Where it is stored.
        stem: Common part of the keys of its objects.
        segment: Its objects.

    Returns:
        The manifest that is stored: this one, or that of an earlier copy.

    Raises:
        AlreadyExistsError: Another segment is stored there, or another process is
            copying this one.
        TieredFSError: As in ``copy_objects``.
    """
    for left in reversed(range(_ATTEMPTS)):
        is_repeated = left < _ATTEMPTS - 1
        try:
            _copy(store, stem, segment, overwrite=False, recheck=is_repeated)
        except AlreadyExistsError:
            stored = _find_whole(store, stem, segment)
            if stored is not None:
                return stored
            if not left:
                raise
            delete_segment(store, stem)
        except UnsupportedOperationError:  # the store cannot create exclusively
            break
        else:
            return segment.manifest
    stored = _find_whole(store, stem, segment)
    if stored is not None:
        return stored
    store.delete([_key(stem, Suffix.MANIFEST)])  # that of a segment without its log
    _copy(store, stem, segment, overwrite=True)
    return segment.manifest


def replace_segment(store: ObjectStore, stem: str, segment: EncodedSegment) -> bytes:
    """Store a segment in place of a damaged copy of it.

    Where the stored manifest fits the new objects as well, they replace the old ones,
    and readers see one or the other of each. Elsewhere they see no segment meanwhile.

    Args:
        store: As in ``store_segment``.
        stem: As in ``store_segment``.
        segment: As in ``store_segment``.

    Returns:
        The manifest that is stored.

    Raises:
        TieredFSError: As in ``store_segment``.
    """
    try:
        data = store.get(_key(stem, Suffix.MANIFEST))
        stored = parse_manifest(data, f"{store.url}/{_key(stem, Suffix.MANIFEST)}")
        fits = len(_interchangeable(stored, segment.layout)) == len(_PARTS)
    except (NotFoundError, CorruptDataError, UnsupportedFormatError):
        fits = False
    if fits:
        _copy(store, stem, segment, overwrite=True)
        return segment.manifest
    delete_segment(store, stem)
    return store_segment(store, stem, segment)


def delete_segment(store: ObjectStore, stem: str) -> None:
    """Delete the objects of a segment, its manifest first."""
    store.delete([_key(stem, Suffix.MANIFEST)])
    store.delete(_key(stem, suffix) for suffix in _PARTS)


_PARTS: Final = (Suffix.LOG, Suffix.INDEXES)


def _key(stem: str, suffix: Suffix) -> str:
    return f"{stem}.{suffix}"


def _copy(
    store: ObjectStore,
    stem: str,
    segment: EncodedSegment,
    *,
    overwrite: bool,
    recheck: bool = True,
) -> None:
    """Store the log and the indexes concurrently, and the manifest last."""
    log, indexes, manifest = (
        CopiedObject(_key(stem, suffix), content, overwrite)
        for suffix, content in (
            (Suffix.LOG, segment.log),
            (Suffix.INDEXES, segment.indexes),
            (Suffix.MANIFEST, segment.manifest),
        )
    )
    name = f"{store.url}/{stem}"
    copy_objects(store, name, [log, indexes], manifest, recheck=recheck)


def _find_whole(store: ObjectStore, stem: str, segment: EncodedSegment) -> bytes | None:
    """Return the manifest of an earlier copy that was finished and is complete.

    Args:
        store: Where it is stored.
        stem: Common part of the keys of its objects.
        segment: The segment as it was encoded now. Objects of it may have been stored,
            next to the manifest of a copy whose own objects were gone.

    Raises:
        AlreadyExistsError: It is another segment.
        CorruptObjectError: The manifest is damaged.
    """
    key = _key(stem, Suffix.MANIFEST)
    name = f"{store.url}/{key}"
    try:
        data = bytes(store.get(key))
    except NotFoundError:
        return None
    stored = parse_manifest(data, name)
    _check_same(stored, segment.layout, f"{store.url}/{stem}")
    same = _interchangeable(stored, segment.layout)
    sizes = (stored.chunks.total_stored_size, stored.indexes_size)
    contents = (segment.log, segment.indexes)
    for suffix, size, content in zip(_PARTS, sizes, contents, strict=True):
        part = _key(stem, suffix)
        try:
            if store.head(part).size != size:
                return None
            if suffix not in same and _is_ours(store, part, size, content):
                return None
        except NotFoundError:
            return None
    return data


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


def _interchangeable(stored: Manifest, mine: Manifest) -> set[Suffix]:
    """Return which objects of one copy can be read with the manifest of the other."""
    if stored.wrapped_key is not None or mine.wrapped_key is not None:
        return set()
    found: set[Suffix] = set()
    both_plain = stored.is_plain and mine.is_plain
    if both_plain or (
        stored.is_compressed == mine.is_compressed
        and stored.chunks.format() == mine.chunks.format()
    ):
        found.add(Suffix.LOG)
    if stored.indexes == mine.indexes:
        found.add(Suffix.INDEXES)
    return found


def _is_ours(
    store: ObjectStore, key: str, size: int, content: bytes | LogContent
) -> bool:
    """Return whether an object is the given one, and not that of another copy."""
    given = len(content) if isinstance(content, bytes) else content.size
    end = min(size, _COMPARED)
    if given != size:
        return False
    start = content[:end] if isinstance(content, bytes) else content.read(0, end)
    return store.get_range(key, 0, end) == start
