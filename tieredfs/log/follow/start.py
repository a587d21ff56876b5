"""Where a followed topic begins: in its tier, or where its brokers say."""

from collections.abc import Mapping
from datetime import datetime

from tieredfs.errors import NotFoundError
from tieredfs.log.follow.history import is_tiered
from tieredfs.log.follow.live_log import LiveLog
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.log.read.scan_bounds import ParsedPosition, to_milliseconds
from tieredfs.log.read.times import find_offset

__all__ = ["check_start", "start_offset"]


def check_start(start: ParsedPosition | LastRecords) -> None:
    """Refuse a text that is not a time.

    Raises:
        InvalidArgumentError: It is a text, and not a time.
    """
    if isinstance(start, str | datetime):
        to_milliseconds(start)


def start_offset(reader: TieredReader, start: ParsedPosition, live: LiveLog) -> int:
    """Return the first offset to read of a partition.

    Without a position it is where the tier begins; where the tier does not have the
    partition, it is where the broker's log does. A time that is after all records of
    the tier is looked up at the broker.

    Args:
        reader: Reader of the partition, which the tier need not have.
        start: A position.
        live: What the broker has.

    Raises:
        CorruptDataError: As in ``Topic.offsets_for_times``.
        StorageUnavailableError: No broker answered in time, or the store failed.
    """
    number = reader.partition.partition
    if isinstance(start, Mapping):
        start = start.get(number)
    if isinstance(start, int):
        return start
    if start is None:
        found = _beginning(reader)
        return live.bounds(number).beginning if found is None else found
    return _offset_of_time(reader, start, live)


def _beginning(reader: TieredReader) -> int | None:
    """Return where the tier begins; None if it holds nothing."""
    try:
        first = plan_despite_deletes(TieredReader.beginning, reader)
        is_empty = first == plan_despite_deletes(TieredReader.end, reader)
    except NotFoundError:
        if is_tiered(reader):
            raise
        return None
    return None if is_empty else first


def _offset_of_time(reader: TieredReader, start: str | datetime, live: LiveLog) -> int:
    number, timestamp = reader.partition.partition, to_milliseconds(start)

    def find(reader: TieredReader) -> tuple[int | None, int]:
        reader = reader.keeping_indexes()
        segments = reader.segments(timed=True)
        found = find_offset(reader, segments, timestamp)
        return None if found is None else found.offset, bounds_of(segments).end

    try:
        offset, end = plan_despite_deletes(find, reader)
    except NotFoundError:
        if is_tiered(reader):
            raise
        offset, end = None, 0
    if offset is not None:
        return offset
    offset = live.offset_of_time(number, timestamp)
    return max(end, live.ends([number])[number] if offset is None else offset)
