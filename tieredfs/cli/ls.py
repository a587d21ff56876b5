"""``tieredfs ls``: the topics of a store, or the partitions or segments of a topic."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click
import pyarrow as pa

from tieredfs.cli.exit_codes import worst_code
from tieredfs.cli.options import (
    TierOptions,
    cache_option,
    json_option,
    tier_options,
)
from tieredfs.cli.output.progress import counting
from tieredfs.cli.output.tables import (
    show_error,
    show_json,
    show_line,
    show_table,
    show_time,
)
from tieredfs.errors import (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.index.time import NO_TIMESTAMP
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.model import SegmentId, SegmentMetadata
from tieredfs.storage import check_layout
from tieredfs.tier import Tier
from tieredfs.topic import Topic

__all__ = ["ls"]

_PARTITIONS = {
    "partition": "PARTITION",
    "start_offset": "START",
    "end_offset": "END",
    "first_timestamp": "FIRST",
    "max_timestamp": "LAST",
    "segments": "SEGMENTS",
    "bytes": "BYTES",
    "stored_bytes": "STORED",
}
_SEGMENTS = {
    "partition": "PARTITION",
    "start_offset": "START",
    "end_offset": "END",
    "max_timestamp": "LAST",
    "bytes": "BYTES",
    "stored_bytes": "STORED",
    "id": "ID",
}
_OF_ONE_LOG: Final = (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedFormatError,
)
"""Errors of one log, after which the next one is still listed."""

_Row = dict[str, int | str | None]
_Sizes = Mapping[tuple[int, SegmentId], int]


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option("--segments", is_flag=True, help="A line for each segment of TOPIC.")
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@json_option
@tier_options
@cache_option
def ls(
    options: TierOptions,
    url: str,
    topic: str | None,
    topic_id: str | None,
    *,
    segments: bool,
    as_json: bool,
) -> None:
    """List the topics at URL, or the partitions of TOPIC.

    A partition's START is its first offset, END is past its last; FIRST is the time of
    its first record, LAST the largest timestamp of the segments that are read. BYTES
    are those of the log as the broker wrote it, STORED what it takes at URL with its
    indexes. A log that cannot be read is listed with what is known of it; the exit code
    is then that of the error.
    """
    if topic is None and (segments or topic_id is not None):
        option = "--segments" if segments else "--topic-id"
        raise click.UsageError(f"{option} needs a TOPIC")
    with options.tier(url) as tier:
        if topic is None:
            _show_topics(tier, as_json=as_json)
            return
        opened = tier.topic(topic, topic_id=topic_id)
        found = _read_all(opened, by_segment=segments)
    rows = [row for facts in found for row in facts.rows]
    errors = [error for facts in found for error in facts.errors]
    total: _Row = {
        "segments": _sum(facts.count for facts in found),
        "bytes": _sum(row["bytes"] for row in rows),
        "stored_bytes": _sum(row["stored_bytes"] for row in rows),
    }
    columns = _SEGMENTS if segments else _PARTITIONS
    if as_json:
        show_json(
            {
                "topic": opened.name,
                "topic_id": opened.topic_id,
                "segments" if segments else "partitions": rows,
                "total": total,
                "errors": [str(error) for error in errors],
            }
        )
    else:
        last = [{"partition": "total", **total}] if len(rows) > 1 else []
        show_table([_shown(row, columns) for row in (*rows, *last)], columns)
    for error in errors:
        show_error(error)
    if errors:
        click.get_current_context().exit(worst_code(errors))


def _show_topics(tier: Tier, *, as_json: bool) -> None:
    names = tier.topics()
    if not names:
        check_layout(tier.storage)
    if as_json:
        show_json({"url": tier.storage.store.url, "topics": names})
    else:
        for name in names:
            show_line(name)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a partition.

    Attributes:
        rows: A line for the partition, or one for each of its segments.
        count: Number of its segments, where it is known.
        errors: Why some of it is not known.
        has_holes: Whether records are missing, so that its first one has to be found.
    """

    rows: list[_Row]
    count: int | None
    errors: list[TieredFSError]
    has_holes: bool = False


