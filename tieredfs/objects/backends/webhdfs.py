"""HDFS over HTTP, as name nodes and HttpFS gateways speak it.

Traps closed here, seen with fsspec's WebHDFS 2026.9: a write goes to the final name, so
readers see half a file; a rename that was refused is an answer of 200 that nobody looks
at, and one onto a folder moves into it; a proxy's login page is taken for a file; what
the server calls FileAlreadyExists is a RuntimeError; no request has a limit of time; a
listing of a file is the file itself. A read or a write is two requests, since the name
node sends the client on to a data node.
Tried on HDFS 2.7.3 too: its renames with options do what is told here; its data node
decodes a name twice, so what has a ``%41`` in its name is written and not found again.
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

_CLEANING = 60.0
"""Seconds to remove what a failed put has left beside its final name.

A rename that was not answered in time may be done later, unless there is nothing left
to rename; the next write of the key waits for the answer to this.
"""
_DONE = frozenset({200, 201})
_GO_ON = 307
"""How a name node sends a client on; what sends it elsewhere is a proxy."""
_WITH_DATA = frozenset({"CREATE", "OPEN"})
_PAGES = ("text/html", "text/xml", "application/xml", "application/xhtml")
"""What HDFS never answers with, and gateways and other servers do."""
_FOREIGN = "not an answer of HDFS's; check the host and port"


class QuotaExceededError(OSError):
    """A folder has as much, or as many, as it may."""


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
"""What the Java side throws → what it is called here; all else is unavailable."""


class _RemoteError(OSError):
    """Something on the Java side that has no name here."""


class WebHdfsBackend(FoldersBackend):
    """A folder of HDFS; a rename decides who is first, and replaces as a whole."""

    extra = "webhdfs"
    at_once = 4

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Take the client's session, and make room in it for several threads."""
        # Not at the top: tieredfs is imported without the client of any store.
        from requests.adapters import HTTPAdapter  # noqa: PLC0415

        super().__init__(filesystem, root or "/")
        for scheme in ("http://", "https://"):
            filesystem.session.mount(scheme, HTTPAdapter(pool_maxsize=16))

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""
        return self._read(key, timeout)

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``, or what there is of them."""
        return self._read(key, timeout, offset=start, length=end - start)

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write beside the final name, then rename; never when time is up."""
        end = Deadline(timeout)
        put = partial(self._put, key, content, end, overwrite=overwrite)
        self.calls.run(put, timeout, writes=self.path(key))

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Read the source and write it again: HDFS copies nothing by itself."""
        end = Deadline(timeout)

        def copy() -> None:
            content = BufferContent(self._fetch(source, end.check()))
            self._put(target, content, end, overwrite=True)

        self.calls.run(copy, timeout, writes=self.path(target))

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of a file."""
        path = self.path(key)
        status = self.calls.run(partial(self._status, path, timeout), timeout)
        if status["type"] != "FILE":
            raise FileNotFoundError(key)
        return _item(status).entry(key)

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete one file; a folder with something in it is none."""
        path = self.path(keys[0])
        end = Deadline(timeout)

        def ask() -> None:
            self._remove(path, end)

        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self.calls.run(ask, timeout, writes=path)
        return {}

    def items(self, folder: str, timeout: float) -> list[Item]:
        """Return what lies in a folder, in one request."""
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
            # Behind the end, or a folder: the Java side calls both IOException.
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
            # Not after the caller was refused: it may have put something else by then.
            self._rename(beside, final, end.check(), overwrite=overwrite)
        except NotADirectoryError as error:
            raise FileExistsError(str(error)) from error
        except Exception:
            with suppress(Exception):
                self._ask("DELETE", "DELETE", beside, _CLEANING)
            raise

    def _status(self, path: str, timeout: float) -> Mapping[str, Any]:
        answer = self._ask("GET", "GETFILESTATUS", path, timeout)
        found = _field(_json(answer), "FileStatus", dict)
        _item(found)
        return cast("Mapping[str, Any]", found)

    def _remove(self, path: str, end: Deadline) -> None:
        """Delete a file; what a server says it has not deleted may not be there."""
        answer = self._ask("DELETE", "DELETE", path, end.check())
        if _field(_json(answer), "boolean", bool):
            return
        if self._status(path, end.check())["type"] == "FILE":
            raise OSError("the server has not deleted it, and does not say why")

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
        # A gateway that knows no options: it renames over nothing.
        if not _field(_json(answer), "boolean", bool):
            if overwrite:
                raise NotImplementedError("this server renames over no file")
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
        """Make a request, to the data node too if there is one to go to."""
        client = self.filesystem
        sent = {**parameters, **client.pars, "op": operation}
        url = client._apply_proxy(client.url + quote(path))  # noqa: SLF001 - the user's
        ask = partial(client.session.request, method, timeout=timeout)
        answer = ask(url, params=sent, allow_redirects=False)
        where = answer.headers.get("Location")
        goes_on = answer.status_code == _GO_ON and operation in _WITH_DATA
        if where is None or not goes_on:
            _checked(answer)
            if body is not None:
                raise OSError("the name node names no data node")
            return answer
        kind = {} if body is None else {"Content-Type": "application/octet-stream"}
        where = client._apply_proxy(where)  # noqa: SLF001 - the user's
        return _checked(ask(where, data=body, headers=kind, allow_redirects=False))


def _checked(answer: Any) -> Any:  # noqa: ANN401 - an answer of requests
    """Return an answer that says yes; raise what any other means."""
    page = answer.headers.get("Content-Type", "").startswith(_PAGES)
    if answer.status_code in _DONE and not page:
        return answer
    try:
        told = answer.json()["RemoteException"]
        name, said = told["exception"], str(told["message"]).partition("\n")[0]
    except (ValueError, LookupError, TypeError):
        answer.raise_for_status()
        raise OSError(f"{answer.status_code}: {_FOREIGN}") from None
    if "is not a directory" in said:
        raise NotADirectoryError(said)  # HDFS says access denied
    raise _REMOTE.get(name, _RemoteError)(f"{name}: {said}")


def _json(answer: Any) -> object:  # noqa: ANN401 - an answer of requests
    try:
        return answer.json()
    except ValueError:
        raise OSError(_FOREIGN) from None


def _field(found: object, name: str, kind: type[_T]) -> _T:
    """Return a field of what was answered, which is of this kind."""
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
