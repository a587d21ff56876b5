"""SFTP, as asyncssh speaks it."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any, Self

import asyncssh
from typing_extensions import override

from servers.places import Bucket
from servers.process import HOST

_USER, _PASSWORD = "tests", "tieredfs-secret-0123456789"


class Sftp:
    """An SFTP server in a thread, for which a folder is all there is.

    A context manager that starts and ends it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sftp", daemon=True)
        self._up = threading.Event()

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what sshfs needs besides the URL."""
        return {"username": _USER, "password": _PASSWORD, "known_hosts": None}

    def make_bucket(self, name: str) -> None:
        """Make a folder."""
        (self.root / name).mkdir()

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a folder."""
        url = f"sftp://{HOST}:{self.port}/{name}"
        return Bucket(url, self.storage_options(endpoint))

    def start(self) -> Self:
        """Start the thread, and return when it listens."""
        self._thread.start()
        if not self._up.wait(10):
            raise TimeoutError("the SFTP server did not start")
        return self

    def kill(self) -> None:
        """End every connection, and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        connections: set[asyncssh.SSHServerConnection] = set()

        class Session(_Session):
            @override
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                connections.add(conn)

        chroot = os.fsencode(self.root)
        listener = self._loop.run_until_complete(
            asyncssh.create_server(
                Session,
                HOST,
                0,
                server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
                sftp_factory=lambda chan: asyncssh.SFTPServer(chan, chroot),
            )
        )
        self.port = listener.get_port()
        self._up.set()
        self._loop.run_forever()
        listener.close()
        for connection in connections:
            connection.abort()
        # Closed transports end in the loop's next rounds.
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()


class _Session(asyncssh.SSHServer):
    """Lets one user in, with a password."""

    @override
    def begin_auth(self, username: str) -> bool:
        return True

    @override
    def password_auth_supported(self) -> bool:
        return True

    @override
    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (_USER, _PASSWORD)
