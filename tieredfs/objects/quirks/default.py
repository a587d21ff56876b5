"""What every fsspec filesystem can be made to do, one attempt at a time.

A backend raises whatever its client raises; the store above it maps errors, repeats
and observes. Traps that are closed here for all (seen in released packages):

- an empty or past-the-end range returns the whole object or one of five errors: the
  store sends neither, and ranges go by keyword (s3fs has ``version_id`` third);
- ``open("wb")`` publishes a partial object when the block fails: only whole objects
  are written;
- listings are cached without end: filesystems are made with the cache off;
- a call may hang for minutes: asynchronous filesystems are given a timeout and the
  coroutine is cancelled when it passes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

__all__ = ["Backend", "ObjectInfo"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One entry of a listing.

    Attributes:
        key: Relative to the store; it ends in ``/`` for a common prefix.
        size: Bytes; None for a common prefix, which has no content.
        version: Tells apart two contents under one key: an etag, or size and
            modification time; empty when the backend says neither.
    """

    key: str
    size: int | None
    version: str = ""

    @property
    def is_prefix(self) -> bool:
        """Whether this stands for all keys that begin with it."""
        return self.size is None


class Backend:
    """A filesystem with a root, and the verbs the store is made of.

    Paths are the filesystem's own; keys are relative to the root. Every verb is one
    attempt that takes ``timeout`` seconds at most, where the client can be stopped.
    """

    options: ClassVar[Mapping[str, object]] = {"use_listings_cache": False}
    """Options that the filesystem is made with, unless the user gives them."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Take a filesystem nobody else uses, and a path in it."""
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    def path(self, key: str) -> str:
        """Return the filesystem's path of a key."""
        return f"{self.root}/{key}" if key else self.root

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole object."""
        return cast("bytes", self._run("cat_file", timeout, self.path(key)))

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``, which lie inside the object."""
        path = self.path(key)
        return cast("bytes", self._run("cat_file", timeout, path, start=start, end=end))

    def put(self, key: str, data: bytes, timeout: float, *, overwrite: bool) -> None:
        """Make an object appear whole; FileExistsError if there is one already."""
        mode = "overwrite" if overwrite else "create"
        self._run("pipe_file", timeout, self.path(key), data, mode=mode)

    def put_file(
        self, key: str, source: Path, timeout: float, *, overwrite: bool
    ) -> None:
        """Make an object appear whole from a file; FileExistsError likewise."""
        mode = "overwrite" if overwrite else "create"
        self._run("put_file", timeout, str(source), self.path(key), mode=mode)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Make ``target`` what ``source`` is."""
        self._run("cp_file", timeout, self.path(source), self.path(target))

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of an object."""
        info = self._run("info", timeout, self.path(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        return self.entry(key, info)

    def pages(
        self, prefix: str, start_after: str, delimiter: str, timeout: float
    ) -> Iterator[Sequence[ObjectInfo]]:
        """Yield the keys that begin with ``prefix``, sorted, a page a request.

        May yield keys at or before ``start_after``: the store filters them.
        """
        del start_after  # public fsspec cannot begin a listing anywhere
        folder = self.path(prefix.rpartition("/")[0])
        try:
            if delimiter:
                found = self._run("ls", timeout, folder, detail=True)
            else:
                found = self._run("find", timeout, folder, detail=True).values()
        except FileNotFoundError:
            return
        yield sorted(self._entries(found), key=lambda entry: entry.key)

    def delete(self, keys: Sequence[str], timeout: float) -> None:
        """Delete objects; a missing one is no error."""
        for key in keys:
            try:
                self._run("rm_file", timeout, self.path(key))
            except FileNotFoundError:
                continue

    def entry(self, key: str, info: Mapping[str, Any]) -> ObjectInfo:
        """Make an entry of what the filesystem says of one object."""
        tag = info.get("ETag") or info.get("etag") or info.get("generation")
        version = tag or f"{info['size']}-{info.get('mtime') or info.get('created')}"
        return ObjectInfo(key, int(info["size"]), str(version).strip('"'))

    def _entries(self, found: Iterable[Mapping[str, Any]]) -> Iterator[ObjectInfo]:
        lead = len(self.root) + 1
        for info in found:
            key = str(info["name"]).rstrip("/")[lead:]
            if info["type"] == "directory":
                yield ObjectInfo(f"{key}/", None)
            else:
                yield self.entry(key, info)

    def _run(
        self,
        verb: str,
        timeout: float,
        *args: object,
        **options: object,
    ) -> Any:  # noqa: ANN401 - whatever the filesystem's method returns
        if not isinstance(self.filesystem, AsyncFileSystem):
            return getattr(self.filesystem, verb)(*args, **options)
        return self.run_async(
            getattr(self.filesystem, f"_{verb}"), timeout, *args, **options
        )

    def run_async(
        self,
        function: Callable[..., Any],
        timeout: float,
        *args: object,
        **options: object,
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Run a coroutine on the filesystem's loop; cancel it when time is up."""
        loop = self.filesystem.loop
        coroutine = function(*args, **options)
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()  # neither a timeout nor Ctrl-C leaves a download behind
            raise
