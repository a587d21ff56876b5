"""The base of all backends: one attempt of each verb, on any fsspec filesystem.

A backend raises whatever its client raises; the store above it maps errors, retries
and notifies the observer. Traps that are closed here for all (seen in released
packages):

- an empty or past-the-end range returns the whole object or one of five errors: the
  store sends neither, and ranges are passed by keyword (the third parameter of s3fs is
  ``version_id``);
- ``open("wb")`` publishes a partial object when the block fails: only whole objects
  are written;
- listings are cached indefinitely: filesystems are created with the cache off;
- a listing has a file's time as a number and ``info`` as a datetime (fsspec's memory
  filesystem): both give one version;
- ``find`` and ``walk`` omit folders that they may not or cannot list: folders are
  listed one by one;
- a call may hang for minutes: a coroutine is cancelled after its timeout, and a call of
  a synchronous filesystem is abandoned on its thread; its write may land later, so no
  other write of that path begins before it has ended.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar, Self, cast

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.core import url_to_fs

from tieredfs.errors import NotFoundError
from tieredfs.objects.backends.listing import (
    Child,
    Listing,
    ObjectInfo,
    Page,
    Walk,
    to_modified,
)
from tieredfs.objects.backends.multipart import MultipartConfig, Part, UnfinishedUpload
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.call_with_timeout import BlockingCalls, calls_to
from tieredfs.objects.concurrency.daemon_executor import run_on_daemons
from tieredfs.objects.concurrency.loop_call import run_on_loop
from tieredfs.objects.content import Content
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.identity import server_of

__all__ = ["CLOUD_CONCURRENCY", "Backend", "OptionError"]

CLOUD_CONCURRENCY = 16
"""Concurrent requests of one call where a server, or many, answer each by itself."""


class OptionError(Exception):
    """An option that the client refuses when it connects."""


class Backend:
    """A filesystem with a root, and the operations that the store needs.

    Paths are the filesystem's own; keys are relative to the root. Every verb is one
    attempt that takes ``timeout`` seconds at most.
    """

    options: ClassVar[Mapping[str, object]] = {"use_listings_cache": False}
    """Default options of the filesystem; the user's options take precedence."""

    capabilities: frozenset[StoreCapability] = frozenset(
        {StoreCapability.WRITE, StoreCapability.RANGE_READ}
    )
    """What the backend can do; the store asks for nothing else."""

    conditional_put_known: bool = True
    """Whether ``capabilities`` are right about EXCLUSIVE_CREATE without a probe.

    The store sets this after its probe, whichever way that ended.
    """

    extra: ClassVar[str] = ""
    """The extra of tieredfs that installs the client; empty if there is none."""

    container_noun: ClassVar[str] = ""
    """Name of the first part of a path, such as "bucket"; empty if there is none.

    A container has to be created before use.
    """

    concurrency: ClassVar[int] = 1
    """Maximum concurrent requests of one call."""

    max_gap_bytes: ClassVar[int] = 256 << 10
    """Maximum bytes between two ranges that are read in one request."""

    max_delete_keys: ClassVar[int] = 1
    """Maximum keys that one request deletes."""

    parts: ClassVar[MultipartConfig | None] = None
    """How large objects are split into parts; None if no object is."""

    sends_in_pieces: ClassVar[bool] = False
    """Whether a put reads its content a piece at a time, where waiting stops no other
    call and no timeout runs."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Create a backend on a filesystem instance of its own.

        Args:
            filesystem: The filesystem, created with ``options``; no other code uses it.
            root: The root path; empty where paths are relative, as in an archive.
        """
        if isinstance(filesystem, AsyncFileSystem):
            run_on_daemons(filesystem.loop)
        self.filesystem = filesystem
        self.root = root.rstrip("/") or root[:1]
        self._root_prefix = self.root if self.root in {"", "/"} else f"{self.root}/"

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Create the backend of a URL.

        Args:
            url: A URL with a protocol of this class.
            options: The user's storage options.
            timeout: Seconds to wait for a client that connects when it is created.
        """
        del timeout
        filesystem, root = url_to_fs(
            url, **{**cls.options, **options}, skip_instance_cache=True
        )
        return cls(filesystem, root)

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the endpoint that a client takes from outside its URL and options.

        For example, an endpoint in a configuration file. No request is made, and the
        result contains no secret.

        Raises:
            Exception: The client refuses the options, or is not installed.
        """
        del url, options
        return ""

    def is_broken_by(self, error: Exception) -> bool:
        """Return whether the next attempt after ``error`` needs a new backend."""
        del error
        return False

    def conditional_put_works(self) -> bool | None:
        """Return whether creates are exclusive; None if only a probe put can tell.

        Called while ``conditional_put_known`` is false; makes no request.
        """
        return None

    @cached_property
    def calls(self) -> BlockingCalls:
        """The blocking calls to the same server, shared by all stores."""
        filesystem = self.filesystem
        kind = type(filesystem).__qualname__
        return calls_to(server_of(kind, filesystem.storage_options))

    def path(self, key: str) -> str:
        """Return the filesystem's path of a key."""
        return self._root_prefix + key if key else self.root

    def get(self, key: str, timeout: float) -> bytes | memoryview:
        """Return a whole object."""
        return cast("bytes", self._run("cat_file", timeout, self.path(key)))

    def get_range(
        self, key: str, start: int, end: int, timeout: float
    ) -> bytes | memoryview:
        """Return the bytes ``[start, end)``, a range inside the object."""
        path = self.path(key)
        return cast("bytes", self._run("cat_file", timeout, path, start=start, end=end))

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a whole object; FileExistsError if it exists and must not.

        With ``parts``, an object above the threshold in force is put here only if its
        upload was disturbed.
        """
        data = content.read(0, content.size)
        mode = "overwrite" if overwrite else "create"
        path = self.path(key)
        self._run("pipe_file", timeout, path, data, writes=path, mode=mode)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy ``source`` to ``target``."""
        path = self.path(target)
        self._run("cp_file", timeout, self.path(source), path, writes=path)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of an object."""
        info = self._run("info", timeout, self.path(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        return self.entry(key, info)

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Return the entries of the next request of a listing, sorted.

        Args:
            listing: What to list. More entries may be returned: the store filters.
            at: None for the first page, else the ``following`` of the page before. A
                failed page may be requested again.
            timeout: Seconds.
        """
        walk = at if isinstance(at, Walk) else Walk(listing)
        return walk.page(lambda folder: self._children(folder, timeout))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete at most ``max_delete_keys`` objects; a missing one is not an error.

        Returns:
            The error of each object that was not deleted, by key.
        """
        for key in keys:
            with suppress(FileNotFoundError):
                path = self.path(key)
                self._run("rm_file", timeout, path, writes=path)
        return {}

    def begin_upload(self, key: str, timeout: float, *, overwrite: bool) -> str:
        """Begin a multipart upload, and return its identifier; only with ``parts``."""
        raise NotImplementedError(key)

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Upload one part, and return the store's tag of it."""
        raise NotImplementedError(key)

    def finish_upload(
        self,
        key: str,
        upload: str,
        tags: Sequence[str],
        timeout: float,
        *,
        overwrite: bool,
    ) -> None:
        """Create the object from the tags of its parts; FileExistsError as in put."""
        raise NotImplementedError(key)

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove the parts of an upload that will not be finished."""
        raise NotImplementedError(key)

    def begun_before(
        self, key: str, upload: str, seconds: float, timeout: float
    ) -> Sequence[str]:
        """List uploads of a key that began shortly before another, and have no part.

        Args:
            key: The key of the uploads.
            upload: The other upload, which is neither finished nor aborted.
            seconds: Maximum seconds before the other upload.
            timeout: Seconds.
        """
        del key, upload, seconds, timeout
        return ()

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List unfinished uploads below the root that began before a time."""
        del before, timeout
        return ()

    def entry(self, key: str, info: Mapping[str, Any]) -> ObjectInfo:
        """Return the entry of an object from the filesystem's info."""
        if info["size"] is None:
            msg = f"the filesystem does not report the size of {key}"
            raise NotImplementedError(msg)
        tag = info.get("ETag") or info.get("etag") or info.get("generation")
        changed = info.get("mtime") or info.get("created")
        if isinstance(changed, datetime):
            changed = changed.timestamp()
        version = tag or f"{info['size']}-{changed}"
        modified = to_modified(info.get("mtime") or info.get("last_modified"))
        return ObjectInfo(key, int(info["size"]), str(version).strip('"'), modified)

    def _children(self, folder: str, timeout: float) -> Iterator[Child]:
        """Yield the children of a folder; nothing if it does not exist."""
        path = self.path(folder.removesuffix("/"))
        try:
            found = self._run("ls", timeout, path, detail=True)
        except OSError as error:
            if failure_class(error) is not NotFoundError:
                raise
            return
        for info in found:
            name = str(info["name"]).rstrip("/")
            if not self._root_prefix:
                name = name.lstrip("/")  # some archives have absolute member names
            key = name.removeprefix(self._root_prefix)
            if not name.startswith(self._root_prefix) or not key.startswith(folder):
                continue  # the folder itself, or a link out of it
            if info["type"] == "directory":
                yield f"{key}/", None
            elif info["type"] == "file":
                yield key, partial(self.entry, key, info)

    def _run(
        self,
        verb: str,
        timeout: float,
        *args: object,
        writes: str = "",
        **options: object,
    ) -> Any:  # noqa: ANN401 - whatever the filesystem's method returns
        if not isinstance(self.filesystem, AsyncFileSystem):
            call = partial(getattr(self.filesystem, verb), *args, **options)
            return self.calls.run(call, timeout, writes=writes)
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
        """Run a coroutine on the filesystem's loop; cancel it after the timeout."""
        begin = partial(self._awaited, function, *args, **options)
        return run_on_loop(begin, self.filesystem.loop, timeout)

    async def _awaited(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Await a function; a subclass may prepare its client, or map its errors."""
        return await function(*args, **options)
