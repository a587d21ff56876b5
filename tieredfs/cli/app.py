"""The command itself: which verbs there are, and how every one of them ends."""

import os
import sys
import warnings
from contextlib import suppress
from typing import NoReturn, TextIO

import click

from tieredfs.cli.cache import cache
from tieredfs.cli.cat import cat
from tieredfs.cli.demo import demo
from tieredfs.cli.exit_codes import EXIT_CODES, INTERRUPTED, OTHER, PERMISSION, USAGE
from tieredfs.cli.ls import ls
from tieredfs.cli.output import show_error, show_line
from tieredfs.cli.plugins import plugins
from tieredfs.cli.pull import pull
from tieredfs.cli.push import push
from tieredfs.cli.verify import verify
from tieredfs.errors import TieredFSError, TieredFSWarning

__all__ = ["main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False
)
@click.version_option(package_name="tieredfs", message="%(prog)s %(version)s")
def cli() -> None:
    """Read what Kafka tiers, from any fsspec URL, with no broker in the way."""


for _command in (ls, cat, push, pull, verify, cache, plugins, demo):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command and exit.

    Exit codes: 0 done, 2 usage, 3 not found, 4 corrupt, 5 unavailable or deadline,
    6 permission, 1 anything else.

    Args:
        arguments: Those of the command; None for the process's own.
    """
    warnings.showwarning = _show_warning
    code = 0
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        _interrupted()
    except click.ClickException as error:
        _end(error.format_message(), USAGE)
    except TieredFSError as error:
        show_error(error)
        sys.exit(EXIT_CODES[error.kind])
    except BrokenPipeError:
        _drop_output()  # whoever read us has had enough, which is no error
    except OSError as error:
        _drop_output()
        place = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
        is_refused = isinstance(error, PermissionError)
        code = PERMISSION if is_refused else OTHER
        _end(f"{error.strerror or error}{place}", code)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run the command to its end and return its exit code; let errors through.

    Click's own ``main`` takes a reader who has had enough for an error.
    """
    code = 0
    try:
        with cli.make_context("tieredfs", list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    sys.stdout.flush()
    return code


def _drop_output() -> None:
    """Let what is still buffered go nowhere; Python would complain while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted() -> NoReturn:
    """Say so and exit at once: threads may still wait for a store that hangs."""
    if sys.stderr.isatty():
        click.echo(err=True)  # the terminal has just shown ^C
    click.echo("tieredfs: interrupted", err=True)
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


def _end(message: str, code: int) -> NoReturn:
    show_line(f"tieredfs: {message}", err=True)
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show our warnings in one line, and nobody else's: they are not the user's."""
    del filename, lineno, file, line
    if issubclass(category, TieredFSWarning):
        show_line(f"tieredfs: warning: {message}", err=True)
