"""``tieredfs expire``: delete the segments that are too old, or too many."""

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

import click

from tieredfs.cli.ages import Age
from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output.partition_rows import show_partitions
from tieredfs.cli.output.progress import waiting
from tieredfs.cli.sizes import Size
from tieredfs.log.journal.heartbeat import unique_owner
from tieredfs.log.retention.expire import ExpiredPartition, expirable_partitions
from tieredfs.log.retention.expire import expire as expire_partitions
from tieredfs.log.retention.plan import Retention
from tieredfs.storage import RemoteStorageManager

__all__ = ["expire", "single_writer_option"]

_COLUMNS = {
    "partition": "PARTITION",
    "log_start": "EARLIEST",
    "segments": "DELETED",
    "bytes": "BYTES",
}
_DRY_RUN = {"segments": "TO DELETE"}

single_writer_option = click.option(
    "--single-writer",
    is_flag=True,
    help="No other process changes what is there: take over from one that died less "
    "than a minute ago, or use a store that cannot tell two writers apart.",
)


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option(
    "--older-than",
    type=Age(),
    metavar="AGE",
    help="Records older than this expire, such as 12h or 30d: Kafka's retention.ms.",
)
@click.option(
    "--keep-bytes",
    type=Size(),
    metavar="SIZE",
    help="So much is kept of each partition, such as 500MB or 1TiB: Kafka's "
    "retention.bytes.",
)
@click.option(
    "-n", "--dry-run", is_flag=True, help="Show what would be deleted, and delete none."
)
@single_writer_option
@json_option
@tier_options
def expire(  # noqa: PLR0913 - one parameter for each option
    options: TierOptions,
    url: str,
    topic: str | None,
    *,
    older_than: timedelta | None,
    keep_bytes: int | None,
    dry_run: bool,
    single_writer: bool,
    as_json: bool,
) -> None:
    """Delete the segments of the topics at URL, or of one TOPIC, that have expired.

    Segments are deleted from the beginning of each partition on, whole, up to the first
    that no limit excludes. One expires when all of its records are too old, or when the
    others are enough to keep. Records without a timestamp do not become old. What has
    expired is not pushed again. An expiry that was interrupted is continued by running
    it again, with any limits. A partition that cannot be expired leaves the others, and
    the exit code is the first of 4, 6, 2 and 5 that an error has.
    """
    if older_than is None and keep_bytes is None:
        raise click.UsageError("say what is kept: --older-than, --keep-bytes, or both")
    # Where all has expired there is no object of a layout: then any will do.
    with waiting(f"expire {url}"), closing(options.target(url)) as storage:
        partitions = expirable_partitions(storage, topic)
        found = expire_partitions(
            storage,
            partitions,
            Retention.of(older_than, keep_bytes),
            owner=unique_owner(),
            dry_run=dry_run,
            single_writer=single_writer,
        )
        _show(storage, found, dry_run=dry_run, as_json=as_json)


def _show(
    storage: RemoteStorageManager,
    found: Sequence[ExpiredPartition],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    errors = [one.error for one in found if one.error is not None]
    rows = [
        {
            "partition": str(one.partition),
            "topic_id": one.partition.topic_id,
            "log_start": one.log_start,
            "segments": len(one.segments),
            "bytes": sum(segment.size or 0 for segment in one.segments),
        }
        for one in found
    ]
    columns = _COLUMNS | _DRY_RUN if dry_run else _COLUMNS
    url = storage.store.url
    show_partitions(rows, columns, errors, url, dry_run=dry_run, as_json=as_json)
