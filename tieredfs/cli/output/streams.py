"""Standard output and standard error: every byte is written, or there is an error.

Python's own streams do not promise that. Where ``PYTHONUNBUFFERED`` is set they are raw
files, whose ``write`` may take a part of the bytes; on a non-blocking pipe they fail
when the reader is slower than the command; and an error of the flush at exit is printed
as an ignored exception.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["OutputError", "StandardStream", "standard_streams"]


_STDERR: Final = 2


class OutputError(OSError):
    """Standard output cannot be written; the stream has the reason."""


class StandardStream:
    """One of the two streams that a command writes to.

    Attributes:
        text: What takes its place in ``sys`` while the command runs. Its ``buffer``
            takes every byte that it is given, or raises.
    """

    def __init__(self, stream: TextIO, *, is_answer: bool) -> None:
        """Write to the descriptor of ``stream``, in its encoding.

        What the encoding does not have is written as Python escapes it.

        Args:
            stream: Python's own; one without a descriptor belongs to a program that has
                called the command, and is used as it is.
            is_answer: Whether a failure ends the command with an OutputError; else
                the command goes on, and the failure is only remembered.
        """
        self._raw: _WholeFile | None = None
        self.text = stream
        if not isinstance(stream, TextIOWrapper):
            return
        with suppress(OSError, ValueError):
            self._raw = _WholeFile(stream.fileno(), is_answer=is_answer)
        if self._raw is not None:
            stream.flush()  # what the program has written comes first
            self.text = TextIOWrapper(
                BufferedWriter(self._raw),
                encoding=stream.encoding,
                errors="backslashreplace",
                newline="\n",
                line_buffering=stream.line_buffering,
            )

    @property
    def failure(self) -> OSError | None:
        """Why not all was written; None if it was, or if the reader has gone."""
        failure = None if self._raw is None else self._raw.failure
        return None if isinstance(failure, BrokenPipeError) else failure

    def finish(self) -> None:
        """Write what is still buffered; afterwards ``failure`` is final."""
        with suppress(OutputError):
            self.text.flush()
        if self._raw is not None:
            self._raw.check_close()

    def write_now(self, line: str) -> None:
        """Write a line past the buffer if that does not block; else drop it."""
        if self._raw is not None:
            self._raw.write_now(line.encode())
        else:
            self.text.write(line)


@contextmanager
def standard_streams() -> Iterator[tuple[StandardStream, StandardStream]]:
    """Replace Python's standard streams by ones that write every byte.

    Yields:
        Standard output and standard error. What is written to a standard output that
        was closed before the command started is an error; messages for a closed
        standard error are dropped.
    """
    before = sys.stdout, sys.stderr
    with (
        _closed_descriptors_taken(),
        # Python has None in the place of a stream that is closed.
        Path(os.devnull).open(encoding="utf-8") as unwritable,
        Path(os.devnull).open("w", encoding="utf-8") as dropped,
    ):
        out = StandardStream(sys.stdout or unwritable, is_answer=True)
        err = StandardStream(sys.stderr or dropped, is_answer=False)
        sys.stdout, sys.stderr = out.text, err.text
        try:
            yield out, err
        finally:
            sys.stdout, sys.stderr = before
            out.finish()
            err.finish()


@contextmanager
def _closed_descriptors_taken() -> Iterator[None]:
    """Keep a file from getting the number of a standard stream that is closed.

    What a library writes to standard error by its number would else end up in it.
    """
    taken: list[int] = []
    try:
        while not taken or taken[-1] <= _STDERR:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


class _WholeFile(RawIOBase):
    """A descriptor that is waited for where it is full.

    After a failure nothing more is written: what came after a gap would look whole.
    The descriptor stays open.

    Attributes:
        failure: Why it cannot be written any more; None as long as it can.
    """

    def __init__(self, descriptor: int, *, is_answer: bool) -> None:
        self._descriptor = descriptor
        self._is_answer = is_answer
        self._is_written = False
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the bytes, at least one; the buffer above repeats the rest."""
        size = memoryview(data).nbytes
        if self.failure is not None:
            return size
        self._is_written = True
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                _wait(self._descriptor)
            except OSError as error:
                self.failure = error
                if self._is_answer:
                    raise OutputError(*error.args) from error
                return size

    def check_close(self) -> None:
        """Detect errors that only closing reports, such as a full disk behind NFS."""
        if self._is_written and self.failure is None:
            try:
                os.close(os.dup(self._descriptor))
            except OSError as error:
                self.failure = error

    def write_now(self, data: bytes) -> None:
        with suppress(OSError):
            if _is_ready(self._descriptor):
                os.write(self._descriptor, data)


def _wait(descriptor: int) -> None:
    """Sleep until a descriptor takes more, or never will."""
    _is_ready(descriptor, None)


def _is_ready(descriptor: int, timeout: int | None = 0) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(timeout))
