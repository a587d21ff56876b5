"""Ports of this process's own, for servers on loopback."""

import fcntl
import os
import socket
import tempfile
import threading
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"

# Below the range from which the kernel gives ports to clients.
_FIRST, _LAST = 12_000, 32_000
_SIZE = 500


class PortBlock:
    """Ports that only this process draws, among all of this user.

    They are drawn in turn, so that a port which was drawn and is not yet, or for a
    moment not, listened on is not drawn again soon.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._first = _claim()
        self._drawn = 0

    def draw(self, count: int) -> list[int]:
        """Return distinct ports on which no process listens.

        Raises:
            RuntimeError: The block has fewer.
        """
        ports: list[int] = []
        with self._turn, ExitStack() as held:
            for _ in range(_SIZE):
                candidate = held.enter_context(socket.socket())
                port = self._first + self._drawn % _SIZE
                self._drawn += 1
                with suppress(OSError):
                    candidate.bind((HOST, port))
                    ports.append(port)
                if len(ports) == count:
                    return ports
        raise RuntimeError(f"fewer than {count} ports from {self._first} on are free")


def _claim() -> int:
    """Lock the first block that is free; the lock ends with this process."""
    folder = Path(tempfile.gettempdir()) / f"tieredfs-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in range(_FIRST, _LAST, _SIZE):
        lock = os.open(folder / str(first), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return first
    raise RuntimeError(f"other processes hold every block of ports: {folder}")


@cache
def _block() -> PortBlock:
    return PortBlock()


def free_ports(count: int) -> list[int]:
    """Draw ports from this process's block: all those of one server together."""
    return _block().draw(count)
