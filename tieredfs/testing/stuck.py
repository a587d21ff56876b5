"""Calls that do not end or raise: they are given up, and where they stand is said.

A thread cannot be stopped in Python. So a call that may hang is made on a daemon
thread, which the end of the process does not wait for.
"""

import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

import tieredfs
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import result_of

__all__ = [
    "StuckCallError",
    "call_raised",
    "call_within",
    "is_ctrl_c",
    "where_threads_stand",
]

_T = TypeVar("_T")

_MAX_PLACES: Final = 3


class StuckCallError(AssertionError):
    """A call was given up; its threads go on, with whatever locks they hold."""


def call_within(seconds: float, call: Callable[[], _T]) -> _T:
    """Make a call on a thread of its own, and return its result.

    Args:
        seconds: After so long it is given up.
        call: What is called. It need not end.

    Raises:
        StuckCallError: It did not end in time.
        AssertionError: It raised KeyboardInterrupt, which only Ctrl-C may do.
        BaseException: What else it raised.
    """

    def make() -> _T:
        try:
            return call()
        except KeyboardInterrupt as error:
            raise AssertionError(f"A call raised {error!r}") from error

    others = {thread.ident for thread in threading.enumerate()}
    future = DaemonExecutor(1).submit(make)
    try:
        return result_of(future, seconds)
    except TimeoutError:
        if future.done():  # it is the call's own
            return future.result()
        places = where_threads_stand(others)
        raise StuckCallError(
            f"A call did not end within {seconds:g} s: it is at {' and '.join(places)}."
        ) from None


def call_raised(error: BaseException) -> str:
    """Return that a call raised an error, and at which line if it is a plugin's."""
    stack = [*traceback.walk_tb(error.__traceback__)]
    place = next(_of_plugin(stack[::-1]), "")
    return f"A call raised {error!r}" + (f" at {place}" if place else "")


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an error that was just raised is the user's, not a plugin's."""
    is_on_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_on_main


def where_threads_stand(others: Collection[int | None]) -> list[str]:
    """Return which lines threads are at: those of a plugin, where there are any.

    Args:
        others: Threads that are not asked about, by their identifiers.
    """
    frames = sys._current_frames()  # noqa: SLF001 - documented; there is no other way
    stacks = [
        [*traceback.walk_stack(frame)]
        for thread, frame in frames.items()
        if thread not in others and thread != threading.get_ident()
    ]
    theirs = [place for stack in stacks if (place := next(_of_plugin(stack), None))]
    places = theirs or [_named(*stack[0]) for stack in stacks if stack]
    return [*dict.fromkeys(places)][:_MAX_PLACES]


_TIEREDFS: Final = str(Path(tieredfs.__file__).parent)
_PYTHON: Final = sysconfig.get_path("stdlib")
_PACKAGES: Final = sysconfig.get_path("purelib")


def _of_plugin(stack: Sequence[tuple[FrameType, int]]) -> Iterator[str]:
    """Yield the lines that are a plugin's or a client's, the innermost first."""
    for frame, line in stack:
        if _is_of_plugin(frame.f_code.co_filename):
            yield _named(frame, line)


def _is_of_plugin(file: str) -> bool:
    if file.startswith((_TIEREDFS, "<")) or f"{os.sep}hypothesis{os.sep}" in file:
        return False
    return file.startswith(_PACKAGES) or not file.startswith(_PYTHON)


def _named(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
