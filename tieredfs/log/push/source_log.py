"""The segments of a partition in the source of a push, whose broker may change them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    CorruptDataError,
    DeadlineExceededError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_each_batch

__all__ = [
    "UNREADABLE",
    "UNUSABLE",
    "ChangedError",
    "UnreadableError",
    "listed_segments",
    "measured",
    "read_indexes",
    "reading",
    "unchanged",
]

UNUSABLE: Final = (NotFoundError, *SEGMENT_ERRORS)
"""Errors of one log or index, without which a push continues."""

UNREADABLE: Final = (
    DeadlineExceededError,
    PermissionDeniedError,
    StorageUnavailableError,
)
"""Errors of a local source for a file that cannot be read."""


class ChangedError(Exception):
    """The segment is no longer what was listed."""


class UnreadableError(Exception):
    """The source cannot read the segment's log."""

    def __init__(self, reason: TieredFSError) -> None:
        super().__init__(reason)
        self.reason = reason


def listed_segments(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> list[SegmentMetadata]:
    """List the segments of a partition; empty if it does not exist."""
    try:
        return storage.list_segments(partition)
    except NotFoundError:
        return []


def measured(
    source: RemoteStorageManager, listed: SegmentMetadata
) -> SegmentMetadata | None:
    """Return a segment with end and size from its log; None if it has no batch yet."""
    if listed.end_offset is not None and listed.size is not None:
        return listed
    last = None
    is_active = source.is_active(listed)
    for batch in fetch_each_batch(source, listed, torn_tail=is_active):
        last = batch.header
    if last is None:
        return None
    return replace(listed, end_offset=last.last_offset, size=last.end)


def read_indexes(
    source: RemoteStorageManager, segment: SegmentMetadata
) -> Mapping[IndexType, Buffer]:
    """Fetch the indexes that can be fetched; the others are rebuilt."""
    found: dict[IndexType, Buffer] = {}
    for kind in IndexType:
        with suppress(*UNUSABLE):
            found[kind] = source.fetch_index(segment, kind)
    return found


@contextmanager
def reading(source: RemoteStorageManager, listed: SegmentMetadata) -> Iterator[None]:
    """Distinguish a damaged segment from one that the broker has changed.

    Raises:
        ChangedError: The broker has changed it meanwhile.
        UnreadableError: A file of a local source cannot be read.
    """
    try:
        with unchanged(source, listed):
            yield
    except NotFoundError as error:
        raise ChangedError from error
    except UNREADABLE as error:
        # A disk may have single unreadable files; a server fails for all files.
        if not source.store.is_local:
            raise
        raise UnreadableError(error) from error


@contextmanager
def unchanged(source: RemoteStorageManager, listed: SegmentMetadata) -> Iterator[None]:
    """Distinguish a corrupt log from one that was rewritten meanwhile.

    Raises:
        ChangedError: It was rewritten.
    """
    try:
        yield
    except CorruptDataError as error:
        if source.is_current(listed):
            raise
        raise ChangedError from error
