"""Who appends at an offset: of several writers one, and a dead one blocks nobody.

A segment's key holds its own id, so no put can tell that another writer was first. An
append is three steps:

1. The object is put aside, under a name that no other put has: its stem and a token.
2. The offset is claimed by a create that has one winner. The claim holds that name.
3. What the claim names is copied to where a segment lies, and removed where it was.

A claim counts only where the log ends: an offset that a segment holds, and one that the
log no longer reaches since its end was deleted, nobody claims, and what an older claim
names is not completed there but removed. Otherwise a writer would overlap another that
begins earlier. A log without a segment ends at 0.

While it is copied, what is put aside may be removed and its claim taken for spent, or
the end of the log be deleted. So whoever has copied looks for a segment that overlaps
this one: of two writers the later one sees the other's, removes its own, and has lost.

Claims are never removed, for an offset that is free again could be won by a writer that
knows of an older end of the log. They are numbered, and number ``n + 1`` counts once
``n`` is spent: neither what it names nor the segment is there. That is for ever, since
no name is put aside twice, not even by two attempts of one put, of which the server may
do the first when all is over. It comes about when the segment is deleted, and when
``cancel_copying`` comes between steps 2 and 3.

=====================  ===================  ============================================
a writer ends          it leaves            who appends next at the offset
=====================  ===================  ============================================
before or in step 1    nothing, or what     the same writer or another: wins
                       ``scrub`` finds
in step 2, refused     what ``scrub``       the same writer or another: loses to the one
                       finds                that the claim names
in step 2, unknown,    an object aside,     any other completes it, and loses; the same
or before step 3       and a claim of it    writer completes it, and has succeeded
in step 3, or later    a segment            the same; there is nothing to complete
=====================  ===================  ============================================

The same writer is one that appends the same segment: an id is given to one append only,
so a completed claim of the own stem is the own success, and that of another stem is
not, even where both hold the same bytes. A create that is still under way when its
writer has gone on finds its number taken, or wins as if the writer had died.

Claims of earlier releases hold the stem alone, which names what they have put aside.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    NotFoundError,
    StorageUnavailableError,
    UnsupportedFormatError,
)
from tieredfs.format.segment.key import (
    OWN_FOLDER,
    SEGMENT_SUFFIX,
    SegmentKey,
    partition_prefix,
)
from tieredfs.format.segment.tail import parse_manifest
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.storage.layouts.single_object.segment_object import (
    check_facts,
    object_key,
    seek_key,
)
from tieredfs.storage.leftover import Leftover

__all__ = ["claim_offset", "find_put_aside", "remove_put_aside"]


_ASIDE: Final = f"{OWN_FOLDER}aside/"
_SEPARATOR: Final = "."  # no character of a stem


def claim_offset(
    store: ObjectStore,
    partition: TopicIdPartition,
    key: SegmentKey,
    content: bytes,
) -> None:
    """Make ``content`` the segment ``key`` where the log ends, unless that is claimed.

    A claim that is found is completed, for its writer may have died. Afterwards, also
    after a crash, the segment is there whole, or not at all, or as soon as another
    writer appends. Called again with the same segment it goes on, or finds it there.

    Args:
        store: Where the segments are.
        partition: Whose log is appended to.
        key: What the segment's key says.
        content: The whole object.

    Raises:
        AlreadyExistsError: Another writer was first, or the log does not end at the
            segment's start offset; nothing was stored.
        StorageUnavailableError: What was put aside has been removed meanwhile, or the
            segment would overlap another: nothing was stored. Or the store failed, and
            the segment may be there or become it.
    """
    aside = store.put_new(_aside(f"{key.stem}{_SEPARATOR}"), content)
    own = aside.removeprefix(_ASIDE)
    winner = _claim(store, partition, key.start_offset, own)
    if winner != own:
        store.delete([aside])
    if _stem(winner) != key.stem:
        reason = (
            "was appended by another writer"
            if winner
            else "is not where the log ends: another writer appended, or it was cut"
        )
        msg = f"{store.url}: {partition}: offset {key.start_offset} {reason}"
        raise AlreadyExistsError(msg)


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


def remove_put_aside(store: ObjectStore, stem: str) -> None:
    """Remove what a segment was made of, which its writer may not have come to do.

    The claim would be completed with it once more when the segment has been deleted.
    """
    put_aside = _aside(f"{stem}{_SEPARATOR}")
    store.delete([entry.key for entry in store.list(put_aside)])


def _is_of(store: ObjectStore, partition: TopicIdPartition, entry: ObjectInfo) -> bool:
    name = f"{store.url}/{entry.key}"
    try:
        key = SegmentKey.parse(_stem(entry.key.removeprefix(_ASIDE)))
        if key is None or key.size != entry.size:
            return False
        tail = store.get_range(entry.key, key.log_length, key.size)
        manifest = parse_manifest(tail, key.log_length, key.flags, name=name)
        check_facts(manifest, partition, key, name)
    except (CorruptObjectError, NotFoundError, UnsupportedFormatError):
        return False  # another partition's, or completed meanwhile
    return True


def _claim(
    store: ObjectStore, partition: TopicIdPartition, offset: int, own: str
) -> str:
    """Claim an offset for ``own``, and complete the claim that counts.

    Returns:
        What that claim names; empty where the log does not end at the offset.
    """
    prefix = partition_prefix(partition)
    for number in count():
        claim = f"{OWN_FOLDER}claims/{prefix}{offset:020d}-{number}"
        # This writer may not know where the log ends: its end may have been deleted,
        # and another writer begin, or have begun, before this offset.
        if not _ends_at(store, prefix, offset):
            winner = _read_claim(store, claim)
            if not winner:
                return ""
            is_done = _spend(store, partition, winner)
        else:
            winner = own
            try:
                store.put(claim, own.encode(), overwrite=False)
            except AlreadyExistsError:
                winner = _read_claim(store, claim)
            is_done = _complete(store, partition, winner)
        if is_done:
            return winner
        if winner == own:
            msg = (
                f"{store.url}: {partition}: what was to be appended at offset {offset} "
                "was removed, or came too late; nothing was stored: append again"
            )
            raise StorageUnavailableError(msg)
    raise AssertionError


def _read_claim(store: ObjectStore, claim: str) -> str:
    """Return what a claim names; empty where there is no claim."""
    with suppress(NotFoundError):
        return bytes(store.get(claim)).decode("ascii", "replace")
    return ""


def _ends_at(store: ObjectStore, prefix: str, offset: int) -> bool:
    """Tell whether an offset is where the log ends: behind its last segment, or 0."""
    last = offset - 1
    is_reached = offset == 0
    for entry in store.list(prefix, start_after=seek_key(prefix, last)):
        if entry.key.endswith(SEGMENT_SUFFIX):
            if not entry.key.startswith(f"{prefix}{last:020d}-"):
                return False
            is_reached = True
    return is_reached


def _complete(store: ObjectStore, partition: TopicIdPartition, name: str) -> bool:
    """Make what was put aside a segment; return whether it is one now."""
    key = _key(store, partition, name)
    segment = object_key(partition, key.stem)
    with suppress(NotFoundError):
        store.copy(_aside(name), segment)
        store.delete([_aside(name)])
        if _is_overlapped(store, partition, key):
            store.delete([segment])
            return False
        return True
    return _is_there(store, segment)


def _spend(store: ObjectStore, partition: TopicIdPartition, name: str) -> bool:
    """Let nobody make a segment of what was put aside; return whether it is one."""
    key = _key(store, partition, name)
    store.delete([_aside(name)])
    return _is_there(store, object_key(partition, key.stem))


def _is_overlapped(
    store: ObjectStore, partition: TopicIdPartition, key: SegmentKey
) -> bool:
    """Tell whether another segment has offsets of this one."""
    prefix, own = partition_prefix(partition), object_key(partition, key.stem)
    for entry in store.list(prefix, start_after=seek_key(prefix, key.start_offset)):
        if entry.key != own and entry.key.endswith(SEGMENT_SUFFIX):
            stem = entry.key[len(prefix) : -len(SEGMENT_SUFFIX)]
            other = SegmentKey.parse(stem)
            if other is not None and other.start_offset <= key.end_offset:
                return True
    return False


def _key(store: ObjectStore, partition: TopicIdPartition, name: str) -> SegmentKey:
    """Return the key of the segment that a claim is about."""
    key = SegmentKey.parse(_stem(name))
    if key is None:
        msg = f"{store.url}: {partition}: a claim holds {name!r}"
        raise CorruptObjectError(msg)
    return key


def _is_there(store: ObjectStore, key: str) -> bool:
    with suppress(NotFoundError):
        store.head(key)
        return True
    return False


def _aside(name: str) -> str:
    return f"{_ASIDE}{name}"


def _stem(name: str) -> str:
    """Return the segment that something was put aside to become."""
    return name.partition(_SEPARATOR)[0]
