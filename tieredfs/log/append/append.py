"""Write records as new segments at the end of a partition, once.

An append whose call failed is in doubt: its segment may exist, may be created by a
later append, or may never exist. The appender remembers it until its records are
appended again. That is the same append, not a new one, and ends the doubt:

| the append in doubt | the same records again | other records meanwhile |
|---|---|---|
| is a segment | are found there: its offsets | are appended after it |
| claimed its offset | become a segment: its offsets | make it one; go after it |
| claimed nothing | are written, at its offset | are written, at its offset |
| lost to another writer | are written at the new end | are written at the new end |

So appending other records never adds an append in doubt that has no claim to the log,
and records that are not appended again exist once or not at all. After a success the
append is no longer in doubt: the same records are appended once more. Another process
or appender does not know of it, and treats it as another writer's.

Records that do not fit into one segment become several appends, one after the other. If
a call fails between them, the appender remembers that as well: the same records again
write the rest.

Each append is identified by its own id: two writers of the same bytes have two. Records
are the same if they encode to the same log at the offset and time of the append in
doubt, so only a few hundred bytes are kept of each append.
"""

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import pyarrow as pa

from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    UnsupportedOperationError,
)
from tieredfs.format.compression.codec import Codec
from tieredfs.format.records.writer import encode_batch
from tieredfs.integers import MAX_INT32
from tieredfs.log.append.rows import AppendRows
from tieredfs.log.append.segment_append import (
    AppendOptions,
    SegmentAppend,
    begun_elsewhere,
    find_end,
    topic_ids,
)
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.storage import RemoteStorageManager

__all__ = ["SEGMENT_BYTES", "Appender"]

SEGMENT_BYTES: Final = 1 << 30
"""Maximum bytes of a segment's log: Kafka's own default of ``segment.bytes``."""

_MAX_SEGMENT_BYTES: Final = MAX_INT32  # the positions of an offset index are int32


