"""Push one partition: its segments in order, each segment once.

If the target's last segments are of a leader that lost its last records, those that the
next leader wrote in their place come first: see ``_check_order``.

The broker continues to write while its log is read. A segment's end is known from the
start of the next one. So a segment whose log ends earlier, as in a compacted topic, is
copied only after the source has confirmed its end again after reading.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    AlreadyExistsError,
    CorruptBatchError,
    CorruptDataError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.end_claims import beyond, is_disputed, same_log, was_cleaned
from tieredfs.log.planning.same_log import LogCopy, check_same_log
from tieredfs.log.push.outcome import PushedSegment, PushOutcome
from tieredfs.log.push.push_record import PartitionRecord
from tieredfs.log.verify.segment_check import SegmentCheck
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    IndexType,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage import RemoteStorageManager
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

__all__ = ["PartitionPush", "listed_segments"]

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

_UNUSABLE: Final = (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedFormatError,
)
"""Errors for which an index is rebuilt."""

_REFUSALS: Final = (
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
"""Errors of a target that cannot store a log."""

_UNREADABLE: Final = (
    DeadlineExceededError,
    PermissionDeniedError,
    StorageUnavailableError,
)
"""Errors of a local source for a file that cannot be read."""

_Identity = tuple[int, int | None, SegmentId]
"""First and last offset and id of a copy."""

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
        record: PartitionRecord | None,
        watch: Callable[[memoryview], object],
    ) -> None:
        self._source = source
        self._target = target
        self._partition = partition
        self._active = active
        self._check = SegmentCheck(target, reads_logs=True) if repair else None
        self._interval_bytes = interval_bytes
        self._record = record
        self._listing: list[SegmentMetadata] = []
        """The segments of the source in its last listing."""
        self._watch = watch
        self._there = self._listed()
        self._undecided: dict[SegmentMetadata, _Undecided] = {}
        """Segments whose log the target has with another end offset."""
        self._after: dict[SegmentMetadata, PriorState] = {}
        self._is_one_log = partition.topic_id != UNKNOWN_TOPIC_ID
        """Whether the target is known to have the log of the source."""
        self._diverged_from: int | None = None
        """What ``_divergence`` returned, if it matters: the segments from there on are
        copied first."""
        self._is_refused = False
        """Whether the target cannot store the log."""

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
            for listed in self._not_in(done):
                earlier = previous.get(listed)
                before = None if earlier is None else done.get(earlier)
                try:
                    one = self._tried(listed, before)
                except _DivergedError:
                    break  # into the other order
                except _ChangedError:
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
                done[listed] = None if failed or one is None else one.segment
            else:
                yield from self._resolve_ends()
                return

    def _not_in(self, done: Container[SegmentMetadata]) -> list[SegmentMetadata]:
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
            if listed not in done
            and (self._active or not self._source.is_active(listed))
        ]

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
            for stored in self._there.values()
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
                self._there = self._listed()
                try:
                    one = self._push(listed, before, resolves_ends=True)
                except _LongerError as error:
                    one = PushedSegment(error.longer, PushOutcome.PRESENT)
                except _ChangedError:
                    continue
                except _UnreadableError as error:
                    one = PushedSegment(listed, PushOutcome.FAILED, error=error.reason)
                except _FAILURES as error:
                    one = PushedSegment(listed, PushOutcome.FAILED, error=error)
                break
            if one is not None and not is_done:
                yield one

    def _is_wrong(self, longer: SegmentMetadata, shorter: SegmentMetadata) -> bool:
        """Return whether the longer of two objects of one log is the wrong one."""
        target, there = self._target, list(self._there.values())
        try:
            others = [target.describe(s) for s in beyond(shorter, longer, there)]
            described, compare = target.describe(longer), CopyComparison(target)
            if not is_disputed(shorter, described, others, compare):
                return False
            return not was_cleaned(target, (s for s in there if s.id != longer.id))
        except NotFoundError as error:  # another push has deleted it
            raise _ChangedError from error

    def _listed(self) -> dict[_Identity, SegmentMetadata]:
        return {_identity(s): s for s in _whole(self._target, self._partition)}

    def _tried(
        self, listed: SegmentMetadata, before: SegmentMetadata | None
    ) -> PushedSegment | None:
        """Push one segment, which may fail alone or with all later ones."""
        failure: TieredFSError
        try:
            return self._push(listed, before)
        except _UnreadableError as error:
            failure = error.reason
        except _REFUSALS as error:
            self._is_refused = True
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
            _ChangedError: The broker has changed it meanwhile.
            _UnreadableError: Its log cannot be read.
            _LongerError: The target has its log with a larger end offset.
        """
        known = self._known(listed)
        if known is not None:
            return PushedSegment(known, PushOutcome.PRESENT)
        source = self._source
        with ExitStack() as stack:
            with self._reading(listed):
                segment = _measured(source, listed)
                if segment is None:
                    return None
                indexes = _indexes(source, segment)
                content = ContentId(segment.partition, segment.start_offset)
                take = _both(content.add, self._watch)
                log = stack.enter_context(spool_log(source, segment, watch=take))
                last = last_offset(segment, log)
                if not source.is_current(listed, last):
                    raise _ChangedError
            segment = self._with_stored_id(replace(segment, id=content.finish()))
            if self._record is not None:
                self._record.add(listed, segment.id, last)
            others = same_log(segment, self._there.values())
            if source.is_active(listed) and others:
                return PushedSegment(others[0], PushOutcome.PRESENT)
            longer = [one for one in others if _ends_later(one, segment)]
            if longer and not (
                resolves_ends and all(self._is_wrong(one, segment) for one in longer)
            ):
                raise _LongerError(longer[0])
            present = self._present(segment)
            damage = None if present is None else self._damage(present, before)
            if present is not None and damage is None:
                pushed = PushedSegment(present, PushOutcome.PRESENT)
            else:
                lead = self._lead(segment, before)
                with self._unchanged(listed):  # it is read again in place
                    pushed = self._copy(segment, log, indexes, lead, damage)
            if others and resolves_ends:
                self._replace(pushed.segment, others)
            elif others:
                self._undecided[listed] = before, True
            return pushed

    def _with_stored_id(self, segment: SegmentMetadata) -> SegmentMetadata:
        """Return the segment with the id under which the target has its bytes.

        A segment that was appended has another id than its content gives it. So where
        the target has other segments of the same offsets and size, they are read.
        """
        if self._present(segment) is not None:
            return segment
        for stored in self._there.values():
            found = replace(segment, id=stored.id)
            if (
                stored.start_offset == segment.start_offset
                and stored.size is not None
                and self._present(found) is not None
                and _content_id(self._target, stored) == segment.id
            ):
                return found
        return segment

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
        present = self._present(segment)
        if present is None or same_log(segment, self._there.values()):
            return None
        is_current = self._source.is_current(listed, found.last_offset)
        return present if is_current else None

    def _replace(
        self, segment: SegmentMetadata, others: Iterable[SegmentMetadata]
    ) -> None:
        """Delete other objects of a segment's log, and check that the segment exists.

        Raises:
            _ChangedError: Another push has deleted it meanwhile.
        """
        for other in others:
            self._target.delete_log_segment(other)
        self._there = self._listed()
        if self._present(segment) is None:
            raise _ChangedError

    @contextmanager
    def _reading(self, listed: SegmentMetadata) -> Iterator[None]:
        """Distinguish a damaged segment from one that the broker has changed."""
        try:
            with self._unchanged(listed):
                yield
        except NotFoundError as error:
            raise _ChangedError from error
        except _UNREADABLE as error:
            # A disk may have single unreadable files; a server fails for all files.
            if not self._source.store.is_local:
                raise
            raise _UnreadableError(error) from error

    @contextmanager
    def _unchanged(self, listed: SegmentMetadata) -> Iterator[None]:
        """Distinguish a corrupt log from one that was rewritten meanwhile."""
        try:
            yield
        except CorruptDataError as error:
            if self._source.is_current(listed):
                raise
            raise _ChangedError from error

    def _present(self, segment: SegmentMetadata) -> SegmentMetadata | None:
        """Return the segment as the target has it; a listing may lack fields.

        An object of another size was cut: the id of a segment is that of its bytes.
        """
        unsaid = replace(segment, end_offset=None)
        there = self._there
        found = there.get(_identity(segment)) or there.get(_identity(unsaid))
        if found is None:
            return None
        if found.size is not None and found.size != segment.size:
            return None
        return replace(found, end_offset=segment.end_offset, size=segment.size)

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
        batches = read_batches(log.fetch, log.size, name=name)
        inspection = inspect_segment(
            batches, segment, found, lead, interval_bytes=self._interval_bytes
        )
        described = replace(segment, leader_epochs=inspection.facts.epochs)
        stored = [one for one in self._there.values() if one.id != segment.id]
        copy = LogCopy.held(described, log)
        check_same_log(copy, log.name, self._target, stored)
        self._check_what_follows(segment)
        lost = inspection.lost_from
        if lost is not None and not self._source.is_compacted(segment.partition):
            raise CorruptBatchError(
                f"{name}: the log ends before offset {lost}, the segment at "
                f"{segment.end_offset}"
            )
        if inspection.is_compacted:
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
        target = self._target
        store = target.copy_open_log if damage is None else target.replace_log_segment
        custom = store(segment, log, indexes)
        copied = replace(segment, custom_metadata=custom)
        self._there[_identity(copied)] = copied
        self._after = {copied: after}
        rebuilt = tuple(kind for kind in indexes if kind not in kept)
        return PushedSegment(copied, PushOutcome.COPIED, rebuilt, replaced=damage)

    def _check_what_follows(self, segment: SegmentMetadata) -> None:
        """Check that a segment before stored ones is of the same log as these.

        It shares no offset with them, so the source's next segments are compared. With
        a topic id the check is not needed.

        Raises:
            AlreadyExistsError: They are of another log.
        """
        source, last = self._source, segment.end_offset or 0
        stored = [one for one in self._there.values() if one.start_offset > last]
        if self._is_one_log or not stored:
            return
        behind = [one for one in self._listing if one.start_offset > last]
        for listed in sorted(behind, key=source.is_active):  # active ones last
            with suppress(*_UNREADABLE, *_UNUSABLE):
                measured = _measured(source, listed)
                if measured is None:
                    continue
                copy = LogCopy.stored(source, source.describe(measured))
                name = source.name_of(listed)
                if check_same_log(copy, name, self._target, stored):
                    self._is_one_log = True
                    return

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
            self._diverged_from = self._divergence()
            if self._diverged_from > (segment.end_offset or 0):
                raise _DivergedError

    def _divergence(self) -> int:
        """Return where the target's last segments leave the source's history.

        Returns:
            The offset; 0 if they do not, or if that cannot be determined.
        """
        is_active, with_active = self._source.is_active, self._active
        pushed = [s for s in self._listing if with_active or not is_active(s)]
        found = 0
        with suppress(*_UNREADABLE, *_UNUSABLE):
            newest = _measured(self._source, pushed[-1])
            if newest is None:
                return 0
            checkpoint = self._source.fetch_index(newest, IndexType.LEADER_EPOCH)
            history, end = parse_leader_epochs(checkpoint), _end(newest)
            known = [s for s in self._there.values() if s.start_offset < end]
            for stored in sorted(known, key=_end, reverse=True):
                epochs = LeaderEpochs(self._target.describe(stored).leader_epochs or ())
                stop = min(end, _end(stored))
                agreed = epochs.agreement_end(history, stored.start_offset, stop)
                if agreed == stop:
                    break
                found = agreed
        return found

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
        if before is None:
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


