"""As much of WebHDFS as fsspec's client speaks, over a folder."""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from servers.places import Bucket
from servers.ports import HOST
from servers.web import Handler, WebThread

_PREFIX = "/webhdfs/v1"
RENAME_OPTIONS = "renameoptions"
"""What a name node knows, and an HttpFS gateway does not."""

_DATA = ("OPEN", "CREATE", "APPEND")
"""What a name node passes on to a data node, by a redirect."""


class WebHDFS(WebThread):
    """A name node that is its own data node; real HDFS answers alike.

    So a file is seen while it is being written, and a rename overwrites nothing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(type("_Handler", (_WebHDFSHandler,), {"root": root}))

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return what fsspec needs, to talk through another endpoint if given."""
        where = urlsplit(endpoint or self.endpoint)
        return {"host": HOST, "port": where.port, "user": "tests"}

    def make_bucket(self, name: str) -> None:
        """Make a folder."""
        (self.root / name).mkdir()

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a folder, through another endpoint if given."""
        host = urlsplit(endpoint or self.endpoint).netloc
        return Bucket(f"webhdfs://{host}/{name}", self.storage_options(endpoint))


_renaming = threading.Lock()  # a name node changes its names one at a time


class _RefusedError(Exception):
    """What the Java side would throw."""

    def __init__(self, status: int, exception: str, message: object) -> None:
        super().__init__(str(message))
        self.status = status
        self.exception = exception

    @property
    def body(self) -> bytes:
        remote = {"exception": self.exception, "message": str(self)}
        return json.dumps({"RemoteException": remote}).encode()


class _WebHDFSHandler(Handler):
    """Answers with what the function of an operation returns."""

    root: ClassVar[Path]

    def do_GET(self) -> None:  # noqa: N802 -- as http.server calls it
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        operation = query.get("op", "")
        if operation in _DATA and "datanode" not in query:
            asked = urlencode(query | {"datanode": "here"})
            self._send(307, location=f"http://{self.headers['Host']}{url.path}?{asked}")
            return
        try:
            files = _Files(self.root, self.root / _below(url.path), query, body)
            self._send(200, _OPERATIONS.get(operation, _Files.unknown)(files))
        except _RefusedError as refused:
            self._send(refused.status, refused.body)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 -- http.server's names

    def _send(self, status: int, body: bytes = b"", location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _below(path: str) -> str:
    return unquote(path).removeprefix(_PREFIX).strip("/")


@dataclass(frozen=True)
class _Files:
    """One operation: what it is about, and its answer."""

    root: Path
    path: Path
    query: Mapping[str, str]
    body: bytes

    def status(self) -> bytes:
        self._must_exist()
        return _encode({"FileStatus": _status(self.path, "")})

    def listing(self) -> bytes:
        self._must_exist()
        if self.path.is_dir():
            found = [_status(path, path.name) for path in sorted(self.path.iterdir())]
        else:
            found = [_status(self.path, "")]
        return _encode({"FileStatuses": {"FileStatus": found}})

    def content(self) -> bytes:
        self._must_exist()
        if self.path.is_dir():
            message = f"Path is not a file: {self.path}"
            raise _RefusedError(404, "FileNotFoundException", message)
        content = self.path.read_bytes()
        start = int(self.query.get("offset", 0))
        if start > len(content):
            raise _RefusedError(403, "IOException", f"offset {start} is out of range")
        return content[start:][: int(self.query.get("length", len(content)))]

    def create(self) -> bytes:
        if self.path.exists() and self.query.get("overwrite", "false") == "false":
            raise _RefusedError(403, "FileAlreadyExistsException", self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self.body)
        return b""

    def append(self) -> bytes:
        self._must_exist()
        with self.path.open("ab") as file:
            file.write(self.body)
        return b""

    def make_folders(self) -> bytes:
        if self.path.is_file():
            raise _RefusedError(403, "FileAlreadyExistsException", self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        return _encode({"boolean": True})

    def rename(self) -> bytes:
        to = self.root / self.query["destination"].strip("/")
        with _renaming:
            if RENAME_OPTIONS in self.query:
                return self._rename_as_told(to)
            done = self.path.exists() and to.parent.is_dir() and not to.is_file()
            if done:
                self.path.rename(to / self.path.name if to.is_dir() else to)
            return _encode({"boolean": done})

    def _rename_as_told(self, to: Path) -> bytes:
        self._must_exist()
        if to.is_dir() or (to.exists() and self.query["renameoptions"] != "OVERWRITE"):
            raise _RefusedError(403, "FileAlreadyExistsException", to)
        self.path.rename(to)
        return b""

    def delete(self) -> bytes:
        existed = self.path.exists()
        if self.path.is_file():
            self.path.unlink()
        elif existed:
            if any(self.path.iterdir()) and self.query.get("recursive") != "true":
                raise _RefusedError(403, "PathIsNotEmptyDirectoryException", self.path)
            shutil.rmtree(self.path)
        return _encode({"boolean": existed})

    def unknown(self) -> bytes:
        raise _RefusedError(400, "UnsupportedOperationException", self.query)

    def _must_exist(self) -> None:
        if not self.path.exists():
            message = f"File does not exist: {self.path}"
            raise _RefusedError(404, "FileNotFoundException", message)


_OPERATIONS: dict[str, Callable[[_Files], bytes]] = {
    "GETFILESTATUS": _Files.status,
    "LISTSTATUS": _Files.listing,
    "OPEN": _Files.content,
    "CREATE": _Files.create,
    "APPEND": _Files.append,
    "MKDIRS": _Files.make_folders,
    "RENAME": _Files.rename,
    "DELETE": _Files.delete,
}


def _status(path: Path, suffix: str) -> dict[str, object]:
    """Return what a name node knows of a file."""
    stat = path.stat()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "fileId": stat.st_ino,
        "length": 0 if path.is_dir() else stat.st_size,
        "modificationTime": int(stat.st_mtime * 1000),
        "accessTime": int(stat.st_atime * 1000),
        "replication": 1,
        "blockSize": 128 << 20,
        "permission": "644",
        "owner": "tests",
        "group": "tests",
    }


def _encode(answer: object) -> bytes:
    return json.dumps(answer).encode()
