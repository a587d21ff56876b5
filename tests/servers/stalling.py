"""A server that takes every connection and every byte, and never answers."""

import socket
import threading
from contextlib import suppress
from typing import Self

from servers.ports import HOST

_BUFFER = 1 << 20


class Stalling:
    """Listens on loopback; a context manager.

    Attributes:
        port: Where it listens.
        asked: Has one permit for each piece of a request that came, or, where the
            server speaks first, for each connection.
    """

    def __init__(self, *, speaks_first: bool = False) -> None:
        self.asked = threading.Semaphore(0)
        self._speaks_first = speaks_first
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """The endpoint to give to clients."""
        return f"http://{HOST}:{self.port}"

    def forget(self) -> None:
        """Take back the permits for what has come so far."""
        while self.asked.acquire(blocking=False):
            pass

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self._speaks_first:
                    self.asked.release()
                threading.Thread(target=self._take, args=(client,), daemon=True).start()

    def _take(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while client.recv(_BUFFER):
                if not self._speaks_first:
                    self.asked.release()
