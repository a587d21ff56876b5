"""``tieredfs verify``: check that a tier is whole."""

import click

from tieredfs.cli.exit_codes import CORRUPT, PERMISSION
from tieredfs.cli.options import TierOptions, json_option, tier_options
from tieredfs.cli.output.progress import Transfer, counting
from tieredfs.cli.output.tables import show_json, show_line, show_table
from tieredfs.errors import ErrorKind
from tieredfs.log.partitions import listed_size, select_partitions
from tieredfs.log.verify.verify import Depth, PartitionReport
from tieredfs.log.verify.verify import verify as verify_partitions
from tieredfs.storage import Capability

__all__ = ["verify"]

_COLUMNS = {
    "partition": "PARTITION",
    "topic_id": "TOPIC ID",
    "segments": "SEGMENTS",
    "bytes": "BYTES",
    "superseded": "SUPERSEDED",
    "problems": "PROBLEMS",
}

_HINT = (
    "Where a broker still has the logs, tieredfs push --repair LOGDIR URL replaces "
    "damaged segments and puts missing ones again."
)


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option("--shallow", is_flag=True, help="Only names, sizes, offsets.")
@click.option("--deep", is_flag=True, help="Also every byte of every log.")
@json_option
@tier_options
def verify(
    options: TierOptions,
    url: str,
    topic: str | None,
    *,
    shallow: bool,
    deep: bool,
    as_json: bool,
) -> None:
    """Verify that everything at URL is whole, and report what is not.

    Objects have their stated size, indexes and manifests are what was stored, and the
    offsets have no hole. With --deep every log is what was stored, too, and its indexes
    agree with it. The exit code is 4 when something is wrong, and 6 when the only
    problem is that some objects may not be read. Nothing is changed. SUPERSEDED
    segments are whole, but no record is read from them: others have their offsets, or a
    later state.
    """
    if shallow and deep:
        msg = "--shallow and --deep exclude each other: omit one"
        raise click.UsageError(msg)
    how = Depth.LISTING if shallow else Depth.EVERYTHING if deep else Depth.INDEXES
    moved = Transfer()
    with options.tier(url, moved, is_cached=False) as tier:
        storage = tier.storage
        partitions = select_partitions(storage, None if topic is None else [topic])
        what = f"verify {url}"
        watched = (
            moved.shown(what, lambda: listed_size(storage, partitions))
            if deep
            else counting(what)
        )
        with watched as done:
            reports = verify_partitions(
                storage,
                partitions,
                how,
                progress=lambda segment: done(segment.size or 0),
            )
    rows = [_row(report) for report in reports]
    problems = [problem for report in reports for problem in report.problems]
    is_damaged = any(
        problem.kind is not ErrorKind.PERMISSION_DENIED for problem in problems
    )
    if as_json:
        shown = [
            {
                "partition": str(problem.partition),
                "topic_id": problem.partition.topic_id,
                "kind": problem.kind,
                "detail": problem.detail,
            }
            for problem in problems
        ]
        show_json(
            {
                "url": storage.store.url,
                "depth": how.name.lower(),
                "partitions": rows,
                "problems": shown,
                "superseded": [
                    {
                        "partition": str(one.segment.partition),
                        "topic_id": one.segment.partition.topic_id,
                        "segment": storage.name_of(one.segment),
                        "by": storage.name_of(one.by),
                    }
                    for report in reports
                    for one in report.superseded
                ],
            }
        )
    else:
        show_table(rows, _COLUMNS)
        for problem in problems:
            show_line(f"{problem.kind.replace('_', ' ')}: {problem.detail}")
        if is_damaged and Capability.WRITE in storage.capabilities:
            show_line(_HINT)
    if problems:
        click.get_current_context().exit(CORRUPT if is_damaged else PERMISSION)


def _row(report: PartitionReport) -> dict[str, object]:
    return {
        "partition": str(report.partition),
        "topic_id": report.partition.topic_id,
        "segments": report.segments,
        "bytes": report.size,
        "superseded": len(report.superseded),
        "problems": len(report.problems),
    }
