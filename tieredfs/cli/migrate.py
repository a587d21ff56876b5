"""``tieredfs migrate``: move a tier to another place, in any layout."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from tieredfs.cli.numbers import Integer
from tieredfs.cli.options import (
    JsonObject,
    TierOptions,
    json_option,
    tier_options,
)
from tieredfs.cli.output.partition_rows import show_partitions
from tieredfs.cli.output.progress import Transfer, waiting
from tieredfs.cli.positions import End, Place, PositionType, check_order
from tieredfs.cli.pushed_segments import (
    COLUMNS,
    change_errors,
    count_moved,
    row_of,
)
from tieredfs.log.migrate.migrate import CONCURRENCY
from tieredfs.log.migrate.migrate import migrate as migrate_segments
from tieredfs.log.migrate.plan import PartitionPlan, plan_migration
from tieredfs.log.partitions import (
    listed_size,
    select_partitions,
    without_internal,
)
from tieredfs.log.read.last_records import LastRecords
from tieredfs.storage import RemoteStorageManager

__all__ = ["migrate"]

_COLUMNS = {name: title for name, title in COLUMNS.items() if name != "repaired"}
_PLAN = {
    "partition": "PARTITION",
    "segments": "TO COPY",
    "present": "PRESENT",
    "bytes": "BYTES",
    "reads": "READS, ABOUT",
    "writes": "WRITES, ABOUT",
}


@click.command
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.argument("topic", required=False)
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@click.option(
    "--from",
    "start",
    type=PositionType({"earliest": None}),
    default=None,
    metavar="OFFSET|TIME|earliest",
    help="Only segments with records from here on; as that of cat.",
)
@click.option(
    "--to",
    "end",
    type=PositionType({"latest": None}),
    default=None,
    metavar="OFFSET|TIME|latest",
    help="Only segments with records before this; as that of cat.",
)
@click.option(
    "--layout",
    metavar="NAME",
    help="The layout of DST, or module:Class. By default that of what is there, and "
    "single-object where nothing is.",
)
@click.option(
    "--layout-options",
    type=JsonObject(),
    metavar="JSON",
    help='The options of DST\'s layout, such as {"compression": "zstd"}.',
)
@click.option(
    "--target-storage-options",
    type=JsonObject(),
    metavar="JSON",
    help="fsspec's options for DST; --storage-options are those for SRC.",
)
@click.option(
    "-n",
    "--dry-run",
    is_flag=True,
    help="Show what would be copied, and about how many requests that takes.",
)
@click.option(
    "--concurrency",
    type=Integer(min=1),
    default=CONCURRENCY,
    show_default=True,
    metavar="N",
    help="Segments that are copied at the same time.",
)
@json_option
@tier_options
def migrate(  # noqa: PLR0913 - one parameter for each option
    options: TierOptions,
    source: str,
    target: str,
    topic: str | None,
    start: Place,
    end: End,
    *,
    topic_id: str | None,
    layout: str | None,
    layout_options: Mapping[str, object] | None,
    target_storage_options: Mapping[str, object] | None,
    dry_run: bool,
    concurrency: int,
    as_json: bool,
) -> None:
    """Copy the tier at SRC, or one TOPIC of it, to DST, whatever their layouts are.

    Every segment is copied as it is: with its id, offsets, epochs and indexes, and also
    where others overlap it. Its log is checked batch by batch, and read back from DST.
    Segments that DST has already are not copied again, so an interrupted migration is
    continued by running it again. Indexes that are missing or inconsistent with their
    log are rebuilt (REBUILT). A segment that is corrupt, or that the layout of DST
    cannot store, fails alone (FAILED), and the exit code is the first of 4, 6, 2 and 5
    that an error has. SRC is never changed.
    """
    check_order(start, end)
    moved = Transfer(passes=2)
    reached = TierOptions(
        replace(options.reach, storage_options=target_storage_options),
        layout,
        layout_options,
    )
    with options.tier(source, is_cached=False) as tier:
        storage = tier.storage
        partitions = select_partitions(
            storage, None if topic is None else [topic], topic_id
        )
        if topic is None:
            partitions = without_internal(partitions)
        there = reached.target(target, moved.writes)
        what = f"migrate {source}"
        if dry_run:
            with waiting(what):
                plans = plan_migration(
                    storage, there, partitions, start=_given(start), end=end
                )
            _show_plan(plans, there, as_json=as_json)
            return
        is_all = start is None and end is None
        with moved.shown(
            what,
            lambda: listed_size(storage, partitions, active=False) if is_all else None,
        ):
            report = migrate_segments(
                storage,
                there,
                partitions,
                start=_given(start),
                end=end,
                concurrency=concurrency,
                progress=lambda one: count_moved(moved, one),
                watch=moved.on_piece,
            )
    errors = [*report.errors, *change_errors(storage, report, "migrate")]
    rows = [
        {**row_of(partition, report), "topic_id": partition.topic_id}
        for partition in partitions
    ]
    for row in rows:
        del row["repaired"]
    show_partitions(
        rows, _COLUMNS, errors, there.store.url, dry_run=False, as_json=as_json
    )


def _given(start: Place) -> End:
    """Return where to begin; ``--from`` of this command takes no last records."""
    return None if isinstance(start, LastRecords) else start


def _show_plan(
    plans: Sequence[PartitionPlan], target: RemoteStorageManager, *, as_json: bool
) -> None:
    rows = [
        {
            "partition": str(plan.partition),
            "topic_id": plan.partition.topic_id,
            "segments": plan.segments,
            "present": plan.present,
            "bytes": plan.size,
            "reads": plan.reads,
            "writes": plan.writes,
        }
        for plan in plans
    ]
    failures = [failure.error for plan in plans for failure in plan.failures]
    show_partitions(
        rows, _PLAN, failures, target.store.url, dry_run=True, as_json=as_json
    )
