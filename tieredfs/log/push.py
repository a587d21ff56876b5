"""Copy the segments of a broker's log to a store, each one once.

A segment is read whole and checked before anything is written, and its id is that of
its content. So a second push finds what is there and puts nothing, a push from another
replica of the partition is recognised, and one that was killed is taken up where it
was.

The broker goes on while its log is read. Where a segment ends is known from the one
behind it, so a segment whose log ends sooner, as those of a compacted topic may, is
copied only when the source has confirmed its end after it was read.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptBatchError,
    CorruptDataError,
    NotFoundError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.format.index_builder import INTERVAL_BYTES
from tieredfs.log.other_log import OtherLogCheck
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.content_id import ContentId
from tieredfs.storage.held_log import hold_log
from tieredfs.storage.inspection import (
    Lead,
    inspect_segment,
    parse_producers,
    prior_state,
)
from tieredfs.storage.log_source import open_log
from tieredfs.storage.log_stream import read_batches, read_log

__all__ = ["PushOutcome", "PushReport", "PushedSegment", "push"]

_AT_ONCE: Final = 4
_ROUNDS: Final = 3
"""How often a partition is listed anew because the broker changed it meanwhile."""


class PushOutcome(StrEnum):
    """What became of a segment."""

    COPIED = "copied"
    PRESENT = "present"
    """It was there already."""

    CHANGED = "changed"
    """The broker kept rewriting it while it was read: the next push copies it, and what
    follows it."""

    FAILED = "failed"
    """It is corrupt, or of a format that is not read, or the target holds other records
    at its offsets."""


@dataclass(frozen=True, slots=True)
class PushedSegment:
    """One segment of a push.

    Attributes:
        segment: As it was listed, or with the id that it has in the store.
        outcome: What became of it.
        rebuilt: The indexes that were missing or untrue, and were made anew.
        error: Why it failed.
    """

    segment: SegmentMetadata
    outcome: PushOutcome
    rebuilt: tuple[IndexType, ...] = ()
    error: TieredFSError | None = None


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did.

    Attributes:
        segments: Each of them, by partition and offset.
    """

    segments: tuple[PushedSegment, ...]

    def count(self, outcome: PushOutcome) -> int:
        """Count the segments with one outcome."""
        return sum(one.outcome is outcome for one in self.segments)

    @property
    def errors(self) -> list[TieredFSError]:
        """Why segments failed."""
        return [one.error for one in self.segments if one.error is not None]


def push(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    *,
    active: bool = False,
    interval_bytes: int = INTERVAL_BYTES,
    progress: Callable[[PushedSegment], object] = lambda _: None,
) -> PushReport:
    """Copy every closed segment that is not yet in ``target``.

    The segments of a partition are copied in their order, so that a reader, or a crash,
    finds no hole that the source has not; four partitions at once. Indexes that are
    missing or untrue to the log are made anew.

    Args:
        source: Usually a broker's log directory.
        target: Where the segments go.
        partitions: What to copy.
        active: Whether the segment that a broker is writing is copied as far as it
            goes.
        interval_bytes: Bytes of log between two entries of an index that is made anew,
            at least: the topics' ``index.interval.bytes``.
        progress: Called with each segment when it is done, from several threads.

    Returns:
        What became of each segment. A corrupt one fails alone: the others are copied.
        One whose offsets the target has with other records, under the same leader
        epoch, ends its partition: it is another log.

    Raises:
        UnsupportedOperationError: ``target`` cannot be written.
        NotFoundError: The container of ``target`` is not there, or ``source`` has no
            log of any of the partitions.
        StorageUnavailableError: A store failed more often than its policy allows; what
            was copied stays, and the next push goes on from there.
    """
    _check_has_logs(source, partitions)
    stop = threading.Event()

    def work(partition: TopicIdPartition) -> list[PushedSegment]:
        job = _PartitionPush(
            source, target, partition, active=active, interval_bytes=interval_bytes
        )
        done = []
        for one in job.run():
            progress(one)
            done.append(one)
            if stop.is_set():
                break
        return done

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tieredfs-push")
    wait = True
    try:
        jobs = {pool.submit(work, partition): partition for partition in partitions}
        found = {jobs[job]: job.result() for job in as_completed(jobs)}
    except KeyboardInterrupt:
        wait = False  # for a store that hangs
        raise
    finally:
        stop.set()
        pool.shutdown(wait=wait, cancel_futures=True)
    return PushReport(tuple(one for p in partitions for one in found[p]))


