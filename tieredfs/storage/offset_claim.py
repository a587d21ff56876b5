"""Who appends at an offset: of several writers one, and a dead one blocks nobody.

A segment's key holds its own id, so no put can tell that somebody else was first. The
object is put aside, the offset is claimed by a create that has one winner, and what the
claim names becomes the segment. Claims are never removed: an offset that is free again
could be won by somebody who knows of an older end of the log.
"""

from contextlib import suppress

from tieredfs.errors import AlreadyExistsError, CorruptObjectError, NotFoundError
from tieredfs.format.segment_key import OWN_FOLDER, SegmentKey, partition_prefix
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectStore
from tieredfs.storage.segment_object import object_key

__all__ = ["claim_offset"]


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
    claim = f"{OWN_FOLDER}claims/{partition_prefix(partition)}{key.start_offset:020d}"
    store.put(aside, content, overwrite=True)
    try:
        store.put(claim, key.stem.encode(), overwrite=False)
    except AlreadyExistsError as error:
        stem = bytes(store.get(claim)).decode("ascii", "replace")
        if stem != key.stem:
            store.delete([aside])
        _complete(store, partition, stem)
        msg = (
            f"{store.url}: {partition}: offset {key.start_offset} was appended by "
            "another writer"
        )
        raise AlreadyExistsError(msg) from error
    _complete(store, partition, key.stem)


def _complete(store: ObjectStore, partition: TopicIdPartition, stem: str) -> None:
    """Make what was put aside a segment; it may be one already."""
    if SegmentKey.parse(stem) is None:
        msg = f"{store.url}: {partition}: a claim holds {stem!r}"
        raise CorruptObjectError(msg)
    with suppress(NotFoundError):
        store.copy(_aside(stem), object_key(partition, stem))
        store.delete([_aside(stem)])


def _aside(stem: str) -> str:
    return f"{OWN_FOLDER}aside/{stem}"
