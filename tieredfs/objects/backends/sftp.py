"""SFTP, through sshfs and asyncssh.

Traps closed here, seen with sshfs 2026.8 and fsspec's own client on paramiko 5.1: sshfs
returns the whole file for a range, has no exclusive create, hangs forever when the
server does, and remains unusable once its connection is lost; paramiko's client hangs
when 16 threads share it, so sshfs is always used for these URLs, even where fsspec
would choose paramiko. Only the connection is sshfs's: all requests use one SFTP
session, which asyncssh lets all callers share.

A rename in version 3 of SFTP may fail or overwrite, depending on the server (asyncssh's
checks first, then renames). A hard link fails if the name exists, on every server that
supports hard links: so a link decides which writer is first, and a server without hard
links has no exclusive create.
"""

import stat
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from fsspec import AbstractFileSystem
from fsspec.asyn import get_loop, sync
from fsspec.config import conf as fsspec_conf
from fsspec.utils import infer_storage_options

from tieredfs.errors import StorageUnavailableError, TieredFSError
from tieredfs.objects.backends.folders import FoldersBackend, Item
from tieredfs.objects.backends.listing import ObjectInfo
from tieredfs.objects.concurrency.call_with_timeout import calls_to
from tieredfs.objects.concurrency.daemon_executor import run_on_daemons
from tieredfs.objects.content import PIECE_BYTES, Content, pieces
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.identity import identity_of
from tieredfs.objects.policy import Deadline

__all__ = ["SftpBackend"]

_ABSENT = frozenset({"SFTPNoSuchFile", "SFTPNoSuchPath", "SFTPNotADirectory"})
_LOST = frozenset({"SFTPConnectionLost", "SFTPNoConnection"})


