"""``tieredfs pull``: restore a broker's log directory from a tier."""

import click

from tieredfs.cli.log_directory import check_is_directory, log_directory_url
from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output.progress import Transfer
from tieredfs.cli.output.tables import show_json, show_table
from tieredfs.log.partitions import listed_size, select_partitions
from tieredfs.log.pull.pull import PulledSegment
from tieredfs.log.pull.pull import pull as pull_segments
from tieredfs.model import TopicIdPartition

__all__ = ["pull"]

_COLUMNS = {
    "partition": "PARTITION",
    "segments": "SEGMENTS",
    "cut": "CUT",
    "files": "FILES WRITTEN",
    "bytes": "BYTES",
}


@click.command
@click.argument("url")
@click.argument("directory", metavar="DIR")
@click.argument("topic", required=False)
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@json_option
@tier_options
def pull(
    options: TierOptions,
    url: str,
    directory: str,
    topic: str | None,
    topic_id: str | None,
    *,
    as_json: bool,
) -> None:
    """Restore the log and index files at URL into DIR, as a broker lays them out.

    Files are byte for byte what the broker wrote. Where segments overlap, the needed
    part of one becomes its own segment, with indexes built from its log (CUT). A file
    that is in DIR already and is the same stays, so a pull may be repeated; one with
    other content stays too, and is an error with the first differing byte.
    """
    target = options.reach.local(log_directory_url(directory))
    check_is_directory(target)
    moved = Transfer()
    with options.tier(url, moved, is_cached=False) as tier:
        storage = tier.storage
        topics = None if topic is None else [topic]
        partitions = select_partitions(storage, topics, topic_id)
        with moved.shown(
            f"pull {url}", lambda: listed_size(storage, partitions)
        ) as done:
            pulled = pull_segments(
                storage,
                target,
                partitions,
                progress=lambda one: done(one.segment.size or 0),
            )
    rows = [_row(partition, pulled) for partition in partitions]
    if as_json:
        show_json({"directory": directory, "partitions": rows})
    else:
        show_table(rows, _COLUMNS)


def _row(partition: TopicIdPartition, pulled: list[PulledSegment]) -> dict[str, object]:
    mine = [one for one in pulled if one.segment.partition == partition]
    return {
        "partition": str(partition),
        "segments": len(mine),
        "cut": sum(one.is_cut for one in mine),
        "files": sum(one.written for one in mine),
        "bytes": sum(one.segment.size or 0 for one in mine),
    }
