"""A server that is far away: behind a proxy, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, cast

from benchmarks.segments import MIB

__all__ = ["CONNECTION", "LATENCY", "LINK", "distant"]

LATENCY: Final = 0.030
"""Seconds before each answer."""

CONNECTION: Final = 10 * MIB
"""Bytes a second of each connection."""

LINK: Final = 30 * MIB
"""Bytes a second of all connections."""

_PROXY: Final = """
import json, sys
path, port, latency, connection, link = json.loads(sys.argv[1])
sys.path[:] = path
from servers import FaultProxy
from servers.bodies import Pace
with FaultProxy(port) as proxy:
    proxy.latency, proxy.bandwidth, proxy.link = latency, connection, Pace(link)
    print(proxy.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def distant(port: int) -> Iterator[str]:
    """Run a proxy in a process of its own, and yield its URL."""
    told = json.dumps([sys.path, port, LATENCY, CONNECTION, LINK])
    command = [sys.executable, "-c", _PROXY, told]
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield cast("IO[str]", process.stdout).readline().strip()
        process.communicate()
