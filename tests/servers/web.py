"""HTTP servers of our own, each in a thread of the test's process."""

import http.server
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from typing_extensions import override

from servers.ports import HOST


class Handler(http.server.BaseHTTPRequestHandler):
    """Keeps connections open, sends data immediately, and prints nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @override
    def log_message(self, *_: object) -> None:
        pass


class _Listener(http.server.ThreadingHTTPServer):
    """Knows its connections, so that it can end them."""

    daemon_threads = True

    def __init__(self, handler: Callable[..., Handler]) -> None:
        super().__init__((HOST, 0), handler)
        self.connections: set[socket.socket] = set()

    @override
    def get_request(self) -> tuple[socket.socket, object]:
        request, address = super().get_request()
        self.connections.add(request)
        return request, address

    @override
    def shutdown_request(
        self, request: socket.socket | tuple[bytes, socket.socket]
    ) -> None:
        super().shutdown_request(request)
        self.connections.discard(request)

    @override
    def handle_error(self, *_: object) -> None:
        pass  # a client that has gone away

    def end_connections(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class WebThread:
    """A server with one handler; a context manager that starts and ends it."""

    def __init__(self, handler: Callable[..., Handler]) -> None:
        self._listener = _Listener(handler)
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            kwargs={"poll_interval": 0.02},
            name="web",
            daemon=True,
        )
        self.port: int = self._listener.server_address[1]

    @property
    def endpoint(self) -> str:
        """The URL at which it answers."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> Self:
        """Start the thread; it listens already."""
        self._thread.start()
        return self

    def kill(self) -> None:
        """End every connection, and the thread."""
        self._listener.shutdown()
        self._listener.server_close()
        self._listener.end_connections()
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
