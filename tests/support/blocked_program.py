"""Python programs that are to end while what they asked for never comes."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping

from support.child_process import child_environment

__all__ = ["IN_A_THREAD", "NEVER", "end_of", "line_of", "start_program"]

NEVER = 900.0
"""Seconds of the deadlines of such programs: no test lasts so long."""

_SECONDS = 30.0
"""What is waited for a process that ought to end at once; cores are shared."""

IN_A_THREAD = """
import signal, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
"""
"""The beginning of a program in which another thread than the main one takes Ctrl-C."""

_LEAD = """
import json, sys
url, options, deadline = json.loads(sys.argv[1])
from tieredfs import ByteRange, ObjectStore, RequestPolicy
store = ObjectStore(url, options, policy=RequestPolicy(deadline=deadline))
"""


def start_program(
    program: str,
    url: str = "memory://",
    options: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a program; its input and its standard output are pipes.

    Args:
        program: Lines of Python; ``store`` is the store, whose calls may take as long
            as `NEVER`.
        url: Of the store.
        options: Of the store.
        env: What else is in its environment.
    """
    given = json.dumps([url, options or {}, NEVER])
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-u", "-c", _LEAD + program, given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(env),
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a program prints; empty when it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def end_of(process: subprocess.Popen[str]) -> tuple[int, float]:
    """Return how a program ends, and the seconds that it takes from now on."""
    begun = time.monotonic()
    try:
        code = process.wait(_SECONDS)
    finally:
        process.kill()
    return code, time.monotonic() - begun
