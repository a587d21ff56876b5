"""``tieredfs cat``: the records of a topic."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import click
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.cli.live_options import LiveOptions, live_options
from tieredfs.cli.options import (
    TierOptions,
    cache_option,
    json_option,
    tier_options,
)
from tieredfs.cli.output.progress import Transfer
from tieredfs.cli.output.records import FORMATS, RecordWriter
from tieredfs.cli.output.tables import answer_stream, show_warning
from tieredfs.cli.output.text_encoder import TextEncoder
from tieredfs.cli.positions import time_hints
from tieredfs.cli.wanted_records import (
    KEY,
    WantedRecords,
    format_option,
    record_options,
)
from tieredfs.format.records.schema import COLUMNS, project
from tieredfs.log.read.scan import Scan

__all__ = ["cat"]


@click.command
@click.argument("url")
@record_options
@format_option
@live_options
@json_option
@tier_options
@cache_option
def cat(
    options: TierOptions,
    url: str,
    wanted: WantedRecords,
    form: str | None,
    live: LiveOptions | None,
    *,
    as_json: bool,
) -> None:
    """Print the records of TOPIC at URL.

    Partitions are printed one after the other, or in turn with --follow, records in
    offset order. --json is the same as --format jsonl. The formats arrow (an IPC
    stream) and parquet are for pipes.
    """
    if as_json and form not in {None, "jsonl"}:
        msg = f"--json is --format jsonl, not {form}"
        raise click.UsageError(msg)
    kind = FORMATS["jsonl" if as_json else form or "text"]
    if kind.binary and answer_stream().isatty():
        msg = f"--format {form} is not for a terminal: redirect it to a file"
        raise click.UsageError(msg)
    if live and form == "parquet":
        msg = "--format parquet is not for --follow: it is whole only at its end"
        raise click.UsageError(msg)
    shown = wanted.columns or kind.columns or COLUMNS
    encode = TextEncoder(wanted.encoding)
    if live:
        _follow(options, url, wanted, live, _Output(kind, shown, encode))
    else:
        _scan(options, url, wanted, _Output(kind, shown, encode))
    if encode.lossy:
        show_warning(
            "not all keys and values are UTF-8; --encoding base64 shows them exactly"
        )


@dataclass(frozen=True, slots=True)
class _Output:
    """How records are shown.

    Attributes:
        kind: The format.
        shown: The columns.
        encode: Turns keys and values into text.
    """

    kind: type[RecordWriter]
    shown: Sequence[str]
    encode: TextEncoder

    def writer(self) -> RecordWriter:
        """Return what writes to standard output."""
        schema = project(tuple(self.shown))
        return self.kind(answer_stream().buffer, schema, self.encode)


def _scan(options: TierOptions, url: str, wanted: WantedRecords, out: _Output) -> None:
    """Write what is in the tier."""
    moved, limit = Transfer(), wanted.limit
    with options.tier(url, moved) as tier:
        scan = wanted.scan(tier, out.shown)
        with out.writer() as writer, _progress(moved, wanted.topic, scan):
            found = scan if limit is None else scan.read_gradually(limit)
            for batch in _limited(_with_key(found, wanted.keys), limit):
                writer.write(batch.select(out.shown))


def _follow(
    options: TierOptions,
    url: str,
    wanted: WantedRecords,
    live: LiveOptions,
    out: _Output,
) -> None:
    """Write what is in the tier, and then what its brokers get, as it comes."""
    with (
        time_hints(wanted.start),
        options.tier(url) as tier,
        wanted.follow(tier, out.shown, live) as follow,
        out.writer() as writer,
    ):
        for batch in _limited(_with_key(follow, wanted.keys), wanted.limit):
            writer.write(batch.select(out.shown))
            answer_stream().flush()


def _progress(
    moved: Transfer, topic: str, scan: Scan
) -> AbstractContextManager[object]:
    """Show a bar unless the records themselves are on a terminal, and show more."""
    if answer_stream().isatty():
        return nullcontext()
    return moved.shown(topic, lambda: scan.plan.size)


def _with_key(
    batches: Iterable[pa.RecordBatch], keys: Sequence[bytes]
) -> Iterator[pa.RecordBatch]:
    """Yield the records that have one of some keys; all if no key is given."""
    if not keys:
        yield from batches
        return
    any_of = pa.array(keys, pa.binary())
    for batch in batches:
        found = batch.filter(pc.is_in(batch[KEY], value_set=any_of))
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
