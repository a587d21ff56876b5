"""The public API: a tier of topics, a topic of partitions, a scan of records."""

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from types import EllipsisType, TracebackType
from typing import Self, SupportsIndex, TypeAlias, get_args
from uuid import uuid4

import pyarrow as pa

from tieredfs.arguments import to_text
from tieredfs.cache import default_directory, with_index_cache
from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSWarning,
)
from tieredfs.format.compression.codec import Codec, CodecName
from tieredfs.format.records.schema import project
from tieredfs.integers import is_integer, to_integer
from tieredfs.log.append.append import SEGMENT_BYTES, Appender
from tieredfs.log.partitions import missing_topic_error, without_internal
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.scan_plan import ScanPlan, SegmentSlice
from tieredfs.log.read.fetch import Fetched
from tieredfs.log.read.reader import Bounds, TieredReader
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.log.read.scan import OnGap, Order, Scan
from tieredfs.log.read.times import find_offset, offset_of_time
from tieredfs.model import OffsetAndTimestamp, TopicIdPartition, Uuid, check_topic_name
from tieredfs.objects import ObjectStore, RequestPolicy
from tieredfs.options import DEFAULTS, Options
from tieredfs.storage import RemoteStorageManager, StorageAddress, open_storage

__all__ = ["Position", "Tier", "Topic", "cached", "open_tier"]

Position: TypeAlias = (
    "SupportsIndex | datetime | str | Mapping[int, SupportsIndex] | None"
)
"""An offset, a time (a datetime, or ISO text; UTC when it has no zone), an offset for
each partition, or None for the beginning or the end of the log. An offset is a Python
or numpy integer."""

_Position: TypeAlias = "int | datetime | str | Mapping[int, int] | None"

_FINER = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
"""A fraction of a second in more digits than a datetime has."""

_MAX_TURN_BYTES = 4 << 20  # stored bytes of a batch of records, with some margin


def open_tier(
    url: str | os.PathLike[str],
    *,
    plugin: str | None = None,
    plugin_options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, object] | None = None,
    cache_dir: str | os.PathLike[str] | EllipsisType | None = ...,
    options: Options = DEFAULTS,
) -> "Tier":
    """Open the tier at a URL, in any layout.

    Args:
        url: Any fsspec URL or local path; a prefix ``name+`` names the plugin.
        plugin: The layout, by its name or as ``module:Class``; None to detect it.
        plugin_options: Options of the plugin.
        storage_options: Options of fsspec for the filesystem of the URL. One is ours,
            for callers that can pass only these: ``tieredfs={"plugin": name}``.
        cache_dir: Where indexes are cached across restarts, those of an encrypted tier
            in plaintext; None or "" to cache none. By default the value of the
            environment variable TIEREDFS_CACHE_DIR, else the user's cache directory. A
            tier on this machine is not cached.
        options: The sizes and limits of reads and writes.

    Raises:
        NotFoundError: The URL has no objects.
        UnsupportedFormatError: No plugin recognises the objects.
        UnknownPluginError: No plugin has the name.
        PluginNotInstalledError: The plugin's package or the filesystem's is missing.
        PluginError: The plugin cannot be used, or two plugins recognise the objects.
        InvalidArgumentError: The URL or an option is invalid, or the URL is a level
            off.
    """
    address = StorageAddress.of(
        url,
        storage_options=storage_options,
        plugin=plugin,
        plugin_options=plugin_options,
    )
    store = ObjectStore(address.url, address.storage_options, options=options)
    storage = open_storage(store, address.plugin, address.plugin_options)
    return Tier(cached(storage, cache_dir))


def cached(
    storage: RemoteStorageManager,
    cache_dir: str | os.PathLike[str] | EllipsisType | None = ...,
) -> RemoteStorageManager:
    """Wrap a storage that is not on this machine in a cache of indexes.

    Args:
        storage: The storage to wrap.
        cache_dir: As ``open_tier`` takes it.
    """
    if isinstance(cache_dir, EllipsisType):
        cache_dir = default_directory()
    if not cache_dir or storage.store.is_local:
        return storage
    return with_index_cache(storage, cache_dir)


