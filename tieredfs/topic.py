"""The public API: a topic of partitions, to scan, to read and to append to."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic, time_ns
from typing import Final, SupportsIndex, TypeVar, get_args

import pyarrow as pa

from tieredfs.arguments import to_mapping, to_text
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.format.compression.codec import Codec, CodecName
from tieredfs.format.records.schema import OutputSize, project
from tieredfs.integers import to_integer
from tieredfs.log.append.append import SEGMENT_BYTES, Appender
from tieredfs.log.follow.connect import connector
from tieredfs.log.follow.follow import Follow
from tieredfs.log.follow.followed import Followed
from tieredfs.log.follow.live_log import LiveTopic
from tieredfs.log.follow.start import check_start
from tieredfs.log.journal.heartbeat import unique_owner
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.read.fetch import Fetched
from tieredfs.log.read.last_records import LastRecords, first_of_last
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.replan import plan_all, plan_despite_deletes
from tieredfs.log.read.scan import Isolation, OnGap, Order, Scan
from tieredfs.log.read.scan_bounds import (
    Position,
    check_order,
    is_time,
    offset_of,
    parse_position,
    to_milliseconds,
)
from tieredfs.log.read.times import find_offset
from tieredfs.log.retention.expire import ExpiredPartition, expire
from tieredfs.log.retention.plan import Retention
from tieredfs.model import OffsetAndTimestamp, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["Topic"]

_T = TypeVar("_T")

_MAX_TURN_BYTES: Final = 4 << 20
"""Maximum stored bytes of a partition's turn in a fair scan."""