class SftpBackend(FoldersBackend):
    """A folder on a server that speaks SFTP."""

    extra = "sftp"
    concurrency = 8
    conditional_put_known = False

    def __init__(self, filesystem: AbstractFileSystem, root: str, session: Any) -> None:  # noqa: ANN401 - asyncssh's
        """Take over a connection, which is aborted when this backend is collected."""
        super().__init__(filesystem, root or "/")
        self._session = session
        end = weakref.finalize(self, _abort, filesystem.loop, filesystem.client)
        end.atexit = False  # a fork's child shares the connection

    @classmethod
    def open(
        cls, url: str, options: Mapping[str, object], timeout: float
    ) -> "SftpBackend":
        """Connect."""
        # Not at the top: tieredfs is imported without the client of any store.
        from sshfs import SSHFileSystem  # noqa: PLC0415

        end = Deadline(timeout)
        given = _options(url, options)
        chosen = {**given, "timeout": timeout, "skip_instance_cache": True}
        root = SSHFileSystem._strip_protocol(_split(url)[2])  # noqa: SLF001 - fsspec's

        def connect() -> "SftpBackend":
            run_on_daemons(get_loop())  # sshfs connects when it is created
            filesystem = SSHFileSystem(**chosen)
            session = sync(
                filesystem.loop,
                filesystem.client.start_sftp_client,
                path_errors="surrogateescape",
                timeout=end.check(),
            )
            return cls(filesystem, root, session)

        # fsspec rounds a timeout to whole seconds if the cancelled coroutine does not
        # end, as asyncssh's connect may not: 1.5 s were seen to be 2.0.
        return calls_to(identity_of(url, options)).run(connect, timeout)

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the host that the SSH configuration maps a name to."""
        # Not at the top: tieredfs is imported without the client of any store.
        from asyncssh import SSHClientConnectionOptions  # noqa: PLC0415

        given = _options(url, options)
        known = ("host", "port", "username", "config")
        # No configuration file by default, although connecting reads ~/.ssh/config.
        named = {"config": (), **{key: given[key] for key in known if key in given}}
        # Without keys: else key files would be read, and an agent asked for more.
        found = SSHClientConnectionOptions(**named, client_keys=None, agent_path=None)
        way = found.tunnel or found.proxy_command or ""
        return f"{found.username}@{found.host}:{found.port} {way}"

    def is_broken_by(self, error: Exception) -> bool:
        """Reconnect, unless the error is an answer of the server."""
        if failure_class(error) is not StorageUnavailableError:
            return False
        answered = isinstance(error, TieredFSError) or _is_answer(error)
        return not answered

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""

        async def read(file: Any) -> bytes:  # noqa: ANN401 - asyncssh's
            size = (await file.stat()).size
            data = cast("bytes", await file.read(size, 0))
            if len(data) != size:
                raise OSError(f"{key}: received {len(data)} of {size} bytes")
            return data

        return cast("bytes", self.run_async(self._read, timeout, key, read))

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``; fewer if the file ends before."""

        async def read(file: Any) -> bytes:  # noqa: ANN401 - asyncssh's
            return cast("bytes", await file.read(end - start, start))

        return cast("bytes", self.run_async(self._read, timeout, key, read))

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a temporary file, then link or rename it to the final name."""

        async def write(file: Any) -> None:  # noqa: ANN401 - asyncssh's
            for start, piece in pieces(content):
                await file.write(piece, start)

        self.run_async(self._publish, timeout, key, write, overwrite=overwrite)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy to a temporary file, then rename it to the final name."""

        async def copy(file: Any) -> None:  # noqa: ANN401 - asyncssh's
            async def read(origin: Any) -> None:  # noqa: ANN401 - asyncssh's
                start = 0
                while piece := await origin.read(PIECE_BYTES, start):
                    await file.write(piece, start)
                    start += len(piece)

            await self._read(source, read)

        self.run_async(self._publish, timeout, target, copy, overwrite=True)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of a file."""
        return cast("ObjectInfo", self.run_async(self._head, timeout, key))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete one file; a key that names anything else counts as missing."""
        self.run_async(self._remove, timeout, keys[0])
        return {}

    def items(self, folder: str, timeout: float) -> list[Item]:
        """Return the files and folders in a folder."""
        found = self.run_async(self._items, timeout, folder)
        return cast("list[Item]", found)

    async def _read(
        self, key: str, read: Callable[[Any], Awaitable[bytes | None]]
    ) -> bytes | None:
        try:
            async with self._session.open(self.path(key), "rb") as file:
                return await read(file)
        except Exception as error:
            if _is_answer(error):
                await self._head(key)  # FileNotFoundError if it is not a file
            raise

    async def _head(self, key: str) -> ObjectInfo:
        try:
            found = await self._session.stat(self.path(key))
        except Exception as error:
            if await self._is_absent(error, key):
                raise FileNotFoundError(key) from None
            raise
        if not stat.S_ISREG(found.permissions):
            raise FileNotFoundError(key)
        return _item(key, found).entry(key)

    async def _is_absent(self, error: Exception, key: str) -> bool:
        """Return whether an answer means that a key does not exist."""
        if type(error).__name__ in _ABSENT:
            return True
        # For a path below a file, some servers report just a failure.
        return _is_answer(error) and await self._is_below_a_file(key)

    async def _is_below_a_file(self, key: str) -> bool:
        folder = key.rpartition("/")[0]
        while folder:
            if await self._session.isfile(self.path(folder)):
                return True
            folder = folder.rpartition("/")[0]
        return False

    async def _remove(self, key: str) -> None:
        path = self.path(key)
        try:
            await self._session.remove(path)
        except Exception as error:
            if await self._is_absent(error, key):
                return
            if _is_answer(error) and await self._session.isdir(path):
                return
            raise

    async def _items(self, folder: str) -> list[Item]:
        key = folder.removesuffix("/")
        try:
            found = await self._session.readdir(self.path(key))
        except Exception as error:
            if await self._is_absent(error, folder):
                return []
            raise
        return [
            _item(each.filename, each.attrs)
            for each in found
            if each.filename not in {".", ".."}
            and stat.S_IFMT(each.attrs.permissions) in {stat.S_IFREG, stat.S_IFDIR}
        ]

    async def _publish(
        self,
        key: str,
        write: Callable[[Any], Awaitable[None]],
        *,
        overwrite: bool,
    ) -> None:
        beside, final = self.beside(key), self.path(key)
        session = self._session
        try:
            await self._write(key, beside, write)
            if overwrite:
                await session.posix_rename(beside, final)
            else:
                await session.link(beside, final)
        except Exception as error:
            taken = session.isdir if overwrite else session.exists
            if _is_answer(error) and (
                await taken(final) or await self._is_below_a_file(key)
            ):
                raise FileExistsError(key) from error
            raise
        finally:
            with suppress(Exception):
                await session.remove(beside)

    async def _write(
        self, key: str, beside: str, write: Callable[[Any], Awaitable[None]]
    ) -> None:
        folder = self.path(key.rpartition("/")[0])
        for is_there in (False, True):
            try:
                file = await self._session.open(beside, "xb")
                break
            except Exception as error:
                if is_there or type(error).__name__ not in _ABSENT:
                    raise
                await self._session.makedirs(folder, exist_ok=True)
        async with file:
            await write(file)


def _options(url: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return all options of a URL: fsspec's configuration, the URL's, those given."""
    scheme, server, _ = _split(url)
    found = {
        # sshfs names no protocol, so fsspec would look up none.
        **fsspec_conf.get("sftp", {}),
        **fsspec_conf.get("ssh", {}),
        **fsspec_conf.get(scheme, {}),
        **infer_storage_options(f"{scheme}://{server}"),
        **options,
    }
    return {key: found[key] for key in found if key not in {"protocol", "path"}}


def _split(url: str) -> tuple[str, str, str]:
    """Split a URL into scheme, server and path; ``?`` and ``#`` are part of a path."""
    scheme, _, rest = url.partition("://")
    server, slash, path = rest.partition("/")
    return scheme, server, slash + path


def _is_answer(error: BaseException) -> bool:
    """Return whether an error is an answer of the server."""
    names = {base.__name__ for base in type(error).__mro__}
    return "SFTPError" in names and not names & _LOST


def _item(name: str, attrs: Any) -> Item:  # noqa: ANN401 - asyncssh's
    size = None if stat.S_ISDIR(attrs.permissions) else int(attrs.size)
    return Item(name, size, float(attrs.mtime or 0))


def _abort(loop: Any, client: Any) -> None:  # noqa: ANN401 - the loop's and asyncssh's
    """Abort a connection that is no longer used; it may hang."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(client.abort)
