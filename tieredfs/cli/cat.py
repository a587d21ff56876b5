"""``tieredfs cat``: the records of a topic."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import click
import pyarrow as pa

from tieredfs.cli.options import (
    TierOptions,
    cache_option,
    json_option,
    tier_options,
)
from tieredfs.cli.progress import Transfer
from tieredfs.cli.records import ENCODINGS, FORMATS, TextEncoder
from tieredfs.log.scan import Scan
from tieredfs.tier import Position

__all__ = ["cat"]


_DIGITS = 19  # of the largest offset; what has more is none


class PositionType(click.ParamType[Position]):
    """An offset, a time as ISO text, or the word for the log's own end."""

    def __init__(self, word: str) -> None:
        """Take the word, such as ``earliest``."""
        self.word = word
        self.name = f"offset|time|{word}"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Position:
        """Tell an offset, which is a bare integer, from a time."""
        text = str(value)
        if text == self.word:
            return None
        if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
            return int(text)
        if not text[:1].isdecimal():
            self.fail(f"{text!r} is no offset, no time, not {self.word!r}", param, ctx)
        return text


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
    type=PositionType("earliest"),
    default=None,
    metavar="OFFSET|TIME|earliest",
    help="Where to begin: an offset, or a time such as 2026-11-01T00:00:00Z.",
)
@click.option(
    "--to",
    "end",
    type=PositionType("latest"),
    default=None,
    metavar="OFFSET|TIME|latest",
    help="Where to end; the record there is not shown.",
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
    help="How keys and values become text.",
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
    start: Position,
    end: Position,
    limit: int | None,
    form: str | None,
    encoding: str,
    topic_id: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the records of TOPIC at URL.

    Partitions come one after the other, records in offset order. --json is the same as
    --format jsonl. The formats arrow (an IPC stream) and parquet are for pipes.
    """
    if as_json and form not in {None, "jsonl"}:
        msg = f"--json is --format jsonl, not {form}"
        raise click.UsageError(msg)
    kind = FORMATS["jsonl" if as_json else form or "text"]
    if kind.binary and sys.stdout.isatty():
        msg = f"--format {form} is not for a terminal: redirect it to a file"
        raise click.UsageError(msg)
    moved = Transfer()
    encode = TextEncoder(encoding)
    with options.tier(url, moved) as tier:
        opened = tier.topic(topic, topic_id=topic_id)
        scan = opened.scan(partitions or None, start, end)
        with (
            kind(sys.stdout.buffer, scan.schema, encode) as writer,
            _progress(moved, topic, scan),
        ):
            for batch in _limited(scan, limit):
                writer.write(batch)
    if encode.lossy:
        click.echo(
            "tieredfs: warning: not all keys and values are UTF-8; "
            "--encoding base64 shows them exactly",
            err=True,
        )


def _progress(
    moved: Transfer, topic: str, scan: Scan
) -> AbstractContextManager[object]:
    """Show a bar unless the records themselves are on a terminal, and show more."""
    if sys.stdout.isatty():
        return nullcontext()
    return moved.shown(topic, lambda: scan.plan.size)


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
