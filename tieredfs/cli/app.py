"""The command itself: its verbs, and how each of them ends."""

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Final, NoReturn, TextIO

import click

from tieredfs.cli.cache import cache
from tieredfs.cli.cat import cat
from tieredfs.cli.conformance import conformance
from tieredfs.cli.demo import demo
from tieredfs.cli.exit_codes import EXIT_CODES, INTERRUPTED, OTHER
from tieredfs.cli.expire import expire
from tieredfs.cli.explain import explain
from tieredfs.cli.ls import ls
from tieredfs.cli.migrate import migrate
from tieredfs.cli.output.escapes import escape
from tieredfs.cli.output.streams import OutputError, StandardStream, standard_streams
from tieredfs.cli.output.tables import show_error, show_warning
from tieredfs.cli.plugins import plugins
from tieredfs.cli.pull import pull
from tieredfs.cli.push import push
from tieredfs.cli.report import report
from tieredfs.cli.rm import rm
from tieredfs.cli.scrub import scrub
from tieredfs.cli.verify import verify
from tieredfs.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    TieredFSError,
    TieredFSWarning,
)

__all__ = ["main"]

_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)

_EXIT_SECONDS: Final = 5.0
"""How long the end of the process waits for threads: the command's own have ended."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False
)
@click.version_option(package_name="tieredfs", message="%(prog)s %(version)s")
def cli() -> None:
    """Read what Kafka tiers, from any fsspec URL, with no broker in the way."""


for _command in (
    ls,
    cat,
    explain,
    report,
    push,
    pull,
    verify,
    scrub,
    migrate,
    expire,
    rm,
    cache,
    plugins,
    conformance,
    demo,
):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command and exit.

    Exit codes: 0 done, 2 usage, 3 not found, 4 corrupt, 5 unavailable or deadline,
    6 permission, 1 anything else.

    Args:
        arguments: Those of the command; None for the process's own.
    """
    given = sys.argv[1:] if arguments is None else arguments
    with _warnings_shown(), _logs_dropped(), standard_streams() as (out, err):
        try:
            with _ended_by_signals():
                code = _finish(_run(given), out, err)
        except _EndedError as ended:
            _end_by(ended.number, err)
        except KeyboardInterrupt:
            _interrupted(err)
    if arguments is None:
        _end_despite_threads(code)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run the command, show the error that ended it, and return its exit code."""
    try:
        return _invoke(arguments)
    except click.ClickException as error:
        return _end(InvalidArgumentError(error.format_message()))
    except TieredFSError as error:
        return _end(error)
    except OutputError:
        return 0  # unless the stream has failed
    except OSError as error:
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        is_refused = isinstance(error, PermissionError)
        kind = PermissionDeniedError if is_refused else TieredFSError
        return _end(kind(f"{place}{error.strerror or error}"))
    except SystemError as error:
        # A client in C that a signal interrupts may still return a result.
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def _invoke(arguments: list[str]) -> int:
    """Run the command to its end and return its exit code; let errors through.

    Click's own ``main`` treats a closed pipe as an error.
    """
    try:
        with cli.make_context("tieredfs", list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return 0


def _finish(code: int, out: StandardStream, err: StandardStream) -> int:
    """Flush the buffers; return the exit code, which is not 0 if output is lost."""
    out.finish()
    if out.failure is not None:
        reason = f"standard output is incomplete: {out.failure.strerror}"
        incomplete = _end(TieredFSError(reason))
        code = code or incomplete
    err.finish()
    return code or (OTHER if err.failure is not None else 0)


def _interrupted(err: StandardStream) -> NoReturn:
    """Report it and exit immediately: a store may hang, and so may a reader."""
    feed = "\n" if err.text.isatty() else ""  # the terminal has just shown ^C
    err.write_now(f"{feed}tieredfs: interrupted\n")
    os._exit(INTERRUPTED)


def _end_despite_threads(code: int) -> None:
    """End the process a little later, if threads that a plugin left still keep it."""

    def end() -> None:
        sleep(_EXIT_SECONDS)
        main = threading.main_thread()
        left = [t.name for t in threading.enumerate() if not t.daemon and t is not main]
        said = f"warning: threads are still running: {', '.join(left)}"
        with suppress(OSError):
            os.write(2, f"tieredfs: {escape(said)}\n".encode())
        os._exit(code)

    threading.Thread(target=end, name="tieredfs-exit", daemon=True).start()


class _EndedError(KeyboardInterrupt):
    """A signal of the system asked the command to end, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn the signals that end a process into errors, so that cleanup runs."""

    def end(number: int, _: object) -> NoReturn:
        raise _EndedError(number)

    found = [n for n in _ENDS if signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        found = []
    for number in found:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in found:
            signal.signal(number, signal.SIG_DFL)


def _end_by(number: int, err: StandardStream) -> NoReturn:
    """Report it and end by the signal, as its sender expects."""
    err.write_now(f"tieredfs: interrupted by {signal.Signals(number).name}\n")
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # it is blocked


@contextmanager
def _logs_dropped() -> Iterator[None]:
    """Hide log lines of clients: our own error reports the problem in one line.

    A program that calls the command and has set up logging still gets them.
    """
    shown, logging.lastResort = logging.lastResort, logging.NullHandler()
    try:
        yield
    finally:
        logging.lastResort = shown


def _end(error: TieredFSError) -> int:
    """Show the error that ends the command and return its exit code."""
    show_error(error)
    return EXIT_CODES[error.kind]


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Show our warnings, even if Python is configured to drop them or to raise them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", TieredFSWarning)
        warnings.showwarning = _show_warning
        yield


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show only our own warnings, each in one line."""
    del filename, lineno, file, line
    if issubclass(category, TieredFSWarning):
        show_warning(str(message))
