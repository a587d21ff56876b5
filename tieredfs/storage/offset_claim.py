"""Who appends at an offset: of several writers one, and a dead one blocks nobody.

A segment's key holds its own id, so no put can tell that somebody else was first. The
object is put aside, the offset is claimed by a create that has one winner, and what the
claim names becomes the segment. Claims are never removed, for an offset that is free
again could be won by somebody who knows of an older end of the log. A claim whose
segment has been deleted is spent: the next claim of the offset has the next number.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    NotFoundError,
    UnsupportedFormatError,
)
from tieredfs.format.segment_key import (
    OWN_FOLDER,
    SEGMENT_SUFFIX,
    SegmentKey,
    partition_prefix,
)
from tieredfs.format.segment_tail import parse_manifest
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.storage.leftover import Leftover
from tieredfs.storage.segment_object import check_facts, object_key, seek_key

__all__ = ["claim_offset", "find_put_aside"]


_ASIDE: Final = f"{OWN_FOLDER}aside/"


def claim_offset(
    store: ObjectStore,
    partition: TopicIdPartition,
    key: SegmentKey,
    content: memoryview,
) -> None:
    """Make ``content`` the segment ``key`` unless its start offset is claimed already.

    A claim that is found is completed, for its writer may have died. Afterwards, also
    after a crash, the segment is there whole, or not at all, or as soon as somebody
    else appends.

    Args:
        store: Where the segments are.
        partition: Whose log is appended to.
        key: What the segment's key says.
        content: The whole object.

    Raises:
        AlreadyExistsError: Another writer was first; nothing was stored.
    """
    aside = _aside(key.stem)
    store.put(aside, content, overwrite=True)
    stem = _claim(store, partition, key)
    if stem is not None:
        if stem != key.stem:
            store.delete([aside])
        msg = (
            f"{store.url}: {partition}: offset {key.start_offset} was appended by "
            "another writer"
        )
        raise AlreadyExistsError(msg)
    _complete(store, partition, key.stem)


def find_put_aside(
    store: ObjectStore, partition: TopicIdPartition
) -> Iterator[Leftover]:
    """Yield what appends to a partition that did not end have put aside.

    The name of what is put aside does not say whose it is, so each is asked: one range
    read. What nobody can tell whose it is belongs to no partition.
    """
    for entry in store.list(_ASIDE):
        if _is_of(store, partition, entry):
            reason = f"put aside to be appended to {partition}, and never completed"
            yield Leftover(entry.key, entry.size or 0, reason)


def _is_of(store: ObjectStore, partition: TopicIdPartition, entry: ObjectInfo) -> bool:
    name = f"{store.url}/{entry.key}"
    try:
        key = SegmentKey.parse(entry.key.removeprefix(_ASIDE))
        if key is None or key.size != entry.size:
            return False
        tail = store.get_range(entry.key, key.log_length, key.size)
        manifest = parse_manifest(tail, key.log_length, key.flags, name=name)
        check_facts(manifest, partition, key, name)
    except (CorruptObjectError, NotFoundError, UnsupportedFormatError):
        return False  # another partition's, or completed meanwhile
    return True


def _claim(
    store: ObjectStore, partition: TopicIdPartition, key: SegmentKey
) -> str | None:
    """Claim an offset; return the segment that has it, and None for this one."""
    prefix = partition_prefix(partition)
    for number in count():
        # Where claims are spent, this writer may not know how far the log has come.
        if number and _goes_on(store, prefix, key.start_offset):
            return ""
        claim = f"{OWN_FOLDER}claims/{prefix}{key.start_offset:020d}"
        try:
            store.put(f"{claim}-{number}", key.stem.encode(), overwrite=False)
        except AlreadyExistsError:
            stem = bytes(store.get(f"{claim}-{number}")).decode("ascii", "replace")
            if _complete(store, partition, stem):
                return stem
        else:
            return None
    raise AssertionError


def _goes_on(store: ObjectStore, prefix: str, offset: int) -> bool:
    entries = store.list(prefix, start_after=seek_key(prefix, offset))
    return any(entry.key.endswith(SEGMENT_SUFFIX) for entry in entries)


def _complete(store: ObjectStore, partition: TopicIdPartition, stem: str) -> bool:
    """Make what was put aside a segment; return whether it is one now."""
    if SegmentKey.parse(stem) is None:
        msg = f"{store.url}: {partition}: a claim holds {stem!r}"
        raise CorruptObjectError(msg)
    segment = object_key(partition, stem)
    with suppress(NotFoundError):
        store.copy(_aside(stem), segment)
        store.delete([_aside(stem)])
        return True
    with suppress(NotFoundError):
        store.head(segment)
        return True
    return False


def _aside(stem: str) -> str:
    return f"{_ASIDE}{stem}"
