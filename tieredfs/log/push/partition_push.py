"""Push one partition: its segments in order, each segment once.

If the target's last segments are of a leader that lost its last records, those that the
next leader wrote in their place come first: see ``_check_order``.

The broker continues to write while its log is read. A segment's end is known from the
start of the next one. So a segment whose log ends earlier, as in a compacted topic, is
copied only after the source has confirmed its end again after reading.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptBatchError,
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.end_claims import is_longer_wrong, same_log
from tieredfs.log.planning.same_log import LogCopy, check_same_log
from tieredfs.log.push.history import check_what_follows, divergence
from tieredfs.log.push.outcome import PushedSegment, PushOutcome
from tieredfs.log.push.push_record import PartitionRecord
from tieredfs.log.push.source_log import (
    UNUSABLE,
    ChangedError,
    UnreadableError,
    listed_segments,
    measured,
    read_indexes,
    reading,
    unchanged,
)
from tieredfs.log.push.stored_segments import StoredSegments
from tieredfs.log.push.write_guard import WriteGuard
from tieredfs.log.verify.segment_check import SegmentCheck
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    IndexType,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.early_end import check_cleaned_end
from tieredfs.storage.segment_log.content_id import ContentId
from tieredfs.storage.segment_log.inspection import (
    PriorState,
    inspect_segment,
    parse_producers,
    prior_state,
)
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_batches
from tieredfs.storage.spool_log import last_offset, spool_log

__all__ = ["PartitionPush"]

_ROUNDS: Final = 3
"""Most listings of a partition because the broker changed it meanwhile."""


_FAILURES: Final = (
    AlreadyExistsError,
    CorruptDataError,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
"""Errors that end the decision between two objects of a log, but not the push."""

_REFUSALS: Final = (
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
"""Errors of a target that cannot store a log."""

_Undecided = tuple[SegmentMetadata | None, bool]
"""The previous segment as the target has it, and whether it was reported."""


class PartitionPush:
    """Push one partition."""

    def __init__(  # noqa: PLR0913 - what push() was given
        self,
        source: RemoteStorageManager,
        target: RemoteStorageManager,
        partition: TopicIdPartition,
        *,
        active: bool,
        repair: bool,
        interval_bytes: int,
        log_start: int = 0,
        stable_offset: int | None = None,
        record: PartitionRecord | None,
        watch: Callable[[memoryview], object],
        guard: WriteGuard | None = None,
        ends_when_refused: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._partition = partition
        self._active = active
        self._check = SegmentCheck(target, reads_logs=True) if repair else None
        self._interval_bytes = interval_bytes
        self._log_start = log_start
        self._stable_offset = MAX_INT64 if stable_offset is None else stable_offset
        """Where the segments end that may be copied."""
        self._guard = guard
        self._record = record
        self._listing: list[SegmentMetadata] = []
        """The segments of the source in its last listing."""
        self._watch = watch
        self._there = StoredSegments(target, partition)
        self._undecided: dict[SegmentMetadata, _Undecided] = {}
        """Segments whose log the target has with another end offset."""
        self._after: dict[SegmentMetadata, PriorState] = {}
        is_unknown = partition.topic_id == UNKNOWN_TOPIC_ID
        self._is_one_log = target.keeps_topic_ids and not is_unknown
        """Whether the target is known to have the log of the source."""
        self._diverged_from: int | None = None
        """What ``divergence`` returned, if it matters: the segments from there on are
        copied first."""
        self._ends_when_refused = ends_when_refused
        self._is_refused = False
        """Whether the target cannot store the log, so that its other segments are not
        tried."""

    def run(self) -> Iterator[PushedSegment]:
        """Yield each segment when it is done, in order; deferred segments come last."""
        try:
            yield from self._run()
        finally:
            if self._record is not None and self._listing:
                self._record.save(self._listing)

    def _run(self) -> Iterator[PushedSegment]:
        done: dict[SegmentMetadata, SegmentMetadata | None] = {}
        rounds = _ROUNDS
        while True:
            self._listing = listed_segments(self._source, self._partition)
            previous = {later: earlier for earlier, later in pairwise(self._listing)}
            for listed in self._remaining(done):
                earlier = previous.get(listed)
                before = None if earlier is None else done.get(earlier)
                try:
                    one = self._tried(listed, before)
                except _DivergedError:
                    break  # into the other order
                except ChangedError:
                    rounds -= 1
                    if rounds:
                        break  # the cleaner may have merged it with others: list
                    # Later segments wait for it, so that there is no hole.
                    yield PushedSegment(listed, PushOutcome.CHANGED)
                    return
                except _LongerError as error:
                    self._undecided[listed] = before, False
                    done[listed] = error.longer
                    continue
                if one is not None:
                    yield one
                    if self._ends_with(one):
                        return
                failed = one is None or one.outcome is PushOutcome.FAILED
                # The target does not have a segment that has expired in part.
                absent = failed or one is None or one.segment is listed
                done[listed] = None if absent or one is None else one.segment
            else:
                yield from self._resolve_ends()
                return

    def _remaining(self, done: Container[SegmentMetadata]) -> list[SegmentMetadata]:
        """Return the segments that are still to be pushed, in the order to do so."""
        diverged_from = self._diverged_from or 0
        starts = [*(listed.start_offset for listed in self._listing), MAX_INT64]
        ordered = sorted(
            zip(self._listing, starts[1:], strict=True),
            key=lambda one: one[1] <= diverged_from,  # the sort is stable
        )
        return [
            listed
            for listed, _ in ordered
            if listed not in done and self._is_copied(listed)
        ]

    def _is_copied(self, listed: SegmentMetadata) -> bool:
        end = listed.end_offset
        if end is not None and not self._log_start <= end < self._stable_offset:
            return False
        return self._active or not self._source.is_active(listed)

    def _ends_with(self, one: PushedSegment) -> bool:
        """Return whether the segments after a failed one must not be copied either.

        After records of another log, no segment is of the target's log. If the target
        rejects one segment, it also rejects the following ones. And if the target has
        an older state of the failed segment, a cleaned copy after it could bring
        deleted records back.
        """
        failed, source = one.segment, self._source
        if one.outcome is not PushOutcome.FAILED:
            return False
        if self._is_refused or isinstance(one.error, AlreadyExistsError):
            return True
        last = failed.start_offset if failed.end_offset is None else failed.end_offset
        return source.is_compacted(self._partition) and any(
            stored.start_offset <= last
            and (stored.end_offset or 0) >= failed.start_offset
            for stored in self._there
        )

    def _resolve_ends(self) -> Iterator[PushedSegment]:
        """Decide which object of one log stays if the ends differ: see ``end_claims``.

        The object that the source has just confirmed replaces a shorter one. It
        replaces a longer one if only that implies that a cleaner has run, while other
        segments have records where it has none. Otherwise the longer one is the later
        state, and the source lags behind.

        If two concurrent pushes decide differently, one finds its own object deleted
        and copies it again.
        """
        self._diverged_from = self._diverged_from or 0  # nothing is left to be first
        for listed, (before, is_done) in self._undecided.items():
            one: PushedSegment | None = PushedSegment(listed, PushOutcome.CHANGED)
            for _ in range(_ROUNDS):
                self._there.refresh()
                try:
                    one = self._push(listed, before, resolves_ends=True)
                except _LongerError as error:
                    one = PushedSegment(error.longer, PushOutcome.PRESENT)
                except ChangedError:
                    continue
                except UnreadableError as error:
                    one = PushedSegment(listed, PushOutcome.FAILED, error=error.reason)
                except _FAILURES as error:
                    one = PushedSegment(listed, PushOutcome.FAILED, error=error)
                break
            if one is not None and not is_done:
                yield one

    def _are_wrong(
        self, longer: Iterable[SegmentMetadata], shorter: SegmentMetadata
    ) -> bool:
        """Return whether the longer objects of one log are all wrong."""
        try:
            return all(
                is_longer_wrong(shorter, one, self._target, tuple(self._there))
                for one in longer
            )
        except NotFoundError as error:  # another push has deleted it
            raise ChangedError from error

    def _tried(
        self, listed: SegmentMetadata, before: SegmentMetadata | None
    ) -> PushedSegment | None:
        """Push one segment, which may fail alone or with all later ones."""
        failure: TieredFSError
        try:
            return self._push(listed, before)
        except UnreadableError as error:
            failure = error.reason
        except _REFUSALS as error:
            self._is_refused = self._ends_when_refused
            failure = error
        except (AlreadyExistsError, CorruptDataError, UnsupportedFormatError) as error:
            failure = error
        return PushedSegment(listed, PushOutcome.FAILED, error=failure)

    def _push(
        self,
        listed: SegmentMetadata,
        before: SegmentMetadata | None,
        *,
        resolves_ends: bool = False,
    ) -> PushedSegment | None:
        """Push one segment; return None if it has no batch yet.

        Args:
            listed: As the source lists it.
            before: The previous segment as the target has it, if it does.
            resolves_ends: Whether all others have been pushed, so that it can be
                decided which object of one log stays.

        Raises:
            ChangedError: The broker has changed it meanwhile.
            UnreadableError: Its log cannot be read.
            _LongerError: The target has its log with a larger end offset.
        """
        known = self._known(listed) or self._expired_in_part(listed)
        if known is not None:
            return PushedSegment(known, PushOutcome.PRESENT)
        source = self._source
        with ExitStack() as stack:
            with reading(source, listed):
                segment = measured(source, listed)
                if segment is None:
                    return None
                indexes = read_indexes(source, segment)
                content = ContentId(segment.partition, segment.start_offset)
                take = _both(content.add, self._watch)
                log = stack.enter_context(spool_log(source, segment, watch=take))
                last = last_offset(segment, log)
                if not source.is_current(listed, last):
                    raise ChangedError
            segment = self._there.with_stored_id(replace(segment, id=content.finish()))
            if self._record is not None:
                self._record.add(listed, segment.id, last)
            others = same_log(segment, self._there)
            if source.is_active(listed) and others:
                return PushedSegment(others[0], PushOutcome.PRESENT)
            longer = [one for one in others if _ends_later(one, segment)]
            if longer and not (resolves_ends and self._are_wrong(longer, segment)):
                raise _LongerError(longer[0])
            present = self._there.find(segment)
            damage = None if present is None else self._damage(present, before)
            if present is not None and damage is None:
                pushed = PushedSegment(present, PushOutcome.PRESENT)
            else:
                lead = self._lead(segment, before)
                with unchanged(source, listed):  # it is read again in place
                    pushed = self._copy(segment, log, indexes, lead, damage)
            if others and resolves_ends:
                self._replace(pushed.segment, others)
            elif others:
                self._undecided[listed] = before, True
            return pushed

    def _known(self, listed: SegmentMetadata) -> SegmentMetadata | None:
        """Return a segment as the target has it, if its log need not be read for that.

        That is so if its log was read before and is unchanged, the source confirms its
        end as it does after a read, and the target has exactly this segment. In all
        other cases the log is read.
        """
        if self._record is None or self._check is not None:
            return None
        found = self._record.find(listed)
        if found is None:
            return None
        segment = replace(listed, id=found.id)
        present = self._there.find(segment)
        if present is None or same_log(segment, self._there):
            return None
        is_current = self._source.is_current(listed, found.last_offset)
        return present if is_current else None

    def _expired_in_part(self, listed: SegmentMetadata) -> SegmentMetadata | None:
        """Return a segment if it has expired in part, and the target has its rest.

        Another replica has other segments than those that have expired. If this one was
        copied, its expired records would be back. After a cleaner it is copied still:
        what it no longer has may be what hides stored records.
        """
        start, end = listed.start_offset, listed.end_offset
        log_start, source = self._log_start, self._source
        if end is None or not start < log_start <= end:
            return None
        if source.is_active(listed) or source.is_compacted(self._partition):
            return None
        try:
            data = source.fetch_index(listed, IndexType.LEADER_EPOCH)
            epochs = parse_leader_epochs(data, name=source.name_of(listed))
        except UNUSABLE:
            return None
        return listed if self._there.hold_from(log_start, listed, epochs) else None

    def _replace(
        self, segment: SegmentMetadata, others: Iterable[SegmentMetadata]
    ) -> None:
        """Delete other objects of a segment's log, and check that the segment exists.

        Raises:
            ChangedError: Another push has deleted it meanwhile.
        """
        for other in others:
            if self._guard is not None:
                self._guard.before_delete(other)
            self._target.delete_log_segment(other)
        self._there.refresh()
        if self._there.find(segment) is None:
            raise ChangedError

    def _copy(
        self,
        segment: SegmentMetadata,
        log: LogSource,
        found: Mapping[IndexType, Buffer],
        lead: PriorState,
        damage: TieredFSError | None,
    ) -> PushedSegment:
        """Copy a segment with its indexes, rebuilding inconsistent ones.

        Args:
            segment: The segment, with its id in the target.
            log: Its log.
            found: The indexes that could be read.
            lead: What is known of the partition where the segment begins.
            damage: What is wrong with the copy that it replaces; None for no copy.
        """
        name = self._source.name_of(segment)
        inspection = inspect_segment(
            read_batches(log), segment, found, lead, interval_bytes=self._interval_bytes
        )
        described = replace(segment, leader_epochs=inspection.facts.epochs)
        stored = [one for one in self._there if one.id != segment.id]
        copy = LogCopy.held(described, log)
        check_same_log(copy, log.name, self._target, stored)
        self._check_what_follows(segment)
        lost = inspection.lost_from
        if lost is not None and not self._source.is_compacted(segment.partition):
            raise CorruptBatchError(
                f"{name}: the log ends before offset {lost}, the segment at "
                f"{segment.end_offset}"
            )
        if inspection.last_offset < (segment.end_offset or 0):
            check_cleaned_end(
                self._source,
                segment,
                inspection.last_offset + 1,
                found,
                lambda: inspection.facts.max_timestamp_ms,
            )
        if inspection.is_compacted or lost is not None:
            self._check_order(segment)
        facts = inspection.facts
        kept = {
            k: bytes(v) for k, v in found.items() if k not in inspection.inconsistent
        }
        indexes = {**inspection.rebuilt, **kept}
        after, last = prior_state(indexes), segment.end_offset or 0
        segment = replace(
            segment,
            max_timestamp_ms=facts.max_timestamp_ms,
            leader_epochs=tuple(
                entry for entry in after.epochs.entries if entry.start_offset <= last
            ),
            version="",
            custom_metadata=b"",
        )
        if self._guard is not None:
            self._guard.before_copy(segment)
        target = self._target
        store = target.copy_open_log if damage is None else target.replace_log_segment
        custom = store(segment, log, indexes)
        copied = replace(segment, custom_metadata=custom)
        self._there.add(copied)
        self._after = {copied: after}
        rebuilt = tuple(kind for kind in indexes if kind not in kept)
        return PushedSegment(copied, PushOutcome.COPIED, rebuilt, replaced=damage)

    def _check_what_follows(self, segment: SegmentMetadata) -> None:
        """Check that stored segments after this one are of the same log.

        Raises:
            AlreadyExistsError: They are of another log.
        """
        last = segment.end_offset or 0
        stored = [one for one in self._there if one.start_offset > last]
        if stored and not self._is_one_log:
            self._is_one_log = check_what_follows(
                self._source, self._listing, self._target, stored, last
            )

    def _check_order(self, segment: SegmentMetadata) -> None:
        """Check that no segment has to be copied before a cleaned one.

        The target's last segments may be of a leader that lost its last records. Then
        a cleaned segment may lack records because of what the next leader wrote in
        their place. Only a segment of the next leader's epoch shows a reader whose
        records count, so it has to be stored before the cleaned one.

        Raises:
            _DivergedError: That was not known: ``_diverged_from`` is set.
        """
        if self._diverged_from is None:
            copied = [s for s in self._listing if self._is_copied(s)]
            self._diverged_from = divergence(
                self._source, copied[-1], self._target, tuple(self._there)
            )
            if self._diverged_from > (segment.end_offset or 0):
                raise _DivergedError

    def _damage(
        self, present: SegmentMetadata, before: SegmentMetadata | None
    ) -> TieredFSError | None:
        """Return what ``verify`` would report of a stored segment, if enabled.

        Raises:
            UnsupportedFormatError: A newer release has written it, which is not damage.
        """
        if self._check is None:
            return None
        try:
            return next(self._check.problems(present, before), None)
        except (CorruptDataError, NotFoundError) as error:
            return error

    def _lead(
        self, segment: SegmentMetadata, before: SegmentMetadata | None
    ) -> PriorState:
        """Return what is known of the partition where a segment begins.

        Args:
            segment: The segment.
            before: The previous segment as the target has it, if it does.
        """
        # A segment that overlaps this one has another state at its end.
        if before is None or before.end_offset != segment.start_offset - 1:
            try:
                return PriorState(
                    parse_producers(self._source.fetch_producers_before(segment))
                )
            except (NotFoundError, CorruptDataError):
                return PriorState()
        if before not in self._after:
            try:
                self._after = {
                    before: prior_state(self._target.fetch_all_indexes(before))
                }
            except (NotFoundError, CorruptDataError, UnsupportedFormatError):
                return PriorState()
        return self._after[before]


def _ends_later(one: SegmentMetadata, segment: SegmentMetadata) -> bool:
    return (one.end_offset or 0) > (segment.end_offset or 0)


class _DivergedError(Exception):
    """Other segments have to be copied first."""


class _LongerError(Exception):
    """The target has the segment's log with a larger end offset."""

    def __init__(self, longer: SegmentMetadata) -> None:
        super().__init__(longer)
        self.longer = longer


def _both(
    one: Callable[[memoryview], object], other: Callable[[memoryview], object]
) -> Callable[[memoryview], None]:
    def call(piece: memoryview) -> None:
        one(piece)
        other(piece)

    return call
