"""Work in a forked child, and work that must not wait."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

__all__ = ["forked", "soon"]

_CHILD = 40.0
_STALL = 10.0
"""Seconds; what this is about took 15."""


def forked(work: Callable[[], bytes]) -> bytes:
    """Return what ``work`` returns in a forked child; the child has forty seconds."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The servers and proxies of the tests are threads; that is the point.
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        child = os.fork()
    if not child:
        answer = b"failed"
        try:
            os.close(reading)
            answer = work()
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            answer = repr(error).encode()
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    timer = threading.Timer(_CHILD, os.kill, (child, 9))
    timer.start()
    try:
        with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor, not a path
            return pipe.read()
    finally:
        timer.cancel()
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def soon(work: Callable[[], bytes]) -> bytes:
    """Return what ``work`` returns, which must not take long."""
    begun = time.monotonic()
    answer = work()
    seconds = time.monotonic() - begun
    assert seconds < _STALL, f"it took {seconds:.1f} s"
    return answer
