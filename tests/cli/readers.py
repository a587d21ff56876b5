"""Readers that are slow, stop or go away, and disks that are full."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import Final

from cli.commands import Outcome, ours
from servers.process import executable

__all__ = [
    "FULL_AFTER",
    "MAIN",
    "Line",
    "read_when_refused",
    "small_pipe",
    "small_terminal",
    "start_program",
    "start_without",
]

_PAGE: Final = 4096
_SECONDS: Final = 60

FULL_AFTER: Final = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
"""
"""Of a program: no file grows beyond so many bytes, as on a disk that is full."""

_SAY_WHEN_REFUSED: Final = """
import os
write = os.write
def said(descriptor, data):
    try:
        return write(descriptor, data)
    except BlockingIOError:
        write({0}, b"x")
        raise
os.write = said
"""
MAIN: Final = """
import sys
from tieredfs.cli import main
main(sys.argv[1:])
"""
"""Of a program: the command, with the program's arguments."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a command writes to, and where it is read; little lies between them."""

    reader: FileIO
    writer: FileIO

    def is_full(self) -> bool:
        """Return whether a write would have to wait."""
        return not select.select([], [self.writer], [], 0)[1]

    def read(self) -> bytes:
        """Read a page, or what there is; nothing once the command has ended."""
        with suppress(OSError):  # the end of a terminal
            return self.reader.read(_PAGE)
        return b""

    def read_all(self) -> bytes:
        """Read what is written until the command ends."""
        self.writer.close()
        return b"".join(iter(self.read, b""))

    def read_what_is_there(self) -> Iterator[bytes]:
        """Yield pages without waiting for more."""
        while select.select([self.reader], [], [], 0)[0]:
            page = self.read()
            if not page:
                return
            yield page


@contextmanager
def small_pipe(*, blocking: bool = True, is_full: bool = False) -> Iterator[Line]:
    """Make a pipe that holds one page.

    Args:
        blocking: Whether a write waits for room.
        is_full: Whether a page of zeros is in it already.
    """
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PAGE)
    with FileIO(reader) as source, FileIO(writer, "wb") as target:
        if is_full:
            target.write(bytes(_PAGE))
        os.set_blocking(writer, blocking)
        yield Line(source, target)


@contextmanager
def small_terminal(*, blocking: bool = True) -> Iterator[Line]:
    """Make a terminal that shows bytes as they are."""
    reader, writer = pty.openpty()
    with FileIO(reader) as source, FileIO(writer, "wb") as target:
        tty.setraw(writer)
        os.set_blocking(writer, blocking)
        yield Line(source, target)


def start_program(
    before: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    kept: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start the command in a process of which something is different.

    Args:
        before: What the process does first, in Python.
        arguments: Of the command.
        env: Beside our own environment.
        stdout: A descriptor; a pipe of its own when left out.
        stderr: As above.
        kept: Descriptors that it inherits.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", before + MAIN, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=ours(env),
        pass_fds=kept,
    )


def start_without(
    descriptor: int, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the installed script with a descriptor closed; the others are pipes."""
    shell = f'exec "$0" "$@" {descriptor}>&-'
    return subprocess.Popen(  # noqa: S603 - our own script
        ["/bin/sh", "-c", shell, executable("tieredfs"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ours(env),
    )


def read_when_refused(
    line: Line,
    *arguments: str,
    stream: str = "stdout",
    env: Mapping[str, str] | None = None,
) -> tuple[Outcome, bytes]:
    """Run a command whose reader reads only when a write has been refused.

    Args:
        line: Where one of its streams goes; writing to it does not block.
        arguments: Of the command.
        stream: Which of the streams.
        env: Beside our own environment.

    Returns:
        The outcome as the other stream saw it, and what was read from the line.

    Raises:
        AssertionError: The command tried again before there was room.
    """
    heard, said = os.pipe()
    with FileIO(heard) as refusals, FileIO(said, "wb") as says:
        streams = {stream: line.writer.fileno()}
        before = _SAY_WHEN_REFUSED.format(said)
        process = start_program(before, *arguments, env=env, kept=(said,), **streams)
        says.close()
        line.writer.close()
        try:
            seen = bytearray()
            tries, pages = 0, 0
            while refused := refusals.read(_PAGE):
                tries += len(refused)
                assert tries <= pages + 1, "it did not wait for room"
                for page in line.read_what_is_there():
                    seen += page
                    pages += 1
            seen += line.read_all()
            out, err = process.communicate(timeout=_SECONDS)
        finally:
            process.kill()
    lines = (err or b"").decode().splitlines()
    return Outcome(process.returncode, out or b"", lines), bytes(seen)
