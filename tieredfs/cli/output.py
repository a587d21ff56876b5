"""What a command answers: a table for people, JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.table import Table

__all__ = ["show_json", "show_table", "show_time"]

_MILLI = 1000
_WIDE = 10_000


def show_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False))


def show_table(
    rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> None:
    """Print rows under headings; numbers stand to the right.

    Args:
        rows: Each a mapping of column to value.
        columns: Column to heading, in the order to show them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, heading in columns.items():
        number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    # As wide as it needs to be: a terminal wraps what does not fit, rich would cut it.
    console = Console(highlight=False, width=_WIDE)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def show_time(milliseconds: int | None) -> str:
    """Return a time as ISO text in UTC; what no calendar holds stays a number."""
    if milliseconds is None or milliseconds == -1:
        return "-"
    try:
        time = datetime.fromtimestamp(milliseconds // _MILLI, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    text = time.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{milliseconds % _MILLI:03d}Z"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
