"""Find what copies that did not end have left in a store, and remove what is old.

A copy in progress looks like one that has died. So an object is deleted only if it is
old, and no younger one shares its name but for the suffix. It is deleted with few
others, and just before all of them are listed and looked up once more. A copy that
adopts what another one has left writes it again, so what it has begun to complete is
seen to be young, and stays.

No store deletes an object only if it is unchanged: a copy may begin, and even end,
between the last look and the deletion. The copy looks for what it has adopted when it
has ended, and puts it again; and here the keys are listed after the deletion. So one of
the two notices, whichever is last, and no loss is silent.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import groupby
from math import inf
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    CorruptDataError,
    CorruptObjectError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.integers import MAX_INT64
from tieredfs.log.store_clock import store_time
from tieredfs.model import ByteRange, SegmentMetadata, TopicIdPartition
from tieredfs.objects import ObjectInfo
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, Leftover, RemoteStorageManager
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_log

__all__ = ["MIN_AGE", "FoundLeftover", "LeftoverState", "ScrubReport", "scrub"]

MIN_AGE: Final = timedelta(days=1)
"""Default age from which on a leftover is deleted: no copy takes so long."""

_MAX_CONCURRENCY: Final = 8

_MAX_GROUP: Final = 2 * _MAX_CONCURRENCY
"""Leftovers that are looked up and deleted together: the time between the two is that
of a few requests, however many there are.
"""

_MILLISECOND: Final = timedelta(milliseconds=1)


class LeftoverState(StrEnum):
    """What has become of a leftover."""

    FOUND = "found"
    """It is there; nothing was to be deleted."""

    KEPT = "kept"
    """It is too young, or of unknown age, or has changed: it may be part of a copy in
    progress."""

    ONLY_COPY = "only copy"
    """It is a log with an offset that no whole segment has, or lies beside one: an
    index may have been lost, and not a copy have died. It is never deleted."""

    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FoundLeftover:
    """An object that a copy has left.

    Attributes:
        partition: The partition that was copied to.
        leftover: The object.
        modified: When it was written, ms since 1970 UTC; None if the store does not
            report it.
        state: What has become of it.
    """

    partition: TopicIdPartition
    leftover: Leftover
    modified: int | None
    state: LeftoverState

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted."""
        return self.state is LeftoverState.DELETED


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """The result of scrubbing.

    Attributes:
        leftovers: The objects that were found, by partition and key.
        uploads: Keys of the unfinished uploads that were aborted, of whatever writer;
            None where that was not asked for.
        errors: Why partitions could not be looked at, or objects not be deleted.
    """

    leftovers: tuple[FoundLeftover, ...]
    uploads: tuple[str, ...] | None = None
    errors: tuple[TieredFSError, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left over now, as far as it could be looked at."""
        return not self.errors and all(one.is_deleted for one in self.leftovers)


def scrub(
    storage: RemoteStorageManager,
    partitions: Iterable[TopicIdPartition],
    *,
    delete: bool = False,
    uploads: bool = False,
    older_than: timedelta = MIN_AGE,
    now: Callable[[], float] | None = None,
) -> ScrubReport:
    """Find the leftovers of partitions, and delete those that are old, if asked to.

    Whole segments do not change, and neither does a copy that has written anything
    within the age, also if it completes what an older one has left. With ``older_than``
    of 0 everything is deleted, also what has no known age: no process may copy
    meanwhile. If this fails or the process dies, the rest is found by the next call.

    Args:
        storage: The tier.
        partitions: Whose copies, as ``leftover_partitions`` returns them.
        delete: Whether to delete.
        uploads: Whether also to abort unfinished multipart uploads below the store's
            URL that are as old, of whatever writer.
        older_than: Minimum age of what is deleted, by the clock of the store; longer
            by an hour than any copy takes. What has no known age is younger, unless
            this is 0.
        now: Returns the time in seconds since 1970 UTC. None to take it from the store,
            by writing an object; where it reports none, nothing has a known age.

    Raises:
        UnsupportedOperationError: ``delete``, but the layout is read only.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    if delete and Capability.WRITE not in storage.capabilities:
        raise UnsupportedOperationError(
            f"{storage!r} is read only: nothing can be deleted from it"
        )
    found: list[FoundLeftover] = []
    errors: list[TieredFSError] = []
    pool = DaemonExecutor(_MAX_CONCURRENCY, "tieredfs-scrub")
    before = None
    if older_than and (delete or uploads):
        at = store_time(storage.store) if now is None else now() * 1000
        before = -inf if at is None else at - older_than / _MILLISECOND
    work = _Scrub(storage, pool, before)
    try:
        for partition in partitions:
            try:
                seen = work.find(partition)
                found += work.delete(partition, seen) if delete else _as_found(seen)
            except SEGMENT_ERRORS as error:
                errors.append(error)
            except _PartlyDeletedError as error:
                found += error.found
                errors += error.reasons
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    aborted: tuple[str, ...] | None = None
    if uploads:
        try:
            aborted = _abort_uploads(storage, before)
        except (PermissionDeniedError, UnsupportedOperationError) as error:
            errors.append(error)
    return ScrubReport(tuple(found), aborted, tuple(errors))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A leftover, and its object when it was looked up."""

    partition: TopicIdPartition
    leftover: Leftover
    entry: ObjectInfo

    def as_found(self, state: LeftoverState) -> FoundLeftover:
        return FoundLeftover(self.partition, self.leftover, self.entry.modified, state)

    @property
    def stem(self) -> str:
        return _stem(self.entry.key)

    @property
    def content(self) -> tuple[str, int | None, str, int | None]:
        entry = self.entry
        return entry.key, entry.size, entry.version, entry.modified


class _Scrub:
    """Look at one partition after the other."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        pool: DaemonExecutor,
        before: float | None,
    ) -> None:
        """Create it, without sending a request.

        Args:
            storage: The tier.
            pool: Sends several requests concurrently.
            before: Time in ms since which a copy may be in progress; None for none.
        """
        self._storage = storage
        self._pool = pool
        self._before = before

    def find(
        self, partition: TopicIdPartition, stems: Collection[str] | None = None
    ) -> list[_Seen]:
        """Return the leftovers that exist, sorted by key.

        Args:
            partition: The partition.
            stems: Only those of these stems; None for all.
        """

        def look(leftover: Leftover) -> _Seen | None:
            entry = self._head(leftover.key)
            return None if entry is None else _Seen(partition, leftover, entry)

        leftovers = sorted(
            (
                one
                for one in self._storage.scrub(partition)
                if stems is None or _stem(one.key) in stems
            ),
            key=lambda one: one.key,
        )
        return [one for one in self._pool.map(look, leftovers) if one is not None]

    def _head(self, key: str) -> ObjectInfo | None:
        try:
            return self._storage.store.head(key)
        except NotFoundError:  # completed, or removed, since it was listed
            return None

    def delete(
        self, partition: TopicIdPartition, seen: Sequence[_Seen]
    ) -> list[FoundLeftover]:
        """Delete the leftovers that are old and still the same.

        Raises:
            _PartlyDeletedError: Some could not be deleted.
        """
        needed = self._only_copies(partition, seen)
        old = [one for one in _old_ones(seen, self._before) if one.stem not in needed]
        failures: list[TieredFSError] = []
        gone = set[str]()
        for group in _groups(old):
            keys = self._unchanged(partition, group)
            try:
                self._storage.store.delete(keys)
            except PermissionDeniedError as error:
                failures.append(error)
                keys = keys.difference(error.keys)
            gone |= keys
        failures += self._broken_copies(gone)
        done: list[FoundLeftover] = []
        for one in seen:
            state = LeftoverState.KEPT
            if one.stem in needed:
                state = LeftoverState.ONLY_COPY
            elif one.entry.key in gone:
                state = LeftoverState.DELETED
            done.append(one.as_found(state))
        if failures:
            raise _PartlyDeletedError(done, failures)
        return done

    def _unchanged(
        self, partition: TopicIdPartition, group: Collection[_Seen]
    ) -> set[str]:
        """Return the keys of leftovers that no copy has touched since they were seen.

        Args:
            partition: The partition.
            group: All leftovers of some segments.
        """
        before = {one.content for one in group}
        now = self.find(partition, {one.stem for one in group})
        differing = before.symmetric_difference(one.content for one in now)
        touched = {_stem(key) for key, *_ in differing}
        return {one.entry.key for one in group if one.stem not in touched}

    def _broken_copies(self, deleted: Collection[str]) -> list[TieredFSError]:
        """Return an error for each segment that was written while it was deleted.

        Args:
            deleted: The keys that were deleted.
        """
        store, stems = self._storage.store, {_stem(key) for key in deleted}
        folders = sorted({key[: key.rfind("/") + 1] for key in deleted})
        listed = [e.key for one in folders for e in store.list(one, delimiter="/")]
        there = self._pool.map(self._head, [k for k in listed if _stem(k) in stems])
        young = {_stem(e.key) for e in there if e and _is_young(e, self._before)}
        return [
            CorruptObjectError(
                f"{store.url}/{stem}: a copy of this segment has written objects while "
                "those of an earlier one were deleted: copy it again"
            )
            for stem in sorted(young)
        ]

    def _only_copies(
        self, partition: TopicIdPartition, seen: Sequence[_Seen]
    ) -> set[str]:
        """Return the stems of logs that have an offset which no whole segment has."""
        logs = [one for one in seen if one.leftover.log_start is not None]
        if not logs:
            return set()
        try:
            listed = self._storage.list_segments(partition)
        except NotFoundError:
            listed = []
        whole = [one for one in self._pool.map(self._described, listed) if one]
        held = [(one.start_offset, (one.end_offset or 0) + 1) for one in whole]
        return {one.stem for one in logs if not _covers(held, *self._offsets_of(one))}

    def _described(self, listed: SegmentMetadata) -> SegmentMetadata | None:
        """Return a segment with its end; None for one that cannot be read."""
        try:
            return self._storage.describe(listed)
        except (NotFoundError, *SEGMENT_ERRORS):
            return None

    def _offsets_of(self, one: _Seen) -> tuple[int, int]:
        """Return the offsets ``[start, end)`` of a log that is left over.

        Of a log that cannot be read, the end is after every offset.
        """
        key, start = one.entry.key, one.leftover.log_start or 0
        span = one.leftover.log_range or ByteRange(0, one.entry.size or 0)

        def fetch(first: int, stop: int) -> memoryview:
            first, stop = span.start + first, span.start + stop
            return self._storage.store.get_range(key, first, stop)

        log = LogSource(span.end - span.start, key, fetch, is_steady=False)
        end = start
        try:
            for batches in read_log(log):
                end = int(batches["last_offset"][-1]) + 1
        except (CorruptDataError, NotFoundError, UnsupportedFormatError):
            return start, MAX_INT64
        return start, end