class _PartitionPush:
    """Push one partition."""

    def __init__(
        self,
        source: RemoteStorageManager,
        target: RemoteStorageManager,
        partition: TopicIdPartition,
        *,
        active: bool,
        interval_bytes: int,
    ) -> None:
        self._source = source
        self._target = target
        self._partition = partition
        self._active = active
        self._interval_bytes = interval_bytes
        self._there = {_identity(s): s for s in _whole(target, partition)}
        self._other_log = OtherLogCheck(target)
        self._after: dict[SegmentMetadata, Lead] = {}

    def run(self) -> Iterator[PushedSegment]:
        """Yield each segment when it is done, in order."""
        done: dict[SegmentMetadata, SegmentMetadata | None] = {}
        for again in reversed(range(_ROUNDS)):
            before: SegmentMetadata | None = None
            for listed in _listed(self._source, self._partition):
                if self._source.is_active(listed) and not self._active:
                    continue
                if listed not in done:
                    try:
                        one = self._push(listed, before)
                    except _ChangedError:
                        if again:
                            break  # the cleaner may have merged it with others: list
                        # What follows waits for it, so that there is no hole.
                        yield PushedSegment(listed, PushOutcome.CHANGED)
                        return
                    except AlreadyExistsError as error:
                        # Nor is what follows part of the log that the target has.
                        yield PushedSegment(listed, PushOutcome.FAILED, error=error)
                        return
                    except (CorruptDataError, UnsupportedFormatError) as error:
                        one = PushedSegment(listed, PushOutcome.FAILED, error=error)
                    if one is not None:
                        yield one
                    failed = one is None or one.outcome is PushOutcome.FAILED
                    done[listed] = None if failed or one is None else one.segment
                before = done[listed]
            else:
                return

    def _push(
        self, listed: SegmentMetadata, before: SegmentMetadata | None
    ) -> PushedSegment | None:
        """Push one segment; None when it has no batch yet."""
        source = self._source
        with ExitStack() as stack:
            with self._reading(listed):
                segment = _measured(source, listed)
                if segment is None:
                    return None
                indexes = _indexes(source, segment)
                log = stack.enter_context(hold_log(source, segment))
                if not source.is_current(listed, _last_offset(log, str(segment))):
                    raise _ChangedError
            segment = replace(segment, id=_content_id(segment, log))
            present = self._present(segment)
            if present is not None:
                self._remove_contradictions(present)
                return PushedSegment(present, PushOutcome.PRESENT)
            lead = self._lead(segment, before)
            pushed = self._copy(segment, log, indexes, lead)
            self._remove_contradictions(pushed.segment)
            return pushed

    def _remove_contradictions(self, segment: SegmentMetadata) -> None:
        """Delete objects with the same log as a segment that say another end of it.

        The source has just confirmed its end, and nothing is lost: every byte of their
        logs is in the segment.
        """
        for name, other in list(self._there.items()):
            if (
                (other.start_offset, other.id) == (segment.start_offset, segment.id)
                and other.end_offset is not None
                and other.end_offset != segment.end_offset
            ):
                self._target.delete_log_segment(other)
                del self._there[name]

    @contextmanager
    def _reading(self, listed: SegmentMetadata) -> Iterator[None]:
        """Tell what is wrong with a segment from what the broker did to it."""
        try:
            yield
        except NotFoundError as error:
            raise _ChangedError from error
        except CorruptDataError as error:
            if self._source.is_current(listed):
                raise
            raise _ChangedError from error

    def _present(self, segment: SegmentMetadata) -> SegmentMetadata | None:
        """Return the segment as the target has it; its listing may not say its end."""
        unsaid = replace(segment, end_offset=None)
        there = self._there
        found = there.get(_identity(segment)) or there.get(_identity(unsaid))
        return found and replace(
            found, end_offset=segment.end_offset, size=segment.size
        )

    def _copy(
        self,
        segment: SegmentMetadata,
        log: Path | bytes,
        found: Mapping[IndexType, Buffer],
        lead: Lead,
    ) -> PushedSegment:
        """Copy a segment with its indexes, those that are untrue made anew."""
        name = self._source.name_of(segment)
        with open_log(log, name) as opened:
            batches = read_batches(opened.fetch, opened.size, name=name)
            inspection = inspect_segment(
                batches, segment, found, lead, interval_bytes=self._interval_bytes
            )
            self._other_log.check(
                replace(segment, leader_epochs=inspection.facts.epochs),
                opened,
                self._there.values(),
            )
        lost = inspection.lost_from
        if lost is not None and not self._source.is_compacted(segment.partition):
            raise CorruptBatchError(
                f"{name}: the log ends before offset {lost}, the segment at "
                f"{segment.end_offset}"
            )
        facts = inspection.facts
        kept = {k: bytes(v) for k, v in found.items() if k not in inspection.untrue}
        indexes = {**inspection.rebuilt, **kept}
        segment = replace(
            segment,
            max_timestamp_ms=facts.max_timestamp_ms,
            leader_epochs=facts.epochs,
            version="",
            custom_metadata=b"",
        )
        data = LogSegmentData(log, indexes)
        custom = self._target.copy_log_segment(segment, data)
        copied = replace(segment, custom_metadata=custom)
        self._after = {copied: prior_state(indexes)}
        rebuilt = tuple(kind for kind in indexes if kind not in kept)
        return PushedSegment(copied, PushOutcome.COPIED, rebuilt)

    def _lead(self, segment: SegmentMetadata, before: SegmentMetadata | None) -> Lead:
        """Return what is known where a segment begins.

        Args:
            segment: The segment.
            before: The one before it as the target has it, if it does.
        """
        if before is None:
            try:
                return Lead(
                    parse_producers(self._source.fetch_producers_before(segment))
                )
            except (NotFoundError, CorruptDataError):
                return Lead()
        if before not in self._after:
            try:
                self._after = {
                    before: prior_state(self._target.fetch_all_indexes(before))
                }
            except (NotFoundError, CorruptDataError, UnsupportedFormatError):
                return Lead()
        return self._after[before]


