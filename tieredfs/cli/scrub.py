"""``tieredfs scrub``: find and remove what copies that did not end have left."""

from collections.abc import Sequence
from datetime import timedelta

import click

from tieredfs.cli.ages import Age
from tieredfs.cli.exit_codes import CORRUPT, worst_code
from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output.progress import waiting
from tieredfs.cli.output.tables import (
    show_error,
    show_json,
    show_line,
    show_table,
    show_time,
)
from tieredfs.log.partitions import missing_topic_error
from tieredfs.log.scrub.scrub import MIN_AGE, FoundLeftover, ScrubReport
from tieredfs.log.scrub.scrub import scrub as scrub_partitions
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["scrub"]

_COLUMNS = {
    "partition": "PARTITION",
    "state": "STATE",
    "since": "SINCE",
    "bytes": "BYTES",
    "key": "OBJECT",
    "reason": "WHY",
}


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option("--delete", is_flag=True, help="Delete what is old.")
@click.option(
    "--older-than",
    type=Age(),
    default=None,
    metavar="AGE",
    help="With --delete: the age from which on an object is deleted, such as 90m, 24h "
    "or 7d; a day by default. 0 for all, also those whose age is not known, where no "
    "process copies.",
)
@json_option
@tier_options
def scrub(
    options: TierOptions,
    url: str,
    topic: str | None,
    *,
    delete: bool,
    older_than: timedelta | None,
    as_json: bool,
) -> None:
    """Show the objects that copies which did not end have left at URL.

    Readers skip them, so they cost only space. A copy in progress looks the same. So
    --delete deletes only what is a day old (DELETED) and keeps the rest (KEPT); each
    object is looked up again just before. With --delete and no TOPIC, unfinished
    multipart uploads below URL that are as old are aborted as well. The exit code is 0
    when nothing is left over, and 4 when something is.
    """
    if older_than is not None and not delete:
        msg = "--older-than is an option of --delete: add it"
        raise click.UsageError(msg)
    with waiting(f"scrub {url}"), options.tier(url, is_cached=False) as tier:
        storage = tier.storage
        report = scrub_partitions(
            storage,
            _partitions(storage, topic),
            delete=delete,
            uploads=delete and topic is None,
            older_than=MIN_AGE if older_than is None else older_than,
        )
    if as_json:
        _show_json(storage, report)
    else:
        _show_table(storage, report)
    for error in report.errors:
        show_error(error)
    if not report.is_clean:
        has_left = not all(one.is_deleted for one in report.leftovers)
        code = CORRUPT if has_left else worst_code(report.errors)
        click.get_current_context().exit(code)


def _partitions(
    storage: RemoteStorageManager, topic: str | None
) -> Sequence[TopicIdPartition]:
    """Return the partitions to look at.

    Raises:
        NotFoundError: There is no such topic, and nothing that a copy to it left.
    """
    found = storage.leftover_partitions(topic)
    if topic is not None and not found:
        raise missing_topic_error(storage, topic)
    return found


def _show_json(storage: RemoteStorageManager, report: ScrubReport) -> None:
    show_json(
        {
            "url": storage.store.url,
            "leftovers": [
                {
                    "partition": str(one.partition),
                    "topic_id": one.partition.topic_id,
                    "state": one.state.value,
                    "modified": one.modified,
                    "bytes": one.leftover.size,
                    "key": one.leftover.key,
                    "reason": one.leftover.reason,
                }
                for one in report.leftovers
            ],
            "uploads": report.uploads,
            "errors": [str(error) for error in report.errors],
        }
    )


def _show_table(storage: RemoteStorageManager, report: ScrubReport) -> None:
    if report.leftovers:
        show_table([_row(one) for one in report.leftovers], _COLUMNS)
    elif not report.errors:
        show_line(f"nothing is left over in {storage.store.url}")
    for key in report.uploads or ():
        show_line(f"aborted an unfinished upload of {storage.store.url}/{key}")


def _row(one: FoundLeftover) -> dict[str, object]:
    return {
        "partition": str(one.partition),
        "state": one.state.name,
        "since": show_time(one.modified),
        "bytes": one.leftover.size,
        "key": one.leftover.key,
        "reason": one.leftover.reason,
    }