@dataclass(slots=True)
class _Progress:
    """The progress of an append of several segments.

    Attributes:
        options: How the records become segments.
        count: Number of records.
        digest: Digest of all records; empty while one segment may be enough.
        written: The segments that are written.
    """

    options: AppendOptions
    count: int
    digest: bytes = b""
    written: list[SegmentMetadata] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Number of records that are written."""
        return sum(map(_count, self.written))

    def is_of(self, rows: AppendRows) -> bool:
        """Return whether this is the progress of the given records."""
        return self.count == len(rows) and self.digest == self.digest_of(rows)

    def digest_of(self, rows: AppendRows) -> bytes:
        """Return the digest of records, which encodes each of them once.

        Raises:
            InvalidArgumentError: A record cannot be written.
        """
        found = hashlib.sha256()
        for batch in rows.batches(0, self.options.now_ms):
            found.update(encode_batch(batch))
        return found.digest()

    def offsets(self, first: int) -> range:
        """Return the offsets of all segments, or of those from ``first`` on.

        They are those of all segments if no other writer appended between them.
        """
        spans = [
            range(found.start_offset, found.start_offset + _count(found))
            for found in self.written
        ]
        pairs = pairwise(spans[: first + 1])
        begin = 0 if all(a.stop == b.start for a, b in pairs) else first
        return range(spans[begin].start, spans[-1].stop)


class Appender:
    """Append to one partition, and remember the appends that are in doubt.

    It may be shared by threads; their appends are executed one after the other.
    """

    def __init__(
        self, storage: RemoteStorageManager, partition: TopicIdPartition
    ) -> None:
        """Create an appender; the first segment creates the partition."""
        self._storage = storage
        self._partition = partition
        self._lock = make_lock()
        self._in_doubt: dict[SegmentMetadata, SegmentAppend] = {}
        self._unfinished: list[_Progress] = []

    def append(
        self,
        records: pa.Table,
        *,
        codec: Codec,
        now_ms: int,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> range:
        """Write records as one or several segments at the end of the partition.

        Afterwards the segments exist whole. They are written under the leader epoch at
        the partition's end. After an error that leaves a segment in doubt, appending
        the same records again continues the same append: only what is missing is
        written.

        Args:
            records: Any of the columns key, value, headers and timestamp.
            codec: How the records are compressed.
            now_ms: Timestamp of records without one, ms since 1970 UTC.
            segment_bytes: Maximum bytes of a segment's log, unless a single batch is
                larger.

        Returns:
            The offsets of the records; if an append is repeated and another writer
            appended between its segments, the offsets of the records that were not yet
            written.

        Raises:
            InvalidArgumentError: A column has an unknown name or a wrong type, there is
                no record, or ``segment_bytes`` is not from 1 to 2 GiB; nothing was
                written.
            AlreadyExistsError: Another writer was first; nothing was written except
                what the message states.
            UnsupportedOperationError: The layout cannot be appended to.
            StorageUnavailableError: The store failed; the append is in doubt.
            DeadlineExceededError: The store did not answer in time; the append is in
                doubt.
            TieredFSError: Any other error of the store, such as StorageFullError; the
                append is in doubt.
        """
        if not 0 < segment_bytes <= _MAX_SEGMENT_BYTES:
            msg = f"segment_bytes {segment_bytes} is not from 1 to {_MAX_SEGMENT_BYTES}"
            raise InvalidArgumentError(msg)
        rows = AppendRows.of(records, name=str(self._partition))
        with self._lock:
            progress = self._resumed(rows)
            if progress is None:
                options = AppendOptions(codec, now_ms, segment_bytes)
                progress = _Progress(options, len(rows))
            first = len(progress.written)
            try:
                while progress.done < len(rows):
                    self._append_segment(rows, progress, first)
            except AlreadyExistsError as error:
                if not progress.written:
                    raise
                raise _overtaken(rows, progress) from error
            finally:
                if 0 < progress.done < len(rows):
                    self._unfinished.append(progress)
        return progress.offsets(first)

    def _resumed(self, rows: AppendRows) -> _Progress | None:
        """Return the progress of an incomplete append of the same records."""
        for progress in self._unfinished:
            if progress.is_of(rows):
                self._unfinished.remove(progress)
                return progress
        return None

    def _append_segment(
        self, rows: AppendRows, progress: _Progress, first: int
    ) -> None:
        """Append as many of the remaining rows as one segment can contain.

        Args:
            rows: All rows.
            progress: The segments that are written; the new one is added.
            first: Number of segments that were written when this call began: the later
                ones are contiguous.
        """
        rest = rows.skip(progress.done)
        for known, append in tuple(self._in_doubt.items()):
            if _count(known) > len(rest):
                continue
            segment, log = append.encode(rest)
            if segment == known:
                progress.options = append.options
                with suppress(AlreadyExistsError):  # it lost: the log's end has moved
                    self._store(append, segment, log, rows, progress)
                    return
        begun = self._begin_behind(progress, first)
        rival = any(s.start_offset == begun.end.offset for s in self._in_doubt)
        try:
            self._store(begun, *begun.encode(rest), rows, progress)
        except AlreadyExistsError:
            if not rival:
                raise
            # The first may be our own append, which was in doubt.
            begun = self._begin_behind(progress, first)
            self._store(begun, *begun.encode(rest), rows, progress)

    def _begin_behind(self, progress: _Progress, first: int) -> SegmentAppend:
        """Begin at the end of the log, which must be that of the previous segment.

        Raises:
            AlreadyExistsError: Another writer has appended after that segment.
        """
        begun = self._begin(progress.options)
        if len(progress.written) > first:
            last = progress.written[-1]
            if begun.end.offset != last.start_offset + _count(last):
                msg = f"another writer has appended after {last}"
                raise AlreadyExistsError(msg)
        return begun

    def _begin(self, options: AppendOptions) -> SegmentAppend:
        end, there = find_end(self._storage, self._partition)
        # An append before the end of the log that is not in it never will be.
        self._in_doubt = {
            segment: append
            for segment, append in self._in_doubt.items()
            if segment.start_offset >= end.offset or segment.id in there
        }
        begins_topic = not there and self._begins_topic()
        nonce = secrets.token_bytes(16)
        return SegmentAppend(self._partition, end, options, nonce, begins_topic)

    def _begins_topic(self) -> bool:
        """Return whether no topic of the name is there.

        Raises:
            InvalidArgumentError: There are others, and not this one.
        """
        ids = topic_ids(self._storage, self._partition)
        if ids and self._partition.topic_id not in ids:
            raise begun_elsewhere(self._partition)
        return not ids

    def _store(
        self,
        append: SegmentAppend,
        segment: SegmentMetadata,
        log: memoryview,
        rows: AppendRows,
        progress: _Progress,
    ) -> None:
        if not progress.digest and _count(segment) < len(rows):
            # Write nothing unless all records can be written.
            progress.digest = progress.digest_of(rows)
        self._in_doubt[segment] = append
        try:
            append.store(self._storage, segment, log)
        except (AlreadyExistsError, InvalidArgumentError, UnsupportedOperationError):
            del self._in_doubt[segment]
            raise
        del self._in_doubt[segment]
        progress.written.append(segment)


def _overtaken(rows: AppendRows, progress: _Progress) -> AlreadyExistsError:
    """Return the error for an append that another writer has interrupted."""
    last = progress.written[-1]
    return AlreadyExistsError(
        f"{rows.name}: another writer appended after the first {progress.done} of "
        f"{progress.count} records, which are written up to offset {last.end_offset}: "
        "append the same records again to write the others"
    )


def _count(segment: SegmentMetadata) -> int:
    """Return the number of records in an appended segment."""
    end = segment.start_offset if segment.end_offset is None else segment.end_offset
    return end - segment.start_offset + 1
