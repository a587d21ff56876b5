"""``tieredfs cat``: the records of a topic."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

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
from tieredfs.cli.output.records import FORMATS
from tieredfs.cli.output.tables import answer_stream, show_warning
from tieredfs.cli.output.text_encoder import TextEncoder
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
@json_option
@tier_options
@cache_option
def cat(
    options: TierOptions,
    url: str,
    wanted: WantedRecords,
    form: str | None,
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
    shown = wanted.columns or kind.columns or COLUMNS
    moved = Transfer()
    encode = TextEncoder(wanted.encoding)
    with options.tier(url, moved) as tier:
        scan = wanted.scan(tier, shown)
        limit = wanted.limit
        with (
            kind(answer_stream().buffer, project(shown), encode) as writer,
            _progress(moved, wanted.topic, scan),
        ):
            found = scan if limit is None else scan.read_gradually(limit)
            for batch in _limited(_with_key(found, wanted.keys), limit):
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
