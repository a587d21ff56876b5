"""SFTP, as asyncssh speaks it, and as OpenSSH does."""

import asyncio
import os
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncssh
from typing_extensions import override

from servers.loop import LoopServer
from servers.places import Bucket
from servers.ports import HOST
from servers.process import NotInstalledError

_PROGRAMS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
_USER, _PASSWORD = "tests", "tieredfs-secret-0123456789"


class Sftp(LoopServer):
    """An SFTP server in a thread, for which a folder is all there is."""

    def __init__(
        self,
        root: Path,
        speaks: type[asyncssh.SFTPServer] = asyncssh.SFTPServer,
    ) -> None:
        super().__init__("sftp")
        self.root = root
        self._speaks = speaks
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._listener: asyncssh.SSHAcceptor

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what sshfs needs besides the URL."""
        return {"username": _USER, "password": _PASSWORD, "known_hosts": None}

    def make_bucket(self, name: str) -> None:
        """Make a folder."""
        (self.root / name).mkdir()

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a folder, through another endpoint if given."""
        port = urlsplit(endpoint).port if endpoint else self.port
        url = f"sftp://{HOST}:{port}{self.above}/{name}"
        return Bucket(url, self.storage_options(endpoint))

    @property
    def above(self) -> str:
        """The path of what holds the buckets, as a client sees it."""
        return ""

    def _service(self) -> dict[str, Any]:
        """Return the options that say who answers."""
        chroot = os.fsencode(self.root)
        return {"sftp_factory": lambda chan: self._speaks(chan, chroot)}

    def _answer(self) -> asyncssh.SSHServerSession[bytes] | bool:
        """Return who answers if asyncssh does not."""
        return False

    def drop(self) -> None:
        """End every connection."""
        self._do(self._drop())

    async def _drop(self) -> None:
        for connection in self._connections:
            connection.abort()

    @override
    async def _listen(self) -> None:
        connections = self._connections

        class Session(_Session):
            @override
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                connections.add(conn)

            @override
            def session_requested(_) -> asyncssh.SSHServerSession[bytes] | bool:  # noqa: N805 -- `self` is the server's
                return self._answer()

        self._listener = await asyncssh.create_server(
            Session,
            HOST,
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            **self._service(),
        )
        self.port = self._listener.get_port()

    @override
    async def _close(self) -> None:
        self._listener.close()
        await self._drop()
        # The handler of a connection closes its files when the connection ends.
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        if serving:
            await asyncio.wait(serving, timeout=1)


class OpenSshSftp(Sftp):
    """OpenSSH's own program, which sees the whole disk, behind asyncssh's connection.

    Raises NotInstalledError when it is not on this machine.
    """

    def __init__(self, root: Path) -> None:
        found = [program for program in _PROGRAMS if os.access(program, os.X_OK)]
        if not found:
            raise NotInstalledError(
                "OpenSSH's sftp-server is not installed:"
                " on Debian, apt-get install openssh-sftp-server"
            )
        self._program = found[0]
        super().__init__(root)

    @property
    @override
    def above(self) -> str:
        return str(self.root)

    @override
    def _service(self) -> dict[str, Any]:
        return {"encoding": None}

    @override
    def _answer(self) -> asyncssh.SSHServerSession[bytes]:
        return _Program(self._program)


class _Program(asyncssh.SSHServerSession[bytes]):
    """Passes its input to a child process, and returns the child's output."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._said: asyncio.Queue[bytes] = asyncio.Queue()

    @override
    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    @override
    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == "sftp"

    @override
    def session_started(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._serve())

    @override
    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._said.put_nowait(data)

    @override
    def eof_received(self) -> bool:
        self._said.put_nowait(b"")
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._said.put_nowait(b"")

    async def _serve(self) -> None:
        child = await asyncio.create_subprocess_exec(
            self._program, stdin=PIPE, stdout=PIPE
        )
        assert child.stdin is not None
        assert child.stdout is not None
        reading = asyncio.create_task(self._hand_back(child.stdout))
        while data := await self._said.get():
            child.stdin.write(data)
            await child.stdin.drain()
        child.stdin.close()
        await reading
        await child.wait()
        self._channel.close()

    async def _hand_back(self, output: asyncio.StreamReader) -> None:
        while data := await output.read(1 << 16):
            if not self._channel.is_closing():
                self._channel.write(data)


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
