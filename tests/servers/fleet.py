"""One server of each kind, for as long as a test run lasts."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from servers.azure import Azurite
from servers.gcs import FakeGCS
from servers.places import Bucket, Service
from servers.process import NotInstalledError, Server, ServerFailedError
from servers.ranges import RangeHTTP
from servers.s3 import MotoS3, RcloneS3, SeaweedS3
from servers.sftp import OpenSshSftp, Sftp
from servers.webhdfs import WebHDFS

SERVICES: dict[str, Callable[[Path], Service]] = {
    "s3": SeaweedS3,
    "s3-moto": MotoS3,
    "s3-rclone": RcloneS3,
    "gcs": FakeGCS,
    "azure": Azurite,
    "sftp": Sftp,
    "sftp-openssh": OpenSshSftp,
    "webhdfs": WebHDFS,
    "http": RangeHTTP,
}
"""How to make each kind, of an empty folder of its own."""


class Fleet:
    """Servers that start when they are first asked for."""

    def __init__(self, make_folder: Callable[[str], Path]) -> None:
        self._make_folder = make_folder
        self._running: dict[str, Service] = {}
        self._buckets: dict[str, str] = {}
        self._absent: dict[str, NotInstalledError] = {}

    def server(self, kind: str) -> Service:
        """Return the server of a kind.

        Raises:
            NotInstalledError: Its program is not on this machine.
            ServerFailedError: It did not start.
        """
        if kind in self._absent:
            raise self._absent[kind]
        if kind not in self._running:
            try:
                server = SERVICES[kind](self._make_folder(kind))
                self._running[kind] = server.start()
            except NotInstalledError as error:
                self._absent[kind] = error
                raise
        return self._running[kind]

    def place(self, kind: str, endpoint: str | None = None) -> Bucket:
        """Return a folder in which nothing is, through another endpoint if given.

        It is in the bucket that all of a server share: making one takes long.

        Raises:
            NotInstalledError: The server's program is not on this machine.
        """
        server = self.server(kind)
        if kind not in self._buckets:
            name = f"p{uuid.uuid4().hex}"
            server.make_bucket(name)
            self._buckets[kind] = name
        bucket = server.bucket(self._buckets[kind], endpoint)
        return bucket._replace(url=f"{bucket.url}/{uuid.uuid4().hex}/root")

    def restart_ended(self) -> list[str]:
        """Start again those that ended by themselves.

        Returns:
            How any server ended or failed to start since the last call.
        """
        failures: list[str] = []
        for kind, server in self._running.items():
            if isinstance(server, Server):
                with suppress(ServerFailedError):  # it is among the failures
                    if server.restart_if_ended():
                        self._buckets.pop(kind, None)  # it was in memory, perhaps
                failures += server.failures
                server.failures.clear()
        return failures

    def kill(self) -> None:
        """End them all."""
        for server in self._running.values():
            server.kill()
