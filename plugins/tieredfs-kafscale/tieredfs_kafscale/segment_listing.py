"""The segments of a partition: one listing, and the footer of each log."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from tieredfs import (
    CorruptObjectError,
    NotFoundError,
    ObjectInfo,
    ObjectStore,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
    UnsupportedFormatError,
)
from tieredfs.storage import ContentId, run_all
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.object_names import (
    ObjectName,
    Suffix,
    object_prefix,
    parse_name,
)
from tieredfs_kafscale.restore import (
    StoredObjects,
    by_offset,
    last_complete,
    may_be_log,
)
from tieredfs_kafscale.segment_file import (
    FOOTER_SIZE,
    HEADER_SIZE,
    SegmentFooter,
    SegmentHeader,
)
from tieredfs_kafscale.time_sidecar import SIDECAR_SIZE, TimeSidecar

__all__ = ["Ends", "KnownEnds", "SegmentListing"]

_MAX_KNOWN = 100_000  # some 200 bytes each
_MAX_SPAN = (1 << 31) - 1  # offsets of a segment, as Kafka's indexes count them
_MAX_OFFSET = (1 << 63) - 1
_CONCURRENCY = 32  # small requests, which cost only latency


class Ends(NamedTuple):
    """What is read of a segment besides its names.

    Attributes:
        footer: The footer of its log.
        times: Its times, if they are stored.
    """

    footer: SegmentFooter
    times: TimeSidecar | None


KnownEnds = dict[tuple[object, ...], Ends]


class SegmentListing:
    """List the segments of partitions.

    The footer of an object that a listing gives a version of is read once.
    """

    def __init__(self, store: ObjectStore, known: KnownEnds) -> None:
        """Keep the store, without sending a request.

        Args:
            store: Where the objects are.
            known: What was read of the objects that were listed, by their keys, sizes
                and versions.
        """
        self._store = store
        self._known = known

    def objects(self, folder: str) -> dict[int, StoredObjects]:
        """Return the objects of a partition by base offset.

        Args:
            folder: The partition's folder.

        Raises:
            NotFoundError: The folder does not exist.
        """
        listed: dict[ObjectName, ObjectInfo] = {}
        is_empty = True
        for entry in self._store.list(folder, delimiter="/"):
            is_empty = False
            name = parse_name(entry.key[len(folder) :])
            if name is not None and not entry.is_prefix:
                listed[name] = entry
        if is_empty:
            raise NotFoundError(f"not found: {self._store.url}/{folder}")
        return by_offset(listed)

    def custom_metadata(
        self, folder: str, base_offset: int, footer: SegmentFooter
    ) -> CustomMetadata:
        """Return which log a segment has, and the objects beside it: one listing.

        Args:
            folder: The partition's folder.
            base_offset: First offset of the segment.
            footer: The footer of its log.
        """
        prefix = object_prefix(folder, base_offset)
        names = (parse_name(e.key[len(folder) :]) for e in self._store.list(prefix))
        sidecars = (n.suffix for n in names if n and n.checksum == footer.checksum)
        return CustomMetadata(footer.checksum, frozenset(sidecars))

    def segments(
        self, partition: TopicIdPartition, folder: str
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield the segments of a partition, or an error for one that is damaged.

        Args:
            partition: The partition.
            folder: Its folder.

        Raises:
            NotFoundError: The folder does not exist.
            StorageUnavailableError: The store failed in all attempts of its policy.
        """
        objects = self.objects(folder)
        newest = last_complete(objects)
        wanted = [
            found
            for base, found in objects.items()
            if Suffix.LOG in found.own and (Suffix.INDEX in found.own or base < newest)
        ]
        most = self._store.options.max_concurrent_requests
        concurrency = _CONCURRENCY if most is None else most
        tasks = [partial(self._ends, found) for found in wanted]
        all_ends = run_all(tasks, concurrency=concurrency)
        following = [found.base_offset for found in wanted[1:]]
        for found, read, after in zip_longest(wanted, all_ends, following):
            ends: Ends | TieredFSError | None = read
            if isinstance(read, Ends) and after is not None:
                ends = self._checked(found, read, after)
            match ends:
                case None:
                    pass  # it was deleted since it was listed
                case TieredFSError():
                    yield ends
                case _:
                    yield self._segment(partition, found, ends)

    def _checked(
        self, found: StoredObjects, ends: Ends, following: int
    ) -> Ends | TieredFSError | None:
        """Return the ends of a segment; an error if it only seems to overlap the next.

        No checksum covers a footer. A log has every offset, so its header shows where
        it ends.
        """
        last = ends.footer.last_offset
        if last < following:
            return ends
        key = found.own[Suffix.LOG].key
        name = f"{self._store.url}/{key}"
        try:
            data = self._store.get_range(key, 0, HEADER_SIZE)
            header = SegmentHeader.parse(data, name)
        except NotFoundError:
            return None
        except (CorruptObjectError, UnsupportedFormatError) as error:
            return error
        if header.base_offset + header.message_count - 1 == last:
            return ends
        return CorruptObjectError(
            f"{name}: its footer has last offset {last}, its header "
            f"{header.message_count} records from {header.base_offset} on"
        )

    def _ends(self, found: StoredObjects) -> Ends | TieredFSError | None:
        log, times = found.own[Suffix.LOG], found.own.get(Suffix.TIMES)
        key = tuple(
            (one.key, one.size, one.version) for one in (log, times) if one is not None
        )
        known = self._known.get(key)
        if known is not None:
            return known
        name = f"{self._store.url}/{log.key}"
        size = log.size or 0
        if not may_be_log(log):
            return CorruptObjectError(f"{name}: {size} bytes are not a segment")
        try:
            data = self._store.get_range(log.key, size - FOOTER_SIZE, size)
            footer = SegmentFooter.parse(data, name)
        except NotFoundError:
            return None
        except CorruptObjectError as error:
            return error
        span = footer.last_offset - found.base_offset
        if not 0 <= span <= _MAX_SPAN or footer.last_offset >= _MAX_OFFSET:
            return CorruptObjectError(
                f"{name}: its footer has last offset {footer.last_offset}"
            )
        ends = Ends(footer, self._times(times, found.base_offset, footer))
        if log.version:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = ends
        return ends

    def _times(
        self, entry: ObjectInfo | None, base_offset: int, footer: SegmentFooter
    ) -> TimeSidecar | None:
        """Return the times of a segment; None if they are missing, or of another one.

        A segment that is read by time is then asked for its own.
        """
        if entry is None or (entry.size or 0) < SIDECAR_SIZE:
            return None
        size = entry.size or 0
        try:
            data = self._store.get_range(entry.key, size - SIDECAR_SIZE, size)
        except (NotFoundError, CorruptObjectError):
            return None
        times = TimeSidecar.parse(data)
        offsets = (base_offset, footer.last_offset)
        if times is None or (times.min_offset, times.max_offset) != offsets:
            return None
        return times

    def _segment(
        self, partition: TopicIdPartition, found: StoredObjects, ends: Ends
    ) -> SegmentMetadata:
        log, footer = found.own[Suffix.LOG], ends.footer
        sidecars = found.of_log(footer.checksum)
        objects: Mapping[Suffix, ObjectInfo] = {**found.own, **sidecars}
        sizes = [entry.size for entry in objects.values()]
        custom = CustomMetadata(footer.checksum, frozenset(sidecars))
        return SegmentMetadata(
            partition,
            ContentId(partition, found.base_offset).add(footer.encode()).finish(),
            found.base_offset,
            footer.last_offset,
            max_timestamp_ms=None
            if ends.times is None
            else ends.times.max_timestamp_ms,
            size=(log.size or 0) - HEADER_SIZE - FOOTER_SIZE,
            version=f"{log.size}-{footer.checksum:08x}",
            custom_metadata=custom.encode(),
            stored_size=sum(size or 0 for size in sizes) if None not in sizes else None,
        )
