"""The command itself: which verbs there are, and how every one of them ends."""

import os
import sys
import warnings
from typing import Final, NoReturn, TextIO

import click

from tieredfs.cli.cat import cat
from tieredfs.cli.demo import demo
from tieredfs.cli.ls import ls
from tieredfs.cli.plugins import plugins
from tieredfs.errors import ErrorKind, TieredFSError, TieredFSWarning

__all__ = ["EXIT_CODES", "main"]

USAGE, NOT_FOUND, CORRUPT, UNAVAILABLE, PERMISSION = 2, 3, 4, 5, 6
_INTERRUPTED = 130

EXIT_CODES: Final[dict[ErrorKind, int]] = {
    ErrorKind.ERROR: 1,
    ErrorKind.NOT_FOUND: NOT_FOUND,
    ErrorKind.OFFSET_OUT_OF_RANGE: NOT_FOUND,
    ErrorKind.ALREADY_EXISTS: 1,
    ErrorKind.PERMISSION_DENIED: PERMISSION,
    ErrorKind.INVALID_ARGUMENT: USAGE,
    ErrorKind.CORRUPT_DATA: CORRUPT,
    ErrorKind.CORRUPT_INDEX: CORRUPT,
    ErrorKind.CORRUPT_BATCH: CORRUPT,
    ErrorKind.CORRUPT_OBJECT: CORRUPT,
    ErrorKind.UNSUPPORTED_FORMAT: CORRUPT,
    ErrorKind.UNSUPPORTED_OPERATION: USAGE,
    ErrorKind.STORAGE_UNAVAILABLE: UNAVAILABLE,
    ErrorKind.DEADLINE_EXCEEDED: UNAVAILABLE,
    ErrorKind.CLOSED: 1,
    ErrorKind.INVALID_TRANSITION: 1,
    ErrorKind.PLUGIN: USAGE,
    ErrorKind.UNKNOWN_PLUGIN: USAGE,
    ErrorKind.PLUGIN_NOT_INSTALLED: USAGE,
}
"""The exit code of each kind of error; stable."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tieredfs", message="%(prog)s %(version)s")
def cli() -> None:
    """Read what Kafka tiers, from any fsspec URL, with no broker in the way."""


for _command in (ls, cat, plugins, demo):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command and exit.

    Exit codes: 0 done, 2 usage, 3 not found, 4 corrupt, 5 unavailable or deadline,
    6 permission, 1 anything else.

    Args:
        arguments: Those of the command; None for the process's own.
    """
    warnings.showwarning = _show_warning
    try:
        cli.main(arguments, prog_name="tieredfs", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        _end("interrupted", _INTERRUPTED)
    except KeyboardInterrupt:
        _end("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        _end(error.format_message(), USAGE)
    except BrokenPipeError:
        # Whoever read us has had enough; Python would complain while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except TieredFSError as error:
        _end(_said(error), EXIT_CODES[error.kind])
    sys.exit(0)


def _said(error: TieredFSError) -> str:
    """Return the message of an error, led by what kind of error it is."""
    kind = error.kind.value.replace("_", " ")
    message = str(error)
    return message if message.startswith(kind) else f"{kind}: {message}"


def _end(message: str, code: int) -> NoReturn:
    click.echo(f"tieredfs: {' '.join(message.split())}", err=True)
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
        click.echo(f"tieredfs: warning: {message}", err=True)
