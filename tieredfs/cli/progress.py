"""A progress bar for long work: on a terminal, and never in a pipe."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TransferSpeedColumn,
)

from tieredfs.cli.escapes import escape
from tieredfs.objects import RequestEvent

__all__ = ["BytesMoved", "bytes_done", "counted", "progress_bar", "waiting"]

_T = TypeVar("_T")


class BytesMoved:
    """Tell a progress bar of every byte that a store moves."""

    def __init__(self) -> None:
        """Count for nobody yet."""
        self._bar: Progress | None = None

    def on_request(self, event: RequestEvent) -> None:
        """Advance the bar by the bytes of ``event``."""
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.advance(task, event.size)

    @contextmanager
    def shown(self, bar: Progress) -> Iterator[None]:
        """Advance ``bar`` from here on."""
        self._bar = bar
        try:
            yield
        finally:
            self._bar = None


@contextmanager
def progress_bar(moved: BytesMoved, what: str, total: int) -> Iterator[None]:
    """Show how much of ``total`` bytes has been moved.

    Nothing is shown when standard error is no terminal, or standard output is one:
    then the records themselves show it.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield
        return
    columns = (_label(), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with _on_stderr(*columns) as bar:
        bar.add_task(escape(what), total=total)
        with moved.shown(bar):
            yield


@contextmanager
def bytes_done(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Show how much of ``total`` bytes is done, as the function given is told it.

    Args:
        what: What is being done.
        total: Bytes; None when that cannot be foreseen.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (_label(), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with _on_stderr(*columns) as bar:
        task = bar.add_task(escape(what), total=total)
        yield lambda size: bar.advance(task, size)


def counted(what: str, items: Sequence[_T]) -> Iterator[_T]:
    """Yield the items and show how many are done."""
    if not sys.stderr.isatty():
        yield from items
        return
    with _on_stderr(_label(), BarColumn(), MofNCompleteColumn()) as bar:
        yield from bar.track(items, description=escape(what))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something goes on whose end cannot be foreseen."""
    if not sys.stderr.isatty():
        yield
        return
    with _on_stderr(SpinnerColumn(), _label()) as bar:
        bar.add_task(escape(what), total=None)
        yield


def _on_stderr(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _label() -> ProgressColumn:
    """Show what is being done; rich would take a name for a template with markup."""
    return TextColumn("{task.description}", markup=False)
