"""Answers that are written to a file."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import click

from tieredfs.objects.redact import redact_url

__all__ = ["check_writable", "write_file"]

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_writable(name: str, option: str) -> None:
    """Check that a file can be made, before the work for it begins.

    Args:
        name: The file, as the user names it.
        option: The option that named it.

    Raises:
        click.UsageError: It is a URL, a directory, or its directory does not exist.
    """
    if not name:
        raise click.UsageError(f"{option}: the name of the file is empty")
    if _URL.match(name):
        raise click.UsageError(f"{option}: {redact_url(name)} is not a local file")
    path = Path(name)
    if path.is_dir():
        raise click.UsageError(f"{option}: {name} is a directory")
    folder = _target_of(path).parent
    if not folder.is_dir():
        link = f"{name} is a link, and there is " if path.is_symlink() else ""
        raise click.UsageError(f"{option}: {link}no directory {folder}")


def write_file(path: Path, data: bytes) -> None:
    """Write a file; until all of it is written, what was there before stays.

    What is not a regular file, such as a pipe or ``/dev/stdout``, is written to as it
    is, as far as its reader wants it. A symbolic link stays one.

    Raises:
        OSError: The file cannot be written; the error has its name.
    """
    try:
        if _is_special(path):
            with suppress(BrokenPipeError):  # the reader has had enough
                path.write_bytes(data)
        else:
            _replace(_target_of(path), data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_special(path: Path) -> bool:
    """Return whether there is something other than a regular file."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _target_of(path: Path) -> Path:
    """Return the file that a symbolic link leads to; any other path as it is."""
    return path.resolve() if path.is_symlink() else path


def _replace(path: Path, data: bytes) -> None:
    """Write a file beside another one, and put it in its place when it is complete."""
    with NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name[:40]}.", delete=False
    ) as staged:
        try:
            staged.write(data)
            staged.flush()
            os.fsync(staged.fileno())
            os.fchmod(staged.fileno(), _mode_of(path))
            Path(staged.name).replace(path)
        except BaseException:
            Path(staged.name).unlink(missing_ok=True)
            raise


def _mode_of(path: Path) -> int:
    """Return the permissions of a file, or those that a new one has."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