class _PartlyDeletedError(Exception):
    """Some leftovers of a partition could not be deleted."""

    def __init__(
        self, found: Collection[FoundLeftover], reasons: Sequence[TieredFSError]
    ) -> None:
        super().__init__(*reasons)
        self.found = found
        self.reasons = reasons


def _abort_uploads(
    storage: RemoteStorageManager, before: float | None
) -> tuple[str, ...]:
    """Abort the uploads that began before a time of the store, in ms; None for all."""
    if before == -inf:
        return ()
    # The store object subtracts the age from this machine's time.
    age = 0 if before is None else time.time() - before / 1000
    return tuple(storage.store.abort_uploads(timedelta(seconds=age)))


def _stem(key: str) -> str:
    """Return a key without its suffix, which the objects of a segment share."""
    return key.rpartition(".")[0] or key


def _groups(seen: Iterable[_Seen]) -> Iterator[list[_Seen]]:
    """Divide leftovers into small groups, each with all that share a stem."""
    group: list[_Seen] = []
    for _, objects in groupby(sorted(seen, key=_by_stem), key=_by_stem):
        group += objects
        if len(group) >= _MAX_GROUP:
            yield group
            group = []
    if group:
        yield group


def _by_stem(one: _Seen) -> str:
    return one.stem


def _as_found(
    seen: Iterable[_Seen], state: LeftoverState = LeftoverState.FOUND
) -> list[FoundLeftover]:
    return [one.as_found(state) for one in seen]


def _old_ones(seen: Sequence[_Seen], before: float | None) -> Iterator[_Seen]:
    """Yield the leftovers that no copy in progress has written.

    A copy may have written its first object long ago, and be sending a large one. So
    objects that share their name but for the suffix are as old as the youngest.

    Args:
        seen: All leftovers of a partition.
        before: Time in ms since which a copy may be in progress; None for none.
    """
    young = {one.stem for one in seen if _is_young(one.entry, before)}
    yield from (one for one in seen if one.stem not in young)


def _is_young(entry: ObjectInfo, before: float | None) -> bool:
    """Return whether an object was written since a time in ms, or may have been."""
    if before is None:
        return False
    return entry.modified is None or entry.modified > before


def _covers(held: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether ranges of offsets together contain all of ``[start, end)``.

    Args:
        held: The ranges, each with its end (exclusive).
        start: First offset.
        end: End (exclusive).
    """
    for first, stop in sorted(held):
        if first > start:
            break
        start = max(start, stop)
    return start >= end