class Tier:
    """The topics at one URL.

    It may be shared by threads and pickled to other processes.

    Attributes:
        storage: Where the segments are.
    """

    def __init__(self, storage: RemoteStorageManager) -> None:
        """Create a tier of a storage, without sending a request.

        Its sizes and limits are the options of the storage's store.
        """
        self.storage = storage
        self._catalog = SegmentCatalog(storage)

    def topics(self) -> list[str]:
        """Return the names of the topics, sorted.

        Kafka's internal topics, whose names begin with ``__``, are left out; ``topic``
        opens them.
        """
        found = without_internal(self.storage.list_partitions())
        return sorted({partition.topic for partition in found})

    def topic(self, name: str, *, topic_id: str | None = None) -> "Topic":
        """Open one topic.

        Args:
            name: The topic's name.
            topic_id: Which of several topics of this name. By default the one with the
                largest timestamp is used, with a TieredFSWarning.

        Raises:
            NotFoundError: There is no such topic.
            InvalidArgumentError: The name is invalid, or the id is not a text.
        """
        check_topic_name(name)
        found = self.storage.list_partitions(name)
        if not found:
            raise missing_topic_error(self.storage, name)
        if topic_id is not None:
            topic_id = to_text(topic_id, "topic_id")
            listed = ", ".join(sorted({p.topic_id for p in found}))
            found = [p for p in found if p.topic_id == topic_id]
            if not found:
                msg = f"not found: topic {name!r} with id {topic_id}"
                msg += f" in {self.storage.store.url}; it has {listed}"
                raise NotFoundError(msg)
        ids = {partition.topic_id for partition in found}
        if len(ids) > 1:
            newest = max(ids, key=lambda one: (self._newest(found, one), one))
            listed = ", ".join(sorted(ids))
            warnings.warn(
                f"topic {name!r} exists several times ({listed}): reading the "
                f"newest, {newest}; topic_id, or --topic-id, chooses another",
                TieredFSWarning,
                stacklevel=2,
            )
            found = [p for p in found if p.topic_id == newest]
        return Topic(self.storage, self._catalog, found)

    def create_topic(
        self, name: str, *, partitions: SupportsIndex = 1, topic_id: str | None = None
    ) -> "Topic":
        """Create a topic to which records can be appended.

        Nothing is written before the first record: until then only the caller sees it.
        Of two writers that create a topic, the first that appends has it.

        Args:
            name: A name that no topic of this tier has.
            partitions: Number of its partitions.
            topic_id: Its id; None for a new one.

        Raises:
            AlreadyExistsError: There is a topic of this name.
            InvalidArgumentError: The name or the id is invalid, or ``partitions`` is
                below 1.
        """
        check_topic_name(name)
        partitions = to_integer(partitions, "partitions")
        if partitions < 1:
            msg = f"{name!r}: a topic has at least one partition, not {partitions}"
            raise InvalidArgumentError(msg)
        if self.storage.list_partitions(name):
            msg = f"already exists: topic {name!r} in {self.storage.store.url}"
            raise AlreadyExistsError(msg)
        made = Uuid.from_bytes(uuid4().bytes) if topic_id is None else Uuid(topic_id)
        begun = [TopicIdPartition(name, number, made) for number in range(partitions)]
        self._catalog.begin(begun)
        return Topic(self.storage, self._catalog, begun)

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same tier, on the same connections, under ``policy``.

        It has the same class, and the attributes of a subclass.

        Raises:
            InvalidArgumentError: ``policy`` is not a RequestPolicy.
        """
        view = copy(self)
        storage = self.storage.with_policy(policy)
        catalog = SegmentCatalog(storage)
        vars(view).update(storage=storage, _catalog=catalog)
        return view

    def close(self) -> None:
        """Release the plugin's resources."""
        self.storage.close()

    def __enter__(self) -> Self:
        """Use the tier in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the tier."""
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without cached descriptions, which are fetched again."""
        return {name: kept for name, kept in vars(self).items() if name != "_catalog"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state, without sending a request."""
        vars(self).update(state)
        self._catalog = SegmentCatalog(self.storage)

    def __repr__(self) -> str:
        """Show the layout and the URL, without secrets."""
        return f"Tier({self.storage!r})"

    def _newest(self, partitions: Iterable[TopicIdPartition], topic_id: Uuid) -> int:
        stamps = (
            segment.max_timestamp_ms
            for partition in partitions
            if partition.topic_id == topic_id
            for segment in self._catalog.timed_segments(partition)
        )
        return max((s for s in stamps if s is not None), default=-1)


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

        Raises:
            NotFoundError: A partition was deleted.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        return {number: held.beginning for number, held in self._bounds().items()}

    def end_offsets(self) -> dict[int, int]:
        """Return the end (exclusive) of each partition.

        Raises:
            NotFoundError: A partition was deleted.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        return {number: held.end for number, held in self._bounds().items()}

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
        asked = [(self.reader(n), to_milliseconds(time)) for n, time in times.items()]
        return {
            reader.partition.partition: find_offset(reader, time)
            for reader, time in asked
        }

    def scan(
        self,
        partitions: Iterable[SupportsIndex] | None = None,
        start: Position = None,
        end: Position = None,
        *,
        columns: str | Iterable[str] | None = None,
        order: Order = "partition",
        on_gap: OnGap = "raise",
    ) -> Scan:
        """Plan the reading of records; no record is read yet.

        A time means the offset that ``offsets_for_times`` returns; it does not filter
        records. An end past the log's end means the log's end.

        Args:
            partitions: Their numbers; None for all.
            start: First offset or time.
            end: End (exclusive).
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
            InvalidArgumentError: A position, column, order or on_gap is invalid, or
                ``start`` is after ``end`` where both are offsets or both are times.
        """
        _check_choice("order", order, get_args(Order))
        _check_choice("on_gap", on_gap, get_args(OnGap))
        wanted = _names(columns)
        project(wanted)
        numbers = self.partitions if partitions is None else _numbers(partitions)
        start, end = _position(start, numbers), _position(end, numbers)
        _check_order(start, end, numbers)

        def slices_of(reader: TieredReader) -> list[SegmentSlice]:
            return reader.slices(
                _offset(reader, start, skip_gaps=on_gap == "skip"),
                _offset(reader, end, skip_gaps=on_gap == "skip"),
                skip_gaps=on_gap == "skip",
            )

        slices: list[SegmentSlice] = []
        for number in dict.fromkeys(numbers):
            reader = self.reader(number)
            slices += plan_despite_deletes(reader, partial(slices_of, reader))
        fetch_size = self._storage.store.options.fetch_bytes
        if order == "fair":
            fetch_size = min(fetch_size, _MAX_TURN_BYTES)
        plan = ScanPlan(tuple(slices), fetch_size)
        return Scan(self._storage, self.name, plan, wanted, order, on_gap)

    def read(
        self,
        partition: SupportsIndex,
        offset: SupportsIndex,
        max_bytes: SupportsIndex = 1 << 20,
    ) -> Fetched:
        """Fetch about ``max_bytes`` of records, as Kafka's consumer does.

        At least one record is returned unless there is none from ``offset`` to the end
        of the log: holes that compaction left, and control records, are skipped.
        If segments are deleted meanwhile, the log is listed and fetched again.

        Args:
            partition: Its number.
            offset: First offset wanted.
            max_bytes: Stored bytes of the batches to return; the first one with a
                wanted record is returned, however large it is.

        Returns:
            The records, and ``next_offset`` for the next call; no record at the end of
            the log.

        Raises:
            NotFoundError: There is no such partition, or a segment that is still listed
                does not exist.
            OffsetOutOfRangeError: ``offset`` is outside the log, perhaps because its
                segment was just deleted.
            CorruptDataError: The next record may be in a gap, or the log is corrupt.
            InvalidArgumentError: An argument is not an integer, or ``max_bytes`` is
                negative.
        """
        reader = self.reader(partition)
        return plan_despite_deletes(reader, partial(reader.read, offset, max_bytes))

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

    def _bounds(self) -> dict[int, Bounds]:
        return {number: reader.bounds() for number, reader in self._readers.items()}


def _codec(compression: str) -> Codec:
    try:
        return Codec[compression.upper()]
    except (AttributeError, KeyError):  # no text, or another one
        known = ", ".join(codec.name.lower() for codec in Codec)
        msg = f"unknown compression {compression!r}: give one of {known}"
        raise InvalidArgumentError(msg) from None


def to_milliseconds(time: SupportsIndex | datetime | str) -> int:
    """Return a time as milliseconds since 1970 UTC, rounded up.

    Raises:
        InvalidArgumentError: It is not milliseconds, a datetime or ISO text.
    """
    if is_integer(time):
        return to_integer(time, "time")
    finer = getattr(time, "nanosecond", 0)  # a pandas.Timestamp has them
    if isinstance(time, str):
        finer = _FINER.search(time)
        try:
            time = datetime.fromisoformat(time)  # cuts off what is finer
        except ValueError as error:
            msg = f"not a time: {time!r} (ISO text such as 2026-11-01T00:00:00Z)"
            raise InvalidArgumentError(msg) from error
    if not isinstance(time, datetime):
        msg = f"not a time: {time!r}"
        raise InvalidArgumentError(msg)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return -(-(micros + bool(finer)) // 1000)


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


def _position(position: Position, numbers: Collection[int]) -> "_Position":
    """Return a position with Python integers.

    Raises:
        InvalidArgumentError: It is not a position, or names a partition that is not
            read.
    """
    if isinstance(position, Mapping):
        offsets = {
            to_integer(number, "partition"): to_integer(offset, "offset of a partition")
            for number, offset in position.items()
        }
        others = sorted(offsets.keys() - set(numbers))
        if others:
            msg = f"partition {others[0]} has an offset but is not scanned"
            raise InvalidArgumentError(msg)
        return offsets
    if is_integer(position):
        return to_integer(position, "offset")
    if position is None or isinstance(position, str | datetime):
        return position
    msg = f"not a position: {position!r} (an offset, a time, or offsets by partition)"
    raise InvalidArgumentError(msg)


def _check_order(start: "_Position", end: "_Position", numbers: Iterable[int]) -> None:
    """Check that no partition's end is before its start.

    An offset and a time cannot be compared. The offsets of two times may be in reverse
    order, because timestamps need not increase along the log.

    Raises:
        InvalidArgumentError: An end is before its start.
    """
    for number in numbers:
        first, last = _asked(start, number), _asked(end, number)
        if isinstance(first, int) and isinstance(last, int):
            is_after = first > last
        elif isinstance(first, str | datetime) and isinstance(last, str | datetime):
            is_after = to_milliseconds(first) > to_milliseconds(last)
        else:
            continue
        if is_after:
            msg = f"partition {number}: start {first} is after end {last}"
            raise InvalidArgumentError(msg)


def _asked(position: "_Position", number: int) -> int | datetime | str | None:
    """Return the offset or time of a position in one partition."""
    return position.get(number) if isinstance(position, Mapping) else position


def _offset(
    reader: TieredReader, position: "_Position", *, skip_gaps: bool
) -> int | None:
    """Convert a position to an offset of one partition; None stays None."""
    if isinstance(position, Mapping):
        return position.get(reader.partition.partition)
    if position is None or isinstance(position, int):
        return position
    return offset_of_time(reader, to_milliseconds(position), skip_gaps=skip_gaps)
