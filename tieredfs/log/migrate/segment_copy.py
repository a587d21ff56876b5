"""Copy one segment from a tier to another place, and read it back."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.log.migrate.read_back import wrong_copy
from tieredfs.log.migrate.same_content import Checksum, check_same_content
from tieredfs.log.migrate.segment_indexes import (
    lacks_indexes,
    read_description,
    rebuilt_indexes,
)
from tieredfs.log.migrate.stored_copies import StoredCopies
from tieredfs.log.push.outcome import PushedSegment, PushOutcome
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.spool_log import last_offset, spool_log

__all__ = ["DeferredError", "SegmentCopier"]

_FAILURES = (
    AlreadyExistsError,
    CorruptDataError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
"""Errors of one segment, without which a migration continues."""


class DeferredError(Exception):
    """Indexes of the segment have to be rebuilt, from what the one before it left."""


class SegmentCopier:
    """Copy segments of stored tiers, whose ids belong to one copy each."""

    def __init__(
        self,
        source: RemoteStorageManager,
        target: RemoteStorageManager,
        watch: Callable[[memoryview], object],
    ) -> None:
        """Create a copier, without sending a request.

        Args:
            source: Where the segments are.
            target: Where they go.
            watch: Called with each piece of a log when it has been read from
                ``source``.
        """
        self._source = source
        self._target = target
        self._watch = watch

    def copy(
        self, listed: SegmentMetadata, copies: StoredCopies, *, rebuilds: bool = False
    ) -> PushedSegment | None:
        """Copy a segment, unless the target has it; return None if it is gone.

        Afterwards, also after a crash, the target has all of the segment or nothing.

        Args:
            listed: As the source lists or describes it.
            copies: What the target had when it was listed.
            rebuilds: Whether the segments before it have been copied, so that indexes
                can be rebuilt.

        Raises:
            DeferredError: Indexes have to be rebuilt, and ``rebuilds`` is false.
            StorageUnavailableError: A store failed in all attempts of its policy.
        """
        if copies.find_by_id(listed) is not None:
            return PushedSegment(listed, PushOutcome.PRESENT)
        other = copies.find_by_offsets(listed)
        try:
            if other is None:
                return self._copy(listed, rebuilds=rebuilds)
            source, target = self._source, self._target
            check_same_content(source, listed, target, other, self._watch)
            return PushedSegment(listed, PushOutcome.PRESENT)
        except NotFoundError as error:
            if not self._is_listed(listed):
                return None
            return PushedSegment(listed, PushOutcome.FAILED, error=error)
        except _FAILURES as error:
            return PushedSegment(listed, PushOutcome.FAILED, error=error)

    def _copy(self, listed: SegmentMetadata, *, rebuilds: bool) -> PushedSegment:
        """Copy a segment, and return it as the target has it.

        Raises:
            NotFoundError: The source has deleted it.
            DeferredError: As in ``copy``.
            CorruptDataError: It is corrupt in the source; or what the target gives back
                is not what was copied, and has been deleted there again.
            UnsupportedOperationError: The target cannot store it.
        """
        source, target = self._source, self._target
        segment, found = read_description(source, listed)
        checksum = Checksum(self._watch)
        with spool_log(source, segment, watch=checksum.add) as log:
            last, end = last_offset(segment, log), segment.end_offset or 0
            if last < end and not source.is_compacted(segment.partition):
                raise CorruptBatchError(
                    f"{source.name_of(listed)}: the log ends before offset {last + 1}, "
                    f"the segment at {end}"
                )
            wanted = replace(segment, size=log.size, version="", custom_metadata=b"")
            indexes = found
            if rebuilds:
                indexes = rebuilt_indexes((target, source), wanted, log, found)
            elif lacks_indexes(found):
                raise DeferredError
            try:
                custom = target.copy_open_log(wanted, log, indexes)
            except CorruptIndexError as error:
                if rebuilds:
                    raise
                raise DeferredError from error
        copied = replace(wanted, custom_metadata=custom)
        self._verify(copied, checksum)
        rebuilt = tuple(k for k in indexes if indexes[k] != found.get(k))
        return PushedSegment(copied, PushOutcome.COPIED, rebuilt)

    def _verify(self, copied: SegmentMetadata, expected: Checksum) -> None:
        """Compare the log in the target with what was read from the source.

        Raises:
            CorruptObjectError: They differ; the copy was deleted.
        """
        target = self._target

        def compare(pieces: Iterable[memoryview]) -> str | None:
            found = Checksum()
            for piece in pieces:
                found.add(piece)
            if str(found) == str(expected):
                return None
            return f"it has {found}, the log that was read {expected}"

        detail = wrong_copy(target, copied, compare)
        if detail is None:
            return
        target.delete_log_segment(copied)
        raise CorruptObjectError(
            f"{target.name_of(copied)}: the copy is not what was read from "
            f"{self._source.store.url}, and was deleted again: {detail}"
        )

    def _is_listed(self, segment: SegmentMetadata) -> bool:
        """Return whether the source still lists a segment."""
        try:
            listed = self._source.list_segments(segment.partition, segment.start_offset)
        except NotFoundError:
            return False
        except CorruptDataError:
            return True
        name = segment.start_offset, segment.id
        return any((one.start_offset, one.id) == name for one in listed)
