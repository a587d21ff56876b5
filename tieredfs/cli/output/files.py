"""Answers that are written to a file."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

__all__ = ["check_writable", "write_file"]


def check_writable(path: Path, option: str) -> None:
    """Check that a file can be made, before the work for it begins.

    Args:
        path: The file.
        option: The option that named it.

    Raises:
        click.UsageError: It is a directory, or its directory does not exist.
    """
    if path.is_dir():
        raise click.UsageError(f"{option}: {path} is a directory")
    if not path.parent.is_dir():
        raise click.UsageError(f"{option}: no directory {path.parent}")


def write_file(path: Path, data: bytes) -> None:
    """Write a file; until all of it is written, what was there before stays.

    What is not a regular file, such as a pipe or ``/dev/stdout``, is written to as it
    is. A symbolic link stays one.

    Raises:
        OSError: The file cannot be written.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            _write_through(path, data)
            return
    target = path.resolve()
    with NamedTemporaryFile(
        dir=target.parent, prefix=f".{target.name[:40]}.", delete=False
    ) as staged:
        try:
            staged.write(data)
            staged.flush()
            os.fsync(staged.fileno())
            os.fchmod(staged.fileno(), _mode_of(target))
            Path(staged.name).replace(target)
        except BaseException:
            Path(staged.name).unlink(missing_ok=True)
            raise


def _write_through(path: Path, data: bytes) -> None:
    """Write to what is not a regular file.

    Raises:
        OSError: It cannot be written; the error has its name.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _mode_of(path: Path) -> int:
    """Return the permissions of a file, or those that a new one has."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