def _end(segment: SegmentMetadata) -> int:
    return 0 if segment.end_offset is None else segment.end_offset + 1


class _DivergedError(Exception):
    """Other segments have to be copied first."""


class _ChangedError(Exception):
    """The segment is no longer what was listed."""


class _UnreadableError(Exception):
    """The source cannot read the segment's log."""

    def __init__(self, reason: TieredFSError) -> None:
        super().__init__(reason)
        self.reason = reason


class _LongerError(Exception):
    """The target has the segment's log with a larger end offset."""

    def __init__(self, longer: SegmentMetadata) -> None:
        super().__init__(longer)
        self.longer = longer


def _identity(segment: SegmentMetadata) -> _Identity:
    """Identify a copy: the cleaner can change a log's end but none of its bytes."""
    return segment.start_offset, segment.end_offset, segment.id


def _both(
    one: Callable[[memoryview], object], other: Callable[[memoryview], object]
) -> Callable[[memoryview], None]:
    def call(piece: memoryview) -> None:
        one(piece)
        other(piece)

    return call


def listed_segments(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> list[SegmentMetadata]:
    """List the segments of a partition; empty if it does not exist."""
    try:
        return storage.list_segments(partition)
    except NotFoundError:
        return []


def _whole(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> Iterator[SegmentMetadata]:
    """Yield the whole segments, without damaged ones, which are put again."""
    try:
        for one in storage.survey(partition):
            if isinstance(one, SegmentMetadata):
                yield one
            elif not isinstance(one, CorruptDataError):
                raise one
    except NotFoundError:
        return


def _measured(
    source: RemoteStorageManager, listed: SegmentMetadata
) -> SegmentMetadata | None:
    """Return a segment with end and size from its log; None if it has no batch yet."""
    if listed.end_offset is not None and listed.size is not None:
        return listed
    last = None
    for batch in read_batches(
        lambda start, end: source.fetch_log_ahead(listed, start, end),
        listed.size or 0,
        name=source.name_of(listed),
        torn_tail=source.is_active(listed),
    ):
        last = batch.header
    if last is None:
        return None
    return replace(listed, end_offset=last.last_offset, size=last.end)


def _content_id(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> SegmentId | None:
    """Return the id that a stored log's content gives it; None if it is unreadable."""
    content = ContentId(segment.partition, segment.start_offset)
    try:
        for piece in storage.stream_log(segment):
            content.add(piece)
    except _UNUSABLE:
        return None
    return content.finish()


def _indexes(
    source: RemoteStorageManager, segment: SegmentMetadata
) -> Mapping[IndexType, Buffer]:
    """Fetch the indexes that can be fetched; the others are rebuilt."""
    found: dict[IndexType, Buffer] = {}
    for kind in IndexType:
        with suppress(*_UNUSABLE):
            found[kind] = source.fetch_index(segment, kind)
    return found
