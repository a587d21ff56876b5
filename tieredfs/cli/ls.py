"""``tieredfs ls``: the topics of a store, or the partitions of a topic."""

import click
import pyarrow as pa

from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output import (
    show_json,
    show_line,
    show_table,
    show_time,
    without_prints,
)
from tieredfs.cli.progress import counted
from tieredfs.log.reader import TieredReader, bounds_of
from tieredfs.storage import check_layout
from tieredfs.tier import Topic

__all__ = ["ls"]

_NO_TIMESTAMP = -1
_COLUMNS = {
    "partition": "PARTITION",
    "start_offset": "START",
    "end_offset": "END",
    "first_time": "FIRST",
    "max_time": "LAST",
    "segments": "SEGMENTS",
    "bytes": "BYTES",
}


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@json_option
@tier_options
def ls(
    options: TierOptions,
    url: str,
    topic: str | None,
    topic_id: str | None,
    *,
    as_json: bool,
) -> None:
    """List the topics at URL, or the partitions of TOPIC.

    A partition's START is its first offset, END is past its last; FIRST is the time of
    its first record, LAST its largest timestamp.
    """
    with options.tier(url) as tier:
        if topic is None:
            names = tier.topics()
            if not names:
                with without_prints():
                    check_layout(tier.storage)
            if as_json:
                show_json({"url": tier.storage.store.url, "topics": names})
            else:
                for name in names:
                    show_line(name)
            return
        opened = tier.topic(topic, topic_id=topic_id)
        rows = [_row(opened, number) for number in counted(topic, opened.partitions)]
    if as_json:
        show_json(
            {"topic": opened.name, "topic_id": opened.topic_id, "partitions": rows}
        )
    else:
        times = [
            row
            | {
                "first_time": show_time(row["first_timestamp"]),
                "max_time": show_time(row["max_timestamp"]),
            }
            for row in rows
        ]
        show_table(times, _COLUMNS)


def _row(topic: Topic, number: int) -> dict[str, int | None]:
    reader = topic.reader(number)
    segments = reader.timed_segments()
    held = bounds_of(segments)
    stamps = (s.max_timestamp_ms for s in segments if s.max_timestamp_ms is not None)
    latest = max((stamp for stamp in stamps if stamp != _NO_TIMESTAMP), default=None)
    return {
        "partition": number,
        "start_offset": held.beginning,
        "end_offset": held.end,
        "first_timestamp": _first_timestamp(reader, held.beginning),
        "max_timestamp": latest,
        "segments": len(segments),
        "bytes": sum(segment.size or 0 for segment in segments),
    }


def _first_timestamp(reader: TieredReader, beginning: int) -> int | None:
    """Return the timestamp of the first record, ms; None when there is none."""
    times = reader.read(beginning, max_bytes=1)["timestamp"]
    return times.cast(pa.int64())[0].as_py() if len(times) else None
