"""Web servers, read-only.

Traps closed here, seen with fsspec's HTTPFileSystem 2026.9: a range returns the whole
object when the server does not support ranges; every failure of ``info`` is "not
found"; a name is appended after the query of a signed URL; a listing takes every link
of a page for an entry of the folder; aiohttp retries a request whose connection was
reset, and asks for compressed bodies, in which ranges have other bytes. A folder
answers like a file, with its index page: a URL that ends in a slash after all redirects
is not an object.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from html.parser import HTMLParser
from typing import Any, cast
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from fsspec import AbstractFileSystem

from tieredfs.objects.backends.base import CLOUD_CONCURRENCY, Backend
from tieredfs.objects.backends.listing import Child, Listing, ObjectInfo, Page, Walk
from tieredfs.objects.capabilities import StoreCapability

__all__ = ["HttpBackend"]

_UNQUOTED = "%/?:@!$&'()*+,;=~-._[]"
_NO_HEAD = frozenset({403, 405, 501})
"""Statuses with which servers refuse HEAD: 403 if a URL is signed for GET only."""

_OK, _PARTIAL, _NOT_FOUND, _NO_SUCH_RANGE = 200, 206, 404, 416


class HttpBackend(Backend):
    """The objects below a URL; each request has its query, such as a signature."""

    extra = "http"
    capabilities = frozenset({StoreCapability.RANGE_READ})
    concurrency = CLOUD_CONCURRENCY

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Split the URL: keys are inserted before its query."""
        url = urlsplit(root)
        if not url.hostname or url.port == 0:  # `port` raises for an invalid port
            raise ValueError("the URL names no server")
        folder = quote(url.path, safe=_UNQUOTED).rstrip("/")
        super().__init__(
            filesystem, urlunsplit((url.scheme, url.netloc, folder, "", ""))
        )
        self._query = quote(url.query, safe=_UNQUOTED)

    def path(self, key: str) -> str:
        """Return the URL of a key."""
        url = f"{self.root}/{quote(key, safe='/')}"
        return f"{url}?{self._query}" if self._query else url

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole object in one request."""
        return cast("bytes", self.run_async(self._read, timeout, key))

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)`` in one request."""
        read = self.run_async(self._read_range, timeout, key, start, end)
        return cast("bytes", read)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of an object in one request; two without HEAD."""
        return cast("ObjectInfo", self.run_async(self._head, timeout, key))

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Read the index page of a folder, and request the size of each link."""
        walk = at if isinstance(at, Walk) else Walk(listing)

        def read(folder: str) -> Iterator[Child]:
            found = self.run_async(self._folder, timeout, folder, walk.wants)
            return iter(cast("list[Child]", found))

        return walk.page(read)

    async def _read(self, key: str) -> bytes:
        async with self._ask("GET", self.path(key)) as answer:
            return cast("bytes", await answer.read())

    async def _read_range(self, key: str, start: int, end: int) -> bytes:
        wanted = {"Range": f"bytes={start}-{end - 1}"}
        async with self._ask("GET", self.path(key), wanted, _PARTIAL) as answer:
            if answer.status == _PARTIAL:
                begin, _, _ = _content_range(answer)
                if begin != start:
                    msg = f"{key}: the server gave bytes from {begin} on, not {start}"
                    raise OSError(msg)
                data = await answer.read()
                return cast("bytes", data[: end - start])
            # The server sends the whole object: read no more of it than needed.
            self.capabilities -= {StoreCapability.RANGE_READ}
            data = bytearray()
            async for piece in answer.content.iter_any():
                data += piece
                if len(data) >= end:
                    answer.close()
                    break
            return bytes(data[start:end])

    async def _head(self, key: str) -> ObjectInfo:
        from aiohttp import ClientResponseError  # noqa: PLC0415 - only when needed

        try:
            async with self._ask("HEAD", self.path(key)) as answer:
                return _entry(key, answer, answer.headers.get("Content-Length"))
        except ClientResponseError as error:
            if error.status not in _NO_HEAD:
                raise
        first = {"Range": "bytes=0-0"}
        ranged = (_PARTIAL, _NO_SUCH_RANGE)
        async with self._ask("GET", self.path(key), first, *ranged) as answer:
            if answer.status in ranged:
                return _entry(key, answer, _content_range(answer)[2])
            answer.close()  # its body is the whole object
            return _entry(key, answer, answer.headers.get("Content-Length"))

    async def _folder(self, folder: str, wanted: Callable[[str], bool]) -> list[Child]:
        """Return the entries that the index page of a folder links to, with sizes."""
        try:
            links = await self._links(folder)
        except FileNotFoundError:
            # Either the folder does not exist, or the server has no index pages.
            with suppress(FileNotFoundError):
                if folder:
                    await self._links("")
                    return []
            msg = f"the server has no index page at {self.root}/"
            raise NotImplementedError(msg) from None
        limit = asyncio.Semaphore(self.concurrency)

        async def child(key: str) -> Child | None:
            if key.endswith("/") or not wanted(key):
                return key, None
            async with limit:
                try:
                    entry = await self._head(key)
                except FileNotFoundError:
                    return None
                return key, lambda: entry

        tasks = [asyncio.ensure_future(child(key)) for key in links]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # when one fails, the others would go on
                task.cancel()
        return [each for each in found if each is not None and wanted(each[0])]

    async def _links(self, folder: str) -> set[str]:
        """Return the keys directly in a folder; the key of a folder ends in /."""
        base = self.path(folder) if folder else self.path("")
        async with self._ask("GET", base, folder=True) as answer:
            if answer.content_type not in {"text/html", "application/xhtml+xml"}:
                msg = f"the server has no index page at {self.root}/{folder}"
                raise NotImplementedError(msg)
            page = _Page()
            page.feed(await answer.text(errors="replace"))
            here = str(answer.url)
        lead = unquote(urlsplit(here).path)
        keys = set()
        for link in page.links:
            target = urlsplit(urljoin(here, link))
            path = unquote(target.path)
            name = path.removeprefix(lead)
            same = target.netloc == urlsplit(here).netloc and path.startswith(lead)
            sorts = target.query and target.query != self._query  # re-sorts the page
            if same and not sorts and name and "/" not in name[:-1] and name != "/":
                keys.add(folder + name)
        return keys

    @asynccontextmanager
    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *good: int,
        folder: bool = False,
    ) -> AsyncIterator[Any]:
        """Make one request; only 200 and the statuses in ``good`` mean success."""
        # Not at the top: tieredfs is imported without the client of any store.
        from aiohttp import ClientTimeout  # noqa: PLC0415
        from yarl import URL  # noqa: PLC0415

        filesystem = self.filesystem
        session = await filesystem.set_session()
        # There is no other way when the session is the filesystem's.
        session._retry_connection = session._auto_decompress = False  # noqa: SLF001
        sent: dict[str, Any] = {
            "allow_redirects": True,
            "timeout": ClientTimeout(total=None),  # not aiohttp's five minutes
            **filesystem.kwargs,
        }
        own = {"Accept-Encoding": "identity", **(headers or {})}
        sent["headers"] = {**sent.get("headers", {}), **own}
        async with session.request(method, URL(url, encoded=True), **sent) as answer:
            if answer.status == _NOT_FOUND:
                raise FileNotFoundError(url)
            if answer.status not in {_OK, *good}:
                answer.raise_for_status()
                # Neither an object nor a refusal: 204, or a redirect without target.
                raise OSError(f"unexpected status {answer.status} for {method}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise NotImplementedError("the server compresses what it sends")
            if answer.url.path.endswith("/") is not folder:
                raise FileNotFoundError(url)
            yield answer


class _Page(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a link."""
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _content_range(answer: Any) -> tuple[int, int, str]:  # noqa: ANN401 - aiohttp's
    """Return first byte, last byte and size, as far as the header gives them."""
    header = answer.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", header)
    if match is None:
        raise OSError(f"invalid Content-Range: {header!r}")
    return int(match[1] or -1), int(match[2] or -1), match[3]


def _entry(key: str, answer: Any, size: object) -> ObjectInfo:  # noqa: ANN401 - aiohttp's
    """Return the entry of an object from the headers of an answer."""
    text = str(size)
    if not text.isdecimal():
        raise NotImplementedError(f"the server does not report the size of {key}")
    tag = answer.headers.get("ETag", "").removeprefix("W/").strip('"')
    changed = answer.headers.get("Last-Modified", "")
    return ObjectInfo(key, int(text), tag or f"{text}-{changed}")
