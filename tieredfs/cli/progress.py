"""A progress bar for long work: on a terminal, and never in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TransferSpeedColumn,
)

from tieredfs.objects import RequestEvent

__all__ = ["BytesMoved", "progress_bar"]


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
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=total)
        with moved.shown(bar):
            yield
