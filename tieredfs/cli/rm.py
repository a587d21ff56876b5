"""``tieredfs rm``: delete a topic."""

import sys
from contextlib import closing

import click

from tieredfs.cli.expire import single_writer_option
from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output.progress import waiting
from tieredfs.cli.output.tables import show_json, show_line
from tieredfs.log.journal.heartbeat import unique_owner
from tieredfs.log.partitions import listed_size
from tieredfs.log.retention.delete import deletable_partitions, delete_partitions

__all__ = ["rm"]


@click.command
@click.argument("url")
@click.argument("topic")
@click.option("--topic-id", metavar="ID", help="Which of several topics of this name.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@single_writer_option
@json_option
@tier_options
def rm(  # noqa: PLR0913 - one parameter for each option
    options: TierOptions,
    url: str,
    topic: str,
    *,
    topic_id: str | None,
    yes: bool,
    single_writer: bool,
    as_json: bool,
) -> None:
    """Delete TOPIC at URL: all of its segments, and what copies to it have left.

    On a terminal it asks first; elsewhere --yes is needed. A deletion that was
    interrupted is finished by running it again; until then nothing is pushed to a
    partition that is not yet gone.
    """
    # Where all has expired there is no object of a layout: then any will do.
    with closing(options.target(url)) as storage:
        partitions = deletable_partitions(storage, topic, topic_id)
        if not yes:
            _ask(topic, url, len(partitions), listed_size(storage, partitions))
        with waiting(f"rm {url} {topic}"):
            delete_partitions(
                storage, partitions, owner=unique_owner(), single_writer=single_writer
            )
        if as_json:
            names = [str(partition) for partition in partitions]
            show_json({"url": storage.store.url, "topic": topic, "deleted": names})
        else:
            count = f"{len(partitions)} partition{'s' * (len(partitions) != 1)}"
            show_line(f"deleted topic {topic!r} in {storage.store.url}: {count}")


def _ask(topic: str, url: str, partitions: int, size: int | None) -> None:
    """Ask whether to delete it, where there is a person to answer.

    Raises:
        click.UsageError: There is none, or the answer is no.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"nothing was deleted: add --yes to delete {topic!r}")
    held = "" if size is None else f", {size} bytes"
    question = f"Delete topic {topic!r} in {url} ({partitions} partitions{held})?"
    if not click.confirm(question, err=True):
        raise click.UsageError("nothing was deleted")