def _read(reader: TieredReader, *, by_segment: bool) -> _Facts:
    """Read the facts of a partition, and keep its errors."""
    number = reader.partition.partition
    errors: list[TieredFSError] = []
    try:
        segments: Sequence[SegmentMetadata] | None = reader.segments(timed=True)
    except _OF_ONE_LOG as error:
        errors.append(error)
        segments = _listed(reader)
    if segments is None:
        unknown: _Row = dict.fromkeys(_PARTITIONS) | {"partition": number}
        return _Facts([] if by_segment else [unknown], None, errors)
    sizes, count = _stored_sizes(reader, segments), len(segments)
    if by_segment:
        return _Facts([_segment_row(one, sizes) for one in segments], count, errors)
    row = _partition_row(number, segments, sizes)
    if errors:
        return _Facts([row], count, errors)
    held = bounds_of(segments)
    row |= {"start_offset": held.beginning, "end_offset": held.end}
    within = segments, held.beginning, held.end
    served = {one for one, _, _ in reader.tiles(*within, skip_gaps=True)}
    row["max_timestamp"] = _max_timestamp(served)
    try:
        reader.tiles(*within)
        row["first_timestamp"] = _first_timestamp(reader, segments)
    except _OF_ONE_LOG as error:
        return _Facts([row], count, [error], has_holes=True)
    return _Facts([row], count, errors)


def _read_all(topic: Topic, *, by_segment: bool) -> list[_Facts]:
    """Read the facts of all partitions, several at a time."""
    readers = [topic.reader(number) for number in topic.partitions]
    with counting(topic.name, len(readers)) as finish:

        def read(reader: TieredReader) -> _Facts:
            facts = _read(reader, by_segment=by_segment)
            finish(1)
            return facts

        found = readers[0].calls.map(read, readers) if readers else []
        # One after the other, as each may fetch a large part of a log.
        for facts, number in zip(found, topic.partitions, strict=True):
            if facts.has_holes:
                facts.rows[0]["first_timestamp"] = _first_held_timestamp(topic, number)
    return found


def _partition_row(
    number: int, segments: Sequence[SegmentMetadata], sizes: _Sizes
) -> _Row:
    """Return a row from the segments, which is incomplete for an unreadable log."""
    return {
        "partition": number,
        "start_offset": segments[0].start_offset if segments else None,
        "end_offset": None,
        "first_timestamp": None,
        "max_timestamp": _max_timestamp(segments),
        "segments": len(segments),
        "bytes": _sum(segment.size for segment in segments),
        "stored_bytes": _sum(sizes.get((s.start_offset, s.id)) for s in segments),
    }


def _max_timestamp(segments: Iterable[SegmentMetadata]) -> int | None:
    stamps = {segment.max_timestamp_ms for segment in segments}
    return max((s for s in stamps if s not in {None, NO_TIMESTAMP}), default=None)


def _segment_row(segment: SegmentMetadata, sizes: _Sizes) -> _Row:
    end, latest = segment.end_offset, segment.max_timestamp_ms
    return {
        "partition": segment.partition.partition,
        "start_offset": segment.start_offset,
        "end_offset": None if end is None else end + 1,
        "max_timestamp": None if latest == NO_TIMESTAMP else latest,
        "bytes": segment.size,
        "stored_bytes": sizes.get((segment.start_offset, segment.id)),
        "id": str(segment.id),
    }


def _listed(reader: TieredReader) -> Sequence[SegmentMetadata] | None:
    """Return the listed segments of an unreadable log; None if listing fails."""
    try:
        return reader.storage.list_segments(reader.partition)
    except _OF_ONE_LOG:
        return None


def _stored_sizes(reader: TieredReader, segments: Sequence[SegmentMetadata]) -> _Sizes:
    try:
        return reader.stored_sizes(segments)
    except _OF_ONE_LOG:
        return {}


def _first_timestamp(
    reader: TieredReader, segments: Sequence[SegmentMetadata]
) -> int | None:
    """Return the timestamp of the first record, ms; None when there is none."""
    beginning = bounds_of(segments).beginning
    times = reader.read(beginning, max_bytes=1, segments=segments)["timestamp"]
    return times.cast(pa.int64())[0].as_py() if len(times) else None


def _first_held_timestamp(topic: Topic, number: int) -> int | None:
    """Return the timestamp of the first record, ms, of a log with holes in it."""
    with (
        suppress(*_OF_ONE_LOG),
        topic.scan([number], columns=["timestamp"], on_gap="skip") as scan,
    ):
        for batch in scan:
            if batch.num_rows:
                first = batch["timestamp"].cast(pa.int64())[0].as_py()
                return first if isinstance(first, int) else None
    return None


def _sum(sizes: Iterable[int | str | None]) -> int | None:
    """Add up the sizes; None where some are not known."""
    given = list(sizes)
    known = [size for size in given if isinstance(size, int)]
    return sum(known) if len(known) == len(given) else None


def _shown(row: _Row, columns: Iterable[str]) -> dict[str, object]:
    """Return the columns of a row as they are shown, times as text."""
    shown: dict[str, object] = {}
    for name in columns:
        value = row.get(name)
        if name.endswith("_timestamp") and not isinstance(value, str):
            shown[name] = show_time(value)
        else:
            shown[name] = value
    return shown
