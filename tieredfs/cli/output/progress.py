"""A progress bar for long work: on a terminal, and never in a pipe."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column

from tieredfs.cli.output.escapes import escape
from tieredfs.objects import RequestEvent, RequestObserver

__all__ = ["Transfer", "counting", "quiet_option", "waiting"]

_QUIET: Final = "tieredfs.quiet"
_WRITES: Final = frozenset({"put", "put_file", "put_part"})
_LABEL_WIDTH: Final = 32


def _be_quiet(context: click.Context, _: click.Parameter, value: object) -> None:
    context.meta[_QUIET] = bool(value)


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Show no progress on a terminal either.",
)


class Transfer:
    """How many bytes of log have been moved, and of how many; an observer of stores.

    Bytes count as their requests end, so that one large segment is seen to move. Other
    data, such as indexes, and the savings of compression are corrected for when a
    segment is finished; until then the sum is never past the total. Safe to share
    between threads.
    """

    def __init__(self, *, passes: int = 1) -> None:
        """Count nothing yet.

        Args:
            passes: How often each byte of a log is counted: 2 where it is read, and
                then written elsewhere.
        """
        self._lock = threading.Lock()
        self._passes = passes
        self._moved = 0
        self._finished = 0
        self._total: int | None = None
        self._show: Callable[[int, int | None], object] | None = None

    @property
    def completed(self) -> int:
        """Bytes of log that have been moved."""
        reached = max(self._finished, self._moved // self._passes)
        return reached if self._total is None else min(reached, self._total)

    @property
    def total(self) -> int | None:
        """Bytes of log that there are to move; None when that is not known."""
        return self._total

    def on_request(self, event: RequestEvent) -> None:
        """Count the bytes of ``event``."""
        self._count(moved=event.size)

    def on_piece(self, piece: memoryview) -> None:
        """Count a piece of a log."""
        self._count(moved=len(piece))

    @property
    def writes(self) -> RequestObserver:
        """An observer that counts what is written here, and nothing that is read."""
        return _Writes(self)

    def expect(self, total: int | None) -> None:
        """Set the bytes of log that there are to move."""
        with self._lock:
            self._total = total

    def finish(self, size: int) -> None:
        """Count a segment whose log of ``size`` bytes has been moved."""
        self._count(finished=size)

    def leave_out(self, size: int) -> None:
        """Remove a segment from the total that was read, but not moved further."""
        self._count(left_out=size)

    def _count(self, *, moved: int = 0, finished: int = 0, left_out: int = 0) -> None:
        with self._lock:
            if self._total is not None:
                self._total = max(0, self._total - left_out)
            self._finished += finished
            least = self._finished * self._passes
            self._moved = max(self._moved + moved - left_out, least)
            if self._show is not None:
                self._show(self.completed, self._total)

    @contextmanager
    def shown(
        self, what: str, total: Callable[[], int | None]
    ) -> Iterator[Callable[[int], object]]:
        """Show a bar from here on.

        Args:
            what: What is being done.
            total: Finds out the bytes of log that there are to move; it is not called
                where no bar is shown.

        Yields:
            ``finish``.
        """
        if not _is_shown():
            yield self.finish
            return
        self.expect(total())
        if self._total == 0:  # a bar of nothing
            yield self.finish
            return
        columns = (
            _label(),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with _on_stderr(*columns) as bar:
            task = bar.add_task(escape(what), total=self._total)
            self._show = lambda completed, total: bar.update(
                task, completed=completed, total=total, visible=total != 0
            )
            try:
                yield self.finish
            finally:
                self._show = None


@dataclass(frozen=True, slots=True)
class _Writes:
    transfer: Transfer

    def on_request(self, event: RequestEvent) -> None:
        if event.verb in _WRITES:
            self.transfer.on_request(event)


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Show how many are done.

    Args:
        what: What is being done.
        total: How many there are; None if that is not known.

    Yields:
        What to call, from any thread, with the size of one more that is done.
    """
    if not _is_shown():
        yield lambda _: None
        return
    with _on_stderr(SpinnerColumn(), _label(), MofNCompleteColumn()) as bar:
        task = bar.add_task(escape(what), total=total)
        yield lambda _: bar.advance(task)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that work of unknown duration is in progress."""
    if not _is_shown():
        yield
        return
    with _on_stderr(SpinnerColumn(), _label()) as bar:
        bar.add_task(escape(what), total=None)
        yield


def _is_shown() -> bool:
    """Return whether a bar is shown: on a terminal, unless the user disabled it."""
    context = click.get_current_context(silent=True)
    is_quiet = context is not None and context.meta.get(_QUIET, False)
    return sys.stderr.isatty() and not is_quiet


def _on_stderr(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _label() -> ProgressColumn:
    """Show what is being done; rich would take a name for a template with markup.

    A long name is cut, so that the progress stays visible.
    """
    column = Column(no_wrap=True, overflow="ellipsis", max_width=_LABEL_WIDTH)
    return TextColumn("{task.description}", markup=False, table_column=column)
