"""What every fsspec filesystem can be made to do, one attempt at a time.

A backend raises whatever its client raises; the store above it maps errors, repeats
and observes. Traps that are closed here for all (seen in released packages):

- an empty or past-the-end range returns the whole object or one of five errors: the
  store sends neither, and ranges go by keyword (s3fs has ``version_id`` third);
- ``open("wb")`` publishes a partial object when the block fails: only whole objects
  are written;
- listings are cached without end: filesystems are made with the cache off;
- ``find`` and ``walk`` leave out what they may not or cannot list: folders are listed
  one by one;
- a call may hang for minutes: a coroutine is cancelled when its time is up, and a
  synchronous filesystem is left behind on a thread; what it was to write may land
  later, so no other write of that path begins before.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar, Self, cast

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.core import url_to_fs

from tieredfs.errors import NotFoundError
from tieredfs.objects.backends.listing import Child, Listing, ObjectInfo, Page, Walk
from tieredfs.objects.backends.parts import MultipartConfig, Part, UnfinishedUpload
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.call_with_timeout import BlockingCalls, calls_to
from tieredfs.objects.concurrency.daemon_executor import run_on_daemons
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.objects.content import Content
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.identity import place_of

__all__ = ["Backend", "OptionError"]


class OptionError(Exception):
    """An option that the client refuses when it connects."""


class Backend:
    """A filesystem with a root, and the verbs the store is made of.

    Paths are the filesystem's own; keys are relative to the root. Every verb is one
    attempt that takes ``timeout`` seconds at most.
    """

    options: ClassVar[Mapping[str, object]] = {"use_listings_cache": False}
    """Options that the filesystem is made with, unless the user gives them."""

    capabilities: frozenset[StoreCapability] = frozenset(
        {StoreCapability.WRITE, StoreCapability.RANGE_READ}
    )
    """What it can do; only this is asked of it."""

    conditional_put_verified: bool = True
    """Whether EXCLUSIVE_CREATE needs no trial; the store makes one, and sets this."""

    extra: ClassVar[str] = ""
    """Our extra that brings the client's packages; empty where there is none."""

    container: ClassVar[str] = ""
    """What the first part of a path is called where it has to be made before use."""

    at_once: ClassVar[int] = 1
    """Most requests of one call that are under way at the same time."""

    gap: ClassVar[int] = 256 << 10
    """Most bytes between two ranges that are read with them rather than left out."""

    delete_limit: ClassVar[int] = 1
    """Most keys that one request deletes."""

    parts: ClassVar[MultipartConfig | None] = None
    """Which objects are uploaded in parts; None where none are."""

    sends_in_pieces: ClassVar[bool] = False
    """Whether a put reads its content a piece at a time, where waiting stops no other
    call and no timeout runs."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Take a filesystem nobody else uses, and a path in it.

        Args:
            filesystem: Its options are as ``options`` says.
            root: Empty where paths begin with their first name, as in an archive.
        """
        if isinstance(filesystem, AsyncFileSystem):
            run_on_daemons(filesystem.loop)
        self.filesystem = filesystem
        self.root = root.rstrip("/") or root[:1]
        self._lead = self.root if self.root in {"", "/"} else f"{self.root}/"

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Make the backend of a URL.

        Args:
            url: Of a protocol that this class is for.
            options: The user's.
            timeout: Seconds that it may take, where the server is asked at once.
        """
        del timeout
        filesystem, root = url_to_fs(
            url, **{**cls.options, **options}, skip_instance_cache=True
        )
        return cls(filesystem, root)

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return where a client is led by what is neither in its URL nor its options.

        Such as an endpoint in a configuration file. Nothing is asked of any server, and
        nothing returned is secret.

        Raises:
            Exception: The client refuses the options, or is not installed.
        """
        del url, options
        return ""

    def is_broken_by(self, error: Exception) -> bool:
        """Return whether after ``error`` the next try needs a backend made anew."""
        del error
        return False

    def create_works(self) -> bool | None:
        """Return whether creates are exclusive; None where only a trial put tells.

        It is asked until ``conditional_put_verified`` is set, and waits for no server.
        """
        return None

    @cached_property
    def calls(self) -> BlockingCalls:
        """The calls to the same place that cannot be cancelled, of any store."""
        filesystem = self.filesystem
        kind = type(filesystem).__qualname__
        return calls_to(place_of(kind, filesystem.storage_options))

    def path(self, key: str) -> str:
        """Return the filesystem's path of a key."""
        return self._lead + key if key else self.root

    def get(self, key: str, timeout: float) -> bytes | memoryview:
        """Return a whole object."""
        return cast("bytes", self._run("cat_file", timeout, self.path(key)))

    def get_range(
        self, key: str, start: int, end: int, timeout: float
    ) -> bytes | memoryview:
        """Return the bytes ``[start, end)``, which lie inside the object."""
        path = self.path(key)
        return cast("bytes", self._run("cat_file", timeout, path, start=start, end=end))

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Make an object appear whole; FileExistsError if there is one already.

        Where there are ``parts``, what is larger than they say comes here only when its
        upload was disturbed.
        """
        data = content.read(0, content.size)
        mode = "overwrite" if overwrite else "create"
        path = self.path(key)
        self._run("pipe_file", timeout, path, data, writes=path, mode=mode)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Make ``target`` what ``source`` is."""
        path = self.path(target)
        self._run("cp_file", timeout, self.path(source), path, writes=path)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of an object."""
        info = self._run("info", timeout, self.path(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        return self.entry(key, info)

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Return the entries of the next request of a listing, sorted.

        Args:
            listing: What is asked; more may be given than that: the store filters.
            at: None for the first page, else the ``following`` of the one before. It
                may be asked again when it failed.
            timeout: Seconds.
        """
        walk = at if isinstance(at, Walk) else Walk(listing)
        return walk.page(lambda folder: self._children(folder, timeout))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete ``delete_limit`` objects at most; a missing one is no error.

        Returns:
            Why objects could not be deleted that are still there, by key.
        """
        for key in keys:
            with suppress(FileNotFoundError):
                path = self.path(key)
                self._run("rm_file", timeout, path, writes=path)
        return {}

    def begin_upload(self, key: str, timeout: float, *, overwrite: bool) -> str:
        """Begin an upload in parts, and return its name; only with ``parts``."""
        raise NotImplementedError(key)

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Upload one part, and return what the store calls it."""
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
        """Make an object of parts, told in order; FileExistsError as in ``put``."""
        raise NotImplementedError(key)

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove the parts of an upload that will not be finished."""
        raise NotImplementedError(key)

    def begun_before(
        self, key: str, upload: str, seconds: float, timeout: float
    ) -> Sequence[str]:
        """List uploads of a key that began shortly before another, and have no part.

        Args:
            key: What they were to become.
            upload: The other, which is neither finished nor aborted.
            seconds: How long before.
            timeout: Seconds.
        """
        del key, upload, seconds, timeout
        return ()

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List what is left of uploads below the root that began before a moment."""
        del before, timeout
        return ()

    def entry(self, key: str, info: Mapping[str, Any]) -> ObjectInfo:
        """Make an entry of what the filesystem says of one object."""
        if info["size"] is None:
            msg = f"the filesystem does not say the size of {key}"
            raise NotImplementedError(msg)
        tag = info.get("ETag") or info.get("etag") or info.get("generation")
        version = tag or f"{info['size']}-{info.get('mtime') or info.get('created')}"
        return ObjectInfo(key, int(info["size"]), str(version).strip('"'))

    def _children(self, folder: str, timeout: float) -> Iterator[Child]:
        """Yield what lies directly in a folder; nothing if it is not there."""
        path = self.path(folder.removesuffix("/"))
        try:
            found = self._run("ls", timeout, path, detail=True)
        except OSError as error:
            if failure_class(error) is not NotFoundError:
                raise
            return
        for info in found:
            name = str(info["name"]).rstrip("/")
            if not self._lead:
                name = name.lstrip("/")  # some archives name their members so
            key = name.removeprefix(self._lead)
            if not name.startswith(self._lead) or not key.startswith(folder):
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
        """Run a coroutine on the filesystem's loop; cancel it when time is up."""
        coroutine = self._awaited(function, *args, **options)
        future = asyncio.run_coroutine_threadsafe(coroutine, self.filesystem.loop)
        try:
            return result_of(future, timeout)
        except BaseException:
            future.cancel()  # neither a timeout nor Ctrl-C leaves a download behind
            raise

    async def _awaited(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Await a function: for a client that needs something done around it."""
        return await function(*args, **options)
