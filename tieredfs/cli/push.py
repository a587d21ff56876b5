"""``tieredfs push``: archive a broker's log directory."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import click

from tieredfs.cache.user_directory import default_directory
from tieredfs.cli.ages import Age
from tieredfs.cli.expire import single_writer_option
from tieredfs.cli.log_directory import (
    LAYOUT,
    check_is_broker,
    check_is_directory,
    log_directory_url,
    open_log_directory,
)
from tieredfs.cli.metrics import Address
from tieredfs.cli.numbers import Integer
from tieredfs.cli.options import Rate, TierOptions, json_option, tier_options
from tieredfs.cli.output.partition_rows import show_partitions
from tieredfs.cli.output.progress import Transfer
from tieredfs.cli.pushed_segments import (
    COLUMNS,
    change_errors,
    count_moved,
    row_of,
)
from tieredfs.cli.sizes import Size
from tieredfs.cli.watched_push import watch_log_directory
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.log.manager.settings import DEFAULT_SETTINGS, ManagerSettings
from tieredfs.log.partitions import (
    listed_size,
    select_partitions,
    without_internal,
    without_topics,
)
from tieredfs.log.push.push import CONCURRENCY
from tieredfs.log.push.push import push as push_segments
from tieredfs.log.push.push_record import PushRecord
from tieredfs.log.retention.plan import Retention
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectStore, RateLimit
from tieredfs.storage import RemoteStorageManager, open_storage

__all__ = ["push"]

_DRY_RUN = {"copied": "TO COPY", "rebuilt": "TO REBUILD"}


@click.command
@click.argument("logdir")
@click.argument("url")
@click.option(
    "--topic", "topics", multiple=True, metavar="T", help="Only this; may be repeated."
)
@click.option(
    "--exclude",
    "excluded",
    multiple=True,
    metavar="PATTERN",
    help="No topic that matches this glob pattern; may be repeated.",
)
@click.option(
    "--active", is_flag=True, help="Also the segment that is being written, so far."
)
@click.option(
    "-n",
    "--dry-run",
    is_flag=True,
    help="Show what would be put, with all checks, and write nothing.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd"]),
    help="Compress the logs that are put; the layout's own option.",
)
@click.option(
    "--concurrency",
    type=Integer(min=1),
    default=None,
    metavar="N",
    help=f"Partitions that are copied at the same time: {CONCURRENCY}, or "
    f"{DEFAULT_SETTINGS.threads} with --watch.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Also read what is at URL already, and replace what is damaged.",
)
@click.option(
    "--bwlimit",
    type=Rate(),
    metavar="RATE",
    help="Send at most so many bytes a second; suffixes K, M, G as 512K or 1.5M.",
)
@click.option(
    "--watch", is_flag=True, help="Keep going: copy each segment when it is closed."
)
@click.option(
    "--retention",
    type=Age(),
    metavar="AGE",
    help="With --watch: what is older expires at URL, such as 30d: retention.ms.",
)
@click.option(
    "--retention-bytes",
    type=Size(),
    metavar="SIZE",
    help="With --watch: so much is kept of each partition: retention.bytes.",
)
@click.option(
    "--metrics",
    type=Address(),
    metavar="ADDR",
    help="With --watch: serve /metrics and /health there, such as 127.0.0.1:9404.",
)
@single_writer_option
@json_option
@tier_options
def push(  # noqa: PLR0913 - one parameter for each option
    options: TierOptions,
    logdir: str,
    url: str,
    topics: tuple[str, ...],
    excluded: tuple[str, ...],
    *,
    active: bool,
    dry_run: bool,
    compression: str | None,
    concurrency: int | None,
    repair: bool,
    bwlimit: float | None,
    watch: bool,
    retention: timedelta | None,
    retention_bytes: int | None,
    metrics: tuple[str, int] | None,
    single_writer: bool,
    as_json: bool,
) -> None:
    """Archive the closed segments of the broker's log directory LOGDIR at URL.

    Segments that are at URL already are not put again, so an interrupted push is
    continued by running it again; with --repair they are read, as by verify --deep, and
    damaged copies of these logs are replaced (REPAIRED). Indexes that are missing or
    inconsistent with their log are rebuilt (REBUILT). A segment that the broker changes
    meanwhile is left for the next push (CHANGED), with the later ones; one that is
    corrupt or cannot be read fails alone, and one that URL cannot store ends its
    partition (FAILED). The others are copied, and the exit code is the first of 4, 6, 2
    and 5 that an error has.

    With --watch it does not end: each segment is copied when it is closed, and what
    --retention or --retention-bytes exclude expires at URL. A partition that fails is
    tried again, and the others go on. SIGTERM and Ctrl-C end it; what it was doing is
    settled by the next one.
    """
    _check_watch_options(
        watch=watch,
        only_with={
            "--retention": retention,
            "--retention-bytes": retention_bytes,
            "--metrics": metrics,
            "--single-writer": single_writer or None,
        },
        never_with={"--active": active, "--dry-run": dry_run, "--repair": repair},
    )
    if watch:
        source = open_storage(options.reach.local(log_directory_url(logdir)), LAYOUT)
        check_is_broker(source)
        target = options.target(
            url,
            compression=compression,
            rate_limit=None if bwlimit is None else RateLimit(bwlimit),
        )
        check_is_directory(target.store)
        _check_apart(source.store, target.store)
        watch_log_directory(
            source,
            target,
            lambda: _selected(source, topics, excluded),
            Retention.of(retention, retention_bytes),
            ManagerSettings(
                threads=concurrency or DEFAULT_SETTINGS.threads,
                single_writer=single_writer,
            ),
            directory=default_directory(),
            metrics=metrics,
            as_json=as_json,
        )
        return
    moved = Transfer(passes=1 if dry_run else 2)
    source = open_log_directory(options.reach.local(log_directory_url(logdir)))
    target = options.target(
        url,
        moved.writes,
        compression=compression,
        dry_run=dry_run,
        rate_limit=None if bwlimit is None else RateLimit(bwlimit),
    )
    check_is_directory(target.store)
    _check_apart(source.store, target.store)
    partitions = _selected(source, topics, excluded)
    with moved.shown(
        f"push {logdir}", lambda: listed_size(source, partitions, active=active)
    ):
        report = push_segments(
            source,
            target,
            partitions,
            active=active,
            concurrency=concurrency or CONCURRENCY,
            repair=repair,
            record=None if dry_run else _record(),
            progress=lambda one: count_moved(moved, one),
            watch=moved.on_piece,
        )
    rows = [row_of(partition, report) for partition in partitions]
    errors = [*report.errors, *change_errors(source, report, "push")]
    columns = COLUMNS | _DRY_RUN if dry_run else COLUMNS
    show_partitions(
        rows, columns, errors, target.store.url, dry_run=dry_run, as_json=as_json
    )


def _check_watch_options(
    *, watch: bool, only_with: Mapping[str, object], never_with: Mapping[str, bool]
) -> None:
    """Refuse options that mean nothing with --watch, or without it.

    Raises:
        UsageError: One was given; the message names it.
    """
    if watch:
        for name, is_given in never_with.items():
            if is_given:
                raise click.UsageError(f"{name} cannot be combined with --watch")
        return
    for name, value in only_with.items():
        if value is not None:
            raise click.UsageError(f"{name} is of use only with --watch")


def _selected(
    source: RemoteStorageManager, topics: Sequence[str], excluded: Sequence[str]
) -> list[TopicIdPartition]:
    """List the partitions of the topics that are wanted.

    Raises:
        NotFoundError: There is no topic of one of the names, or all are excluded.
    """
    found = select_partitions(source, topics or None)
    if not topics:
        found = without_internal(found)
    kept = without_topics(found, excluded)
    if found and not kept:
        raise NotFoundError(
            f"not found: a topic in {source.store.url} that --exclude leaves"
        )
    return kept


def _check_apart(logdir: ObjectStore, target: ObjectStore) -> None:
    """Refuse to write into the log directory: a broker does not start with an archive.

    Raises:
        InvalidArgumentError: The target is inside the log directory.
    """
    if target.is_inside(logdir):
        raise InvalidArgumentError(
            f"{target.url} is in the log directory {logdir.url}: push to a place "
            "outside of it"
        )


def _record() -> PushRecord | None:
    """Return the push record of this user; None if there is no cache."""
    directory = default_directory()
    return None if directory is None else PushRecord.in_cache(directory)
