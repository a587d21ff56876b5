"""SFTP, as asyncssh speaks it."""

import os
from pathlib import Path
from typing import Any

import asyncssh
from typing_extensions import override

from servers.loop import LoopServer
from servers.places import Bucket
from servers.process import HOST

_USER, _PASSWORD = "tests", "tieredfs-secret-0123456789"


class Sftp(LoopServer):
    """An SFTP server in a thread, for which a folder is all there is."""

    def __init__(self, root: Path) -> None:
        super().__init__("sftp")
        self.root = root
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._listener: asyncssh.SSHAcceptor

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

    @override
    async def _listen(self) -> None:
        chroot = os.fsencode(self.root)
        self._listener = await asyncssh.create_server(
            lambda: _Session(self._connections),
            HOST,
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=lambda chan: asyncssh.SFTPServer(chan, chroot),
        )
        self.port = self._listener.get_port()

    @override
    async def _close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.abort()


class _Session(asyncssh.SSHServer):
    """Lets one user in, with a password."""

    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    @override
    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.add(conn)

    @override
    def begin_auth(self, username: str) -> bool:
        return True

    @override
    def password_auth_supported(self) -> bool:
        return True

    @override
    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (_USER, _PASSWORD)
