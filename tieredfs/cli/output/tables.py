"""The output of a command: a table for people, JSON for programs."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tieredfs.cli.output.escapes import escape, to_json
from tieredfs.cli.output.streams import OutputError
from tieredfs.errors import TieredFSError

__all__ = [
    "answer_stream",
    "show_bytes",
    "show_error",
    "show_json",
    "show_line",
    "show_table",
    "show_text",
    "show_time",
    "show_warning",
    "without_prints",
]

_answers: Final[ContextVar[TextIO | None]] = ContextVar("answers", default=None)
"""Where answers go while ``sys.stdout`` is for others to print to."""

_MILLI = 1000
_WIDE, _HIGH = 10_000, 25


def show_line(text: str, *, err: bool = False) -> None:
    """Print a text in one line; it may hold any name that a file or topic can have."""
    lines = (line.strip() for line in text.splitlines())
    _print(escape(" ".join(line for line in lines if line)), err=err)


def show_text(text: str = "") -> None:
    """Print a text of our own unchanged."""
    _print(text)


def show_error(error: TieredFSError) -> None:
    """Print an error on standard error: ``tieredfs: kind: message``."""
    kind = error.kind.value.replace("_", " ")
    message = str(error)
    said = message if message.startswith(f"{kind}: ") else f"{kind}: {message}"
    show_line(f"tieredfs: {said}", err=True)


def show_warning(message: str) -> None:
    """Print a warning on standard error: ``tieredfs: warning: message``."""
    show_line(f"tieredfs: warning: {message}", err=True)


def show_json(value: object) -> None:
    """Print one JSON document, in UTF-8 whatever the locale is."""
    show_bytes(to_json(value).encode())


def show_bytes(data: bytes) -> None:
    """Print text in UTF-8, whatever the locale is, and the end of a line."""
    _print(data if hasattr(answer_stream(), "buffer") else data.decode())


def show_table(
    rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> None:
    """Print rows under headings; numbers are right-aligned.

    Args:
        rows: Each a mapping of column to value; None is shown as a dash.
        columns: Column to heading, in the order to show them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, heading in columns.items():
        number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        # Text, for rich would take a name in a str for its markup.
        table.add_row(*(Text(escape(_cell(row[name]))) for name in columns))
    # As wide as it needs to be: a terminal wraps what does not fit, rich would cut it.
    # (Where TERM is dumb it takes no width without a height.)
    console = Console(highlight=False, width=_WIDE, height=_HIGH, file=answer_stream())
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        _print(line.rstrip())


@contextmanager
def without_prints() -> Iterator[None]:
    """Redirect prints of plugins and clients to standard error, in every thread.

    ``answer_stream`` is the original standard output.
    """
    if _answers.get() is not None:
        yield
        return
    before = _answers.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.reset(before)


def answer_stream() -> TextIO:
    """Return the stream that an answer is written to."""
    return _answers.get() or sys.stdout


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


def _print(text: str | bytes, *, err: bool = False) -> None:
    """Print an answer; a write error does not end the command.

    The work is done and its outcome counts, so the stream only remembers the error.
    """
    with suppress(OutputError):
        click.echo(text, file=sys.stderr if err else answer_stream())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
