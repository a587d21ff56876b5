"""HDFS over HTTP, served by name nodes and HttpFS gateways.

Traps closed here, seen with fsspec's WebHDFS 2026.9: a write goes to the final name, so
readers see half a file; a refused rename is a 200 whose body is not checked, and a
rename onto a folder moves into it; a proxy's login page is taken for a file; the
server's FileAlreadyExists becomes a RuntimeError; no request has a timeout; a listing
of a file is the file itself. A read or a write is two requests, because the name node
redirects the client to a data node.
Also tested on HDFS 2.7.3: its renames with options behave as described here; its data
node decodes a name twice, so a file with ``%41`` in its name is written and not found
again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import quote

from fsspec import AbstractFileSystem

from tieredfs.objects.backends.base import OptionError
from tieredfs.objects.backends.folders import FoldersBackend, Item
from tieredfs.objects.backends.listing import ObjectInfo
from tieredfs.objects.content import BufferContent, Content
from tieredfs.objects.policy import Deadline

__all__ = ["WebHdfsBackend"]

_T = TypeVar("_T")

_CLEANUP_SECONDS = 60.0
"""Seconds to remove the temporary file of a failed put.

A rename that was not answered in time may be performed later, unless its source is
gone; the next write of the key waits for this removal.
"""
_DONE = frozenset({200, 201})
_TEMPORARY_REDIRECT = 307
"""The redirect of a name node to a data node; other redirects come from a proxy."""
_WITH_DATA = frozenset({"CREATE", "OPEN"})
_PAGES = ("text/html", "text/xml", "application/xml", "application/xhtml")
"""Content types that HDFS never sends; gateways and other servers do."""
_FOREIGN = "not an answer of HDFS's; check the host and port"


class QuotaExceededError(OSError):
    """A folder has reached its quota of space or of names."""


_REMOTE: dict[str, type[Exception]] = {
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "DSQuotaExceededException": QuotaExceededError,
    "FileAlreadyExistsException": FileExistsError,
    "FileNotFoundException": FileNotFoundError,
    "IllegalArgumentException": OptionError,
    "InvalidPathException": OptionError,
    "NSQuotaExceededException": QuotaExceededError,
    "PathComponentTooLongException": OptionError,
    "ParentNotDirectoryException": NotADirectoryError,
    "PathIsNotEmptyDirectoryException": IsADirectoryError,
    "QuotaByStorageTypeExceededException": QuotaExceededError,
    "SecurityException": PermissionError,
    "UnsupportedOperationException": NotImplementedError,
}
"""Java exceptions and the errors they become; all others mean unavailable."""


class _RemoteError(OSError):
    """A Java exception that is not in ``_REMOTE``."""


class WebHdfsBackend(FoldersBackend):
    """A folder of HDFS; an atomic rename decides which writer is first."""

    extra = "webhdfs"
    concurrency = 4

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Enlarge the connection pool of the client's session for several threads."""
        # Not at the top: tieredfs is imported without the client of any store.
        from requests.adapters import HTTPAdapter  # noqa: PLC0415

        super().__init__(filesystem, root or "/")
        for scheme in ("http://", "https://"):
            filesystem.session.mount(scheme, HTTPAdapter(pool_maxsize=16))

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""
        return self._read(key, timeout)

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``; fewer if the file ends before."""
        return self._read(key, timeout, offset=start, length=end - start)

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a temporary file, then rename it; never after the timeout."""
        end = Deadline(timeout)
        put = partial(self._put, key, content, end, overwrite=overwrite)
        self.calls.run(put, timeout, writes=self.path(key))

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Read the source and write it again: HDFS has no copy."""
        end = Deadline(timeout)

        def copy() -> None:
            content = BufferContent(self._fetch(source, end.check()))
            self._put(target, content, end, overwrite=True)

        self.calls.run(copy, timeout, writes=self.path(target))

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of a file."""
        path = self.path(key)
        status = self.calls.run(partial(self._status, path, timeout), timeout)
        if status["type"] != "FILE":
            raise FileNotFoundError(key)
        return _item(status).entry(key)

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete one file; a folder that is not empty counts as missing."""
        path = self.path(keys[0])
        end = Deadline(timeout)

        def ask() -> None:
            self._remove(path, end)

        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self.calls.run(ask, timeout, writes=path)
        return {}

    def items(self, folder: str, timeout: float) -> list[Item]:
        """Return the files and folders in a folder, in one request."""
        path = self.path(folder.removesuffix("/"))
        ask = partial(self._ask, "GET", "LISTSTATUS", path, timeout)
        try:
            answer = self.calls.run(ask, timeout)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = _field(_field(_json(answer), "FileStatuses", dict), "FileStatus", list)
        # A file lists itself, without a name.
        return [each for each in map(_item, found) if each.name]

    def _read(self, key: str, timeout: float, **span: int) -> bytes:
        return self.calls.run(partial(self._fetch, key, timeout, **span), timeout)

    def _fetch(self, key: str, timeout: float, **span: int) -> bytes:
        path = self.path(key)
        try:
            answer = self._ask("GET", "OPEN", path, timeout, None, **span)
        except _RemoteError:
            # Past the end, or a folder: the server reports both as IOException.
            status = self._status(path, timeout)
            if status["type"] != "FILE":
                raise FileNotFoundError(key) from None
            if status["length"] <= span.get("offset", -1):
                return b""
            raise
        return cast("bytes", answer.content)

    def _put(
        self, key: str, content: Content, end: Deadline, *, overwrite: bool
    ) -> None:
        beside, final = self.beside(key), self.path(key)
        try:
            body = content.read(0, content.size)
            self._ask("PUT", "CREATE", beside, end.check(), body, overwrite="false")
            # Not after the caller's timeout: it may have put something else by then.
            self._rename(beside, final, end.check(), overwrite=overwrite)
        except NotADirectoryError as error:
            raise FileExistsError(str(error)) from error
        except Exception:
            with suppress(Exception):
                self._ask("DELETE", "DELETE", beside, _CLEANUP_SECONDS)
            raise

    def _status(self, path: str, timeout: float) -> Mapping[str, Any]:
        answer = self._ask("GET", "GETFILESTATUS", path, timeout)
        found = _field(_json(answer), "FileStatus", dict)
        _item(found)
        return cast("Mapping[str, Any]", found)

    def _remove(self, path: str, end: Deadline) -> None:
        """Delete a file; if the server did not, check whether it exists."""
        answer = self._ask("DELETE", "DELETE", path, end.check())
        if _field(_json(answer), "boolean", bool):
            return
        if self._status(path, end.check())["type"] == "FILE":
            raise OSError("the server did not delete it, and gave no reason")

    def _rename(
        self, source: str, target: str, timeout: float, *, overwrite: bool
    ) -> None:
        options = "OVERWRITE" if overwrite else "NONE"
        try:
            answer = self._ask(
                *("PUT", "RENAME", source, timeout),
                destination=target,
                renameoptions=options,
            )
        except _RemoteError as error:
            if self._is_folder(target, timeout):
                raise FileExistsError(target) from error
            raise
        if not answer.content:
            return
        # A gateway without rename options, which never renames over a file.
        if not _field(_json(answer), "boolean", bool):
            if overwrite:
                raise NotImplementedError("this server cannot rename over a file")
            raise FileExistsError(target)
        if self._is_folder(target, timeout):
            inside = f"{target}/{source.rpartition('/')[2]}"
            self._ask("DELETE", "DELETE", inside, timeout)
            raise FileExistsError(target)

    def _is_folder(self, path: str, timeout: float) -> bool:
        try:
            return bool(self._status(path, timeout)["type"] == "DIRECTORY")
        except FileNotFoundError:
            return False

    def _ask(
        self,
        method: str,
        operation: str,
        path: str,
        timeout: float,
        body: bytes | None = None,
        **parameters: object,
    ) -> Any:  # noqa: ANN401 - an answer of requests
        """Make a request, and follow its redirect to a data node if there is one."""
        client = self.filesystem
        sent = {**parameters, **client.pars, "op": operation}
        url = client._apply_proxy(client.url + quote(path))  # noqa: SLF001 - the user's
        ask = partial(client.session.request, method, timeout=timeout)
        answer = ask(url, params=sent, allow_redirects=False)
        where = answer.headers.get("Location")
        is_redirect = (
            answer.status_code == _TEMPORARY_REDIRECT and operation in _WITH_DATA
        )
        if where is None or not is_redirect:
            _checked(answer)
            if body is not None:
                raise OSError("the name node did not redirect to a data node")
            return answer
        kind = {} if body is None else {"Content-Type": "application/octet-stream"}
        where = client._apply_proxy(where)  # noqa: SLF001 - the user's
        return _checked(ask(where, data=body, headers=kind, allow_redirects=False))


def _checked(answer: Any) -> Any:  # noqa: ANN401 - an answer of requests
    """Return a successful answer; raise the error that any other means."""
    page = answer.headers.get("Content-Type", "").startswith(_PAGES)
    if answer.status_code in _DONE and not page:
        return answer
    try:
        remote = answer.json()["RemoteException"]
        name, message = remote["exception"], str(remote["message"]).partition("\n")[0]
    except (ValueError, LookupError, TypeError):
        answer.raise_for_status()
        raise OSError(f"{answer.status_code}: {_FOREIGN}") from None
    if "is not a directory" in message:
        raise NotADirectoryError(message)  # HDFS reports it as access denied
    raise _REMOTE.get(name, _RemoteError)(f"{name}: {message}")


def _json(answer: Any) -> object:  # noqa: ANN401 - an answer of requests
    try:
        return answer.json()
    except ValueError:
        raise OSError(_FOREIGN) from None


def _field(found: object, name: str, kind: type[_T]) -> _T:
    """Return a field of an answer, which must be of this type."""
    value = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(value, kind):
        raise OSError(f"an answer without {name}: {_FOREIGN}")
    return value


def _item(status: object) -> Item:
    is_file = _field(status, "type", str) == "FILE"
    size = _field(status, "length", int)
    return Item(
        _field(status, "pathSuffix", str),
        size if is_file else None,
        _field(status, "modificationTime", int) / 1000,
        cast("Mapping[str, Any]", status).get("fileId", 0),
    )