class Topic:
    """One topic of a tier.

    Each call lists the store again, so new segments are seen.

    Attributes:
        name: Its name.
        topic_id: Its id in Kafka; all ``A`` when unknown.
        partitions: The numbers of its partitions, sorted.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        catalog: SegmentCatalog,
        partitions: Iterable[TopicIdPartition],
    ) -> None:
        """Create a topic from the partitions of one topic id; called by Tier."""
        self._storage = storage
        self._read(catalog, partitions)
        first = next(iter(self._readers.values())).partition
        self.name = first.topic
        self.topic_id = first.topic_id
        self.partitions = tuple(self._readers)

    def reader(self, partition: SupportsIndex) -> TieredReader:
        """Return the reader of one partition.

        Raises:
            NotFoundError: There is no such partition.
            InvalidArgumentError: It is not an integer.
        """
        number = to_integer(partition, "partition")
        try:
            return self._readers[number]
        except KeyError:
            listed = ", ".join(map(str, self.partitions))
            msg = f"not found: partition {number} of {self.name!r}; it has {listed}"
            raise NotFoundError(msg) from None

    def beginning_offsets(self) -> dict[int, int]:
        """Return the first offset of each partition.

        Of a long log one page is listed, the segments that end first: one that begins
        before them and ends later than all of them is not seen by it. A scan sees it.

        Raises:
            NotFoundError: A partition was deleted.
            CorruptDataError: An object is inconsistent with its name.
        """
        return _by_number(TieredReader.beginning, list(self._readers.values()))

    def end_offsets(self) -> dict[int, int]:
        """Return the end (exclusive) of each partition.

        Of a long log the last page is searched for: a history that ends before it is
        not seen, even if an unclean election has made it the true one. A scan sees it.

        Raises:
            NotFoundError: A partition was deleted.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        return _by_number(TieredReader.end, list(self._readers.values()))

    def offsets_for_times(
        self, times: Mapping[int, SupportsIndex | datetime | str]
    ) -> dict[int, OffsetAndTimestamp | None]:
        """Find in each partition the first record at or after a time.

        Args:
            times: For each partition, milliseconds since 1970 UTC, a datetime or ISO
                text.

        Returns:
            The record's offset, timestamp and leader epoch; None where all are older.

        Raises:
            NotFoundError: There is no such partition.
            InvalidArgumentError: ``times`` is not a mapping, or not of times.
            CorruptDataError: A time falls into a gap, so its record may be missing.
        """
        _check_by_partition(times)
        asked = {self.reader(n): to_milliseconds(time) for n, time in times.items()}

        def find(reader: TieredReader) -> OffsetAndTimestamp | None:
            return find_offset(reader, reader.segments(timed=True), asked[reader])

        return _by_number(find, list(asked))

    def scan(  # noqa: PLR0913 - its options, by keyword
        self,
        partitions: Iterable[SupportsIndex] | None = None,
        start: "Position | LastRecords" = None,
        end: Position = None,
        *,
        isolation: Isolation = "read_uncommitted",
        columns: str | Iterable[str] | None = None,
        order: Order = "partition",
        on_gap: OnGap = "raise",
    ) -> Scan:
        """Plan the reading of records; no record is read yet.

        A time means the offset that ``offsets_for_times`` returns; it does not filter
        records. An end past the log's end means the log's end.

        Args:
            partitions: Their numbers; None for all.
            start: First offset or time, or ``LastRecords``.
            end: End (exclusive).
            isolation: ``read_uncommitted`` for all records, ``read_committed`` to leave
                out those of aborted transactions, and to end before a transaction that
                is still open, as Kafka's consumer does.
            columns: The columns to read, or one of them; None for all. Other columns
                are not decoded.
            order: ``partition`` for one after the other, ``fair`` for about 4 MiB of
                each in turn, in the memory of one partition.
            on_gap: What to do when offsets are in no segment: ``raise``, or ``skip`` to
                read the rest, also when segments are deleted after the call.

        Raises:
            NotFoundError: There is no such partition.
            OffsetOutOfRangeError: ``start`` is outside the log of a partition.
            CorruptDataError: Offsets are missing, or an index is malformed.
            InvalidArgumentError: A position, isolation, column, order or on_gap is
                invalid, or ``start`` is after ``end`` where both are offsets or both
                are times.
        """
        _check_choice("isolation", isolation, get_args(Isolation))
        _check_choice("order", order, get_args(Order))
        _check_choice("on_gap", on_gap, get_args(OnGap))
        wanted = _names(columns)
        project(wanted)
        numbers = self.partitions if partitions is None else _numbers(partitions)
        last = None
        if isinstance(start, LastRecords):
            last, start = start, None
        start = parse_position(start, numbers)
        end = parse_position(end, numbers)
        check_order(start, end, numbers)

        skip_gaps = on_gap == "skip"

        timed = is_time(start) or is_time(end)

        committed = isolation == "read_committed"
        fetch_size = self._storage.store.options.fetch_bytes

        def read_offsets(slices: Sequence[SegmentSlice]) -> pa.ChunkedArray:
            plan = ScanPlan((slices,) if slices else (), fetch_size)
            only = ("offset",)
            scan = Scan(
                self._storage, self.name, plan, only, on_gap=on_gap, isolation=isolation
            )
            return scan.to_table()["offset"]

        def slices_of(reader: TieredReader) -> Sequence[SegmentSlice]:
            reader = reader.keeping_indexes() if timed or committed or last else reader
            segments = reader.segments(timed=timed)
            first, stop = (
                offset_of(reader, segments, position, skip_gaps=skip_gaps)
                for position in (start, end)
            )
            below = stable_offset(reader.storage, segments) if committed else None
            if last is not None:
                first = first_of_last(
                    reader,
                    segments,
                    last,
                    read_offsets=read_offsets,
                    skip_gaps=skip_gaps,
                    below=below,
                )
                # The last records may all be after the end.
                stop = None if stop is None else max(first, stop)
            return reader.checked_slices(
                segments, first, stop, skip_gaps=skip_gaps, below=below
            )

        readers = [self.reader(number) for number in dict.fromkeys(numbers)]
        slices = tuple(filter(len, plan_all(slices_of, readers)))
        if order == "fair":
            fetch_size = min(fetch_size, _MAX_TURN_BYTES)
        plan = ScanPlan(slices, fetch_size)
        return Scan(self._storage, self.name, plan, wanted, order, on_gap, isolation)

    def follow(
        self,
        partitions: Iterable[SupportsIndex] | None = None,
        start: "Position | LastRecords" = None,
        *,
        bootstrap: str,
        isolation: Isolation = "read_uncommitted",
        columns: str | Iterable[str] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> Follow:
        """Read the history from the tier, and then what is produced, without an end.

        Each partition is handed over to its broker at the offset where the tier ends;
        nothing is sent before the first record is asked for. It needs confluent-kafka:
        ``pip install 'tieredfs[live]'``. No group is joined, and no offset committed.

        Args:
            partitions: Their numbers; None for all, also those that the tier does not
                have yet.
            start: First offset or time, or ``LastRecords``, of what both places have;
                None for where the tier begins. The ``positions`` of another ``Follow``
                go on where that one ended.
            bootstrap: Some brokers, ``HOST:PORT`` with commas between them.
            isolation: As ``scan`` takes it; nothing of a transaction that is open is
                read before it has ended.
            columns: As ``scan`` takes them.
            config: Settings of the Kafka client, named as librdkafka names them, such
                as ``security.protocol``.

        Raises:
            NotFoundError: There is no such partition, neither in the tier nor at the
                broker; raised when the first record is asked for.
            InvalidArgumentError: A position, isolation, column, address or setting is
                invalid.
            PluginNotInstalledError: confluent-kafka is not installed.
        """
        _check_choice("isolation", isolation, get_args(Isolation))
        committed = isolation == "read_committed"
        wanted = _names(columns)
        project(wanted)
        numbers = None if partitions is None else _numbers(partitions)
        if not isinstance(start, LastRecords):
            named = start if isinstance(start, Mapping) else ()
            start = parse_position(start, named if numbers is None else numbers)
        check_start(start)
        to_text(bootstrap, "bootstrap")
        followed = Followed(
            self._storage,
            self.name,
            self._reader_of,
            numbers,
            self.partitions,
            start,
            wanted,
            committed,
            bootstrap,
        )
        store = self._storage.store
        live = LiveTopic(
            self.name,
            self.topic_id,
            committed,
            followed.read_columns,
            OutputSize.of(store.options.output_batch_bytes),
        )
        connect = connector(
            live,
            bootstrap=bootstrap,
            config=to_mapping(config, "config"),
            deadline=store.policy.deadline,
        )
        return Follow(followed, connect, monotonic)

    def read(
        self,
        partition: SupportsIndex,
        offset: SupportsIndex,
        max_bytes: SupportsIndex = 1 << 20,
        *,
        isolation: Isolation = "read_uncommitted",
        min_one_message: bool = True,
    ) -> Fetched:
        """Fetch about ``max_bytes`` of records, as Kafka's consumer does.

        At least one record is returned unless there is none from ``offset`` to the end
        of the log, or ``min_one_message`` is false: holes that compaction left, and
        control records, are skipped.
        If segments are deleted meanwhile, the log is listed and fetched again.

        Args:
            partition: Its number.
            offset: First offset wanted.
            max_bytes: Stored bytes of the batches to return.
            isolation: As ``scan`` takes it.
            min_one_message: Whether the first batch with a wanted record is returned,
                however large it is. Where several partitions share one limit, ask that
                of one of them.

        Returns:
            The records, and ``next_offset`` for the next call; no record at the end of
            the log, or of what is stable.

        Raises:
            NotFoundError: There is no such partition, or a segment that is still listed
                does not exist.
            OffsetOutOfRangeError: ``offset`` is outside the log, perhaps because its
                segment was just deleted.
            CorruptDataError: The next record may be in a gap, or its batch is corrupt:
                records before a corrupt batch are returned first.
            InvalidArgumentError: An argument is not an integer, or ``max_bytes`` is
                negative.
        """
        _check_choice("isolation", isolation, get_args(Isolation))
        committed = isolation == "read_committed"
        return plan_despite_deletes(
            lambda reader: reader.read(
                offset, max_bytes, min_one_message=min_one_message, committed=committed
            ),
            self.reader(partition),
        )

    def append(
        self,
        records: pa.Table | pa.RecordBatch,
        partition: SupportsIndex = 0,
        *,
        compression: CodecName = "none",
        segment_bytes: SupportsIndex = SEGMENT_BYTES,
    ) -> range:
        """Write records as a new segment at the end of a partition.

        Afterwards the segment exists whole, or, also after a crash, not at all. After
        an error of the store it may exist: append the same records to the same Topic
        again, which writes them only if they are missing. The method is meant for tests
        and small writers: each call creates one segment.

        Records that do not fit into one segment become several segments, one after the
        other, in the memory of one. An error or a crash then leaves the first ones,
        each whole; after an error, appending the same records again writes the rest.

        Args:
            records: Any of the columns key, value, headers and timestamp, as ``scan``
                gives them; a record without a timestamp gets the current time.
            partition: Its number.
            compression: The codec of the record batches, named as Kafka's
                ``compression.type``.
            segment_bytes: Maximum bytes of a segment's log, as Kafka's
                ``segment.bytes``; a single batch, of 1 MiB or one record, may be
                larger.

        Returns:
            The offsets of the records. If a failed append is repeated and another
            writer has appended between its segments, those of the rest.

        Raises:
            NotFoundError: There is no such partition.
            InvalidArgumentError: A column or the compression is unknown, there is no
                record, a record cannot be written, or another writer has begun a topic
                of this name; nothing was written.
            AlreadyExistsError: Another writer appended meanwhile; nothing was written
                except the segments that the message names.
            UnsupportedOperationError: The layout cannot be appended to.
            StorageUnavailableError: The store failed; the records may be written.
            DeadlineExceededError: The store did not answer in time; the records may be
                written.
            TieredFSError: Any other error of the store, such as StorageFullError; the
                records may be written, or become so with the next append.
        """
        codec = _codec(compression)
        number = self.reader(partition).partition.partition
        return self._appenders[number].append(
            records,
            codec=codec,
            now_ms=time_ns() // 1_000_000,
            segment_bytes=to_integer(segment_bytes, "segment_bytes"),
        )

    def expire(
        self,
        *,
        older_than: timedelta | None = None,
        keep_bytes: SupportsIndex | None = None,
        single_writer: bool = False,
    ) -> list[ExpiredPartition]:
        """Delete the segments that are too old, or that are too many.

        Whole segments are deleted, from the beginning of each partition on, up to the
        first that no limit excludes. When it returns they are gone, and a push copies
        none of them again. When it raises, or the process dies, what was begun is
        finished by the next call, whatever its limits.

        Args:
            older_than: Records older than this expire: Kafka's ``retention.ms``. None
                for no limit.
            keep_bytes: Bytes of segments that are kept of each partition: Kafka's
                ``retention.bytes``. None for no limit.
            single_writer: Whether you vouch that no other process changes the topic.

        Returns:
            What was deleted of each partition, or the error that prevented it, such as
            FencedError where a manager is in charge of the partition.

        Raises:
            InvalidArgumentError: A limit is negative, or ``older_than`` no timedelta.
            UnsupportedOperationError: The layout is read only.
            StorageUnavailableError: The store failed.
        """
        given: object = older_than
        if not (given is None or isinstance(given, timedelta)):
            raise InvalidArgumentError(
                f"older_than is {given!r}: give a timedelta, such as timedelta(days=30)"
            )
        size = None if keep_bytes is None else to_integer(keep_bytes, "keep_bytes")
        return expire(
            self._storage,
            [reader.partition for reader in self._readers.values()],
            Retention.of(older_than, size),
            owner=unique_owner(),
            single_writer=single_writer,
        )

    def cleanup_until(
        self,
        partition: SupportsIndex,
        time: SupportsIndex | datetime | str,
        *,
        single_writer: bool = False,
    ) -> ExpiredPartition:
        """Delete the segments of a partition all of whose records are before a time.

        It is as ``expire`` for one partition, with a time in place of an age.

        Args:
            partition: Its number.
            time: Milliseconds since 1970, a datetime or ISO text; UTC without a zone.
            single_writer: As ``expire`` takes it.

        Raises:
            NotFoundError: There is no such partition.
            InvalidArgumentError: It is not a time.
            UnsupportedOperationError: The layout is read only.
            StorageUnavailableError: The store failed.
        """
        last = to_milliseconds(time) - 1
        (found,) = expire(
            self._storage,
            [self.reader(partition).partition],
            Retention(max_age_ms=0),
            owner=unique_owner(),
            single_writer=single_writer,
            now_ms=lambda: last,
        )
        return found

    def __repr__(self) -> str:
        """Show name and partitions."""
        return f"Topic({self.name!r}, partitions={len(self.partitions)})"

    def __getstate__(self) -> dict[str, object]:
        """Return the storage, the partitions and the attributes of a subclass."""
        parts = [reader.partition for reader in self._readers.values()]
        made = {"_readers": parts, "_appenders": None}
        return vars(self) | made

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state, without sending a request."""
        vars(self).update(state)
        catalog = SegmentCatalog(self._storage)
        self._read(catalog, state["_readers"])  # type: ignore[arg-type] # what __getstate__ gave

    def _reader_of(self, number: int) -> TieredReader:
        """Return the reader of a partition, which the tier need not have."""
        if number in self._readers:
            return self._readers[number]
        partition = TopicIdPartition(self.name, number, self.topic_id)
        return TieredReader(self._storage, SegmentCatalog(self._storage), partition)

    def _read(
        self, catalog: SegmentCatalog, partitions: Iterable[TopicIdPartition]
    ) -> None:
        """Create the readers and appenders of the partitions."""
        self._readers = {
            partition.partition: TieredReader(self._storage, catalog, partition)
            for partition in sorted(partitions)
        }
        self._appenders = {
            number: Appender(self._storage, reader.partition)
            for number, reader in self._readers.items()
        }


def _by_number(
    plan: Callable[[TieredReader], _T], readers: Sequence[TieredReader]
) -> dict[int, _T]:
    """Return what is planned for each partition, by its number."""
    numbers = (reader.partition.partition for reader in readers)
    return dict(zip(numbers, plan_all(plan, readers), strict=True))


def _codec(compression: str) -> Codec:
    try:
        return Codec[compression.upper()]
    except (AttributeError, KeyError):  # no text, or another one
        known = ", ".join(codec.name.lower() for codec in Codec)
        msg = f"unknown compression {compression!r}: give one of {known}"
        raise InvalidArgumentError(msg) from None


def _check_by_partition(times: object) -> None:
    if not isinstance(times, Mapping):
        msg = f"invalid times {times!r}: give a time by partition, such as {{0: 0}}"
        raise InvalidArgumentError(msg)


def _check_choice(name: str, value: object, choices: Collection[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join(map(repr, choices))
        raise InvalidArgumentError(f"{name} must be {listed}, not {value!r}")


def _names(columns: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if columns is None or isinstance(columns, str):
        return columns if columns is None else (columns,)
    try:
        return tuple(columns)
    except TypeError as error:
        msg = f"invalid columns {columns!r}: give a list of names"
        raise InvalidArgumentError(msg) from error


def _numbers(partitions: Iterable[SupportsIndex]) -> tuple[int, ...]:
    try:
        given = tuple(partitions)
    except TypeError as error:
        msg = f"invalid partitions {partitions!r}: give a list of numbers"
        raise InvalidArgumentError(msg) from error
    return tuple(to_integer(number, "partition") for number in given)