def _check_has_logs(
    source: RemoteStorageManager, partitions: Sequence[TopicIdPartition]
) -> None:
    """Check that one of the partitions has a segment: a broker's always have.

    Raises:
        NotFoundError: None has: their folders hold something else.
    """
    if partitions and not any(_listed(source, partition) for partition in partitions):
        raise NotFoundError(
            f"not found: a segment in {source.store.url}, where folders such as "
            f"{partitions[0]} hold no log: name the log directory itself"
        )


def _last_offset(log: Path | bytes, name: str) -> int | None:
    """Return the last offset of a log, by the headers of its batches."""
    last = None
    with open_log(log, name) as opened:
        for batches in read_log(opened.fetch, opened.size, name=name):
            last = int(batches["last_offset"][-1])
    return last


class _ChangedError(Exception):
    """The segment is no longer what was listed."""


def _identity(segment: SegmentMetadata) -> tuple[int, int | None, SegmentId]:
    """Name a copy: the cleaner can change where a log ends and none of its bytes."""
    return segment.start_offset, segment.end_offset, segment.id


def _listed(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> list[SegmentMetadata]:
    """List the segments of a partition; none when it is not there."""
    try:
        return storage.list_segments(partition)
    except NotFoundError:
        return []


def _whole(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> Iterator[SegmentMetadata]:
    """Yield the segments that are there; one that is damaged is not, and put again."""
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
    """Tell a segment's end and size by its log alone; None when it has no batch yet."""
    if listed.end_offset is not None and listed.size is not None:
        return listed
    last = None
    for batch in read_batches(
        lambda start, end: source.fetch_log_segment(listed, start, end),
        listed.size or 0,
        name=source.name_of(listed),
        torn_tail=source.is_active(listed),
    ):
        last = batch.header
    if last is None:
        return None
    return replace(listed, end_offset=last.last_offset, size=last.end)


def _indexes(
    source: RemoteStorageManager, segment: SegmentMetadata
) -> Mapping[IndexType, Buffer]:
    """Fetch the indexes that can be fetched: the others are made anew."""
    found: dict[IndexType, Buffer] = {}
    for kind in IndexType:
        with suppress(NotFoundError, CorruptDataError, UnsupportedFormatError):
            found[kind] = source.fetch_index(segment, kind)
    return found


def _content_id(segment: SegmentMetadata, log: Path | bytes) -> SegmentId:
    content = ContentId(segment.partition, segment.start_offset)
    with open_log(log, str(segment)) as opened:
        for piece in opened.pieces():
            content.add(piece)
    return content.finish()
