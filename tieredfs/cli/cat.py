"""``tieredfs cat``: the records of a topic."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import click
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.cli.options import (
    TierOptions,
    cache_option,
    json_option,
    tier_options,
)
from tieredfs.cli.output.progress import Transfer
from tieredfs.cli.output.records import DECODINGS, ENCODINGS, FORMATS, TextEncoder
from tieredfs.cli.output.tables import answer_stream, show_warning
from tieredfs.cli.positions import (
    End,
    LastRecords,
    Place,
    PositionType,
    check_order,
    range_of,
)
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.records.schema import COLUMNS, project
from tieredfs.log.read.scan import Scan

__all__ = ["cat"]


_KEY = "key"
_JSON_NAMES = {"timestamp_type": "timestampType"}


class ColumnNames(click.ParamType[tuple[str, ...]]):
    """Names of columns with commas between them; jsonl's own names do as well."""

    name = "columns"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """Reject a name that no column has."""
        given = [name.strip() for name in str(value).split(",")]
        names = tuple(_JSON_NAMES.get(name, name) for name in given)
        try:
            project(names)
        except InvalidArgumentError as error:
            also = ", ".join(f"{ours} is {name}" for ours, name in _JSON_NAMES.items())
            self.fail(f"{error}; {also}", param, ctx)
        return names


@click.command
@click.argument("url")
@click.argument("topic")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Only this partition; may be given several times.",
)
@click.option(
    "--from",
    "start",
    type=PositionType({"earliest": None, "latest": LastRecords(0)}, takes_last=True),
    default=None,
    metavar="OFFSET|-N|TIME|earliest|latest",
    help="Where to begin: an offset, -5 for the last five records of each partition, "
    "or a time such as 2026-11-01T00:00:00Z or @1793491200000 (milliseconds). A time "
    "is not a filter: it stands for the first offset whose record is as late, and "
    "records at later offsets may be older.",
)
@click.option(
    "--to",
    "end",
    type=PositionType({"latest": None}),
    default=None,
    metavar="OFFSET|TIME|latest",
    help="Where to end; the record there is not shown. A time is looked up as by "
    "--from.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Only records with this key, in --encoding; may be given several times.",
)
@click.option(
    "--columns",
    type=ColumnNames(),
    metavar="NAMES",
    help="Only these columns, in the order given, with commas between them: "
    f"{', '.join(COLUMNS)}.",
)
@click.option(
    "--on-gap",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Whether offsets that no segment holds are an error or left out.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N.")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), help="Default: text."
)
@click.option(
    "--encoding",
    type=click.Choice(list(ENCODINGS)),
    default="utf8",
    show_default=True,
    help="How keys and values become text, and how --key is given.",
)
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@json_option
@tier_options
@cache_option
def cat(  # noqa: PLR0913, PLR0917 - one parameter for each option
    options: TierOptions,
    url: str,
    topic: str,
    partitions: tuple[int, ...],
    start: Place,
    end: End,
    keys: tuple[str, ...],
    columns: tuple[str, ...] | None,
    on_gap: Literal["raise", "skip"],
    limit: int | None,
    form: str | None,
    encoding: str,
    topic_id: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the records of TOPIC at URL.

    Partitions are printed one after the other, records in offset order. --json is the
    same as --format jsonl. The formats arrow (an IPC stream) and parquet are for pipes.
    """
    if as_json and form not in {None, "jsonl"}:
        msg = f"--json is --format jsonl, not {form}"
        raise click.UsageError(msg)
    kind = FORMATS["jsonl" if as_json else form or "text"]
    if kind.binary and answer_stream().isatty():
        msg = f"--format {form} is not for a terminal: redirect it to a file"
        raise click.UsageError(msg)
    check_order(start, end)
    wanted = [_decoded(key, encoding) for key in keys]
    shown = columns or kind.columns or COLUMNS
    moved = Transfer()
    encode = TextEncoder(encoding)
    with options.tier(url, moved) as tier:
        opened = tier.topic(topic, topic_id=topic_id)
        numbers = partitions or opened.partitions
        first, stop = range_of(opened, numbers, start, end, on_gap)
        scan = opened.scan(
            numbers,
            first,
            stop,
            columns=shown if not wanted or _KEY in shown else (*shown, _KEY),
            on_gap=on_gap,
        )
        with (
            kind(answer_stream().buffer, project(shown), encode) as writer,
            _progress(moved, topic, scan),
        ):
            found = scan if limit is None else scan.read_gradually(limit)
            for batch in _limited(_with_key(found, wanted), limit):
                writer.write(batch.select(shown))
    if encode.lossy:
        show_warning(
            "not all keys and values are UTF-8; --encoding base64 shows them exactly"
        )


def _progress(
    moved: Transfer, topic: str, scan: Scan
) -> AbstractContextManager[object]:
    """Show a bar unless the records themselves are on a terminal, and show more."""
    if answer_stream().isatty():
        return nullcontext()
    return moved.shown(topic, lambda: scan.plan.size)


def _decoded(key: str, encoding: str) -> bytes:
    try:
        return DECODINGS[encoding](key)
    except ValueError as error:
        msg = f"--key {key!r} is not {encoding}: {error}"
        raise click.UsageError(msg) from error


def _with_key(
    batches: Iterable[pa.RecordBatch], keys: Sequence[bytes]
) -> Iterator[pa.RecordBatch]:
    """Yield the records that have one of some keys; all if no key is given."""
    if not keys:
        yield from batches
        return
    any_of = pa.array(keys, pa.binary())
    for batch in batches:
        found = batch.filter(pc.is_in(batch[_KEY], value_set=any_of))
        if found.num_rows:
            yield found


def _limited(
    batches: Iterable[pa.RecordBatch], limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches up to ``limit`` records."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, min(left, batch.num_rows))
        left -= min(left, batch.num_rows)
        if not left:
            return
