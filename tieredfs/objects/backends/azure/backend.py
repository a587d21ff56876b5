"""Azure Blob Storage, flat or hierarchical, through adlfs.

Traps closed here, seen with adlfs 2026.8 and azure-storage-blob 12.31: adlfs has no
option for retries, and 4 attempts against a server that hangs take 87 s; on top of
that, a download is requested three times. So adlfs only finds the credentials, and a
client of our own uses them. A range above 32 MiB is several requests, an empty blob
read whole is two, and a gzipped one is inflated. Every 409 is reported as an existing
object, and an answer with a code and no message ends in a TypeError. A folder is listed
and read as an empty object. A listing that begins at a key may omit keys: see
`_IN_ANY_ORDER`.

Uncommitted blocks belong to the object, not to the writer that put them. Putting the
object, or committing other blocks, removes all of them, and the names of all must have
one length. So another writer, or blocks that one has left behind, can spoil an upload
in blocks, which is then repeated as one request. (This is what Microsoft documents. In
Azurite, uncommitted blocks survive a put, and prevent a create as if they were an
object.)

Objects are deleted one by one. A batch needs the permission to write as well as to
delete, which a SAS may lack, and Azurite accepts no batch from this client.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, cast

from fsspec import AbstractFileSystem

from tieredfs.objects.backends.azure.client import (
    close_with,
    endpoint_of,
    make_container,
)
from tieredfs.objects.backends.azure.page import PageTaker
from tieredfs.objects.backends.base import CLOUD_CONCURRENCY, Backend
from tieredfs.objects.backends.listing import (
    Listing,
    ObjectInfo,
    Page,
    check_next,
    to_modified,
)
from tieredfs.objects.backends.multipart import (
    DisturbedUploadError,
    MultipartConfig,
    Part,
)
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content, ContentReader
from tieredfs.objects.errors_map import links

__all__ = ["AzureBackend"]

_DISTURBED = frozenset(
    {
        "BlockCountExceedsLimit",
        "InvalidBlobOrBlock",
        "InvalidBlobType",
        "InvalidBlockList",
    }
)
"""Error codes of an upload in blocks when the object has another writer's blocks."""
_NOT_THERE = frozenset({"BlobNotFound", "DirectoryIsNotEmpty"})
_MARKS = ("hdi_isfolder", "is_directory")
_METADATA = "x-ms-meta-"
_NO_SUCH_RANGE = 416
_MAX_PAGE_KEYS = 1000
_POLL = timedelta(seconds=0.5)
_IN_ANY_ORDER = re.compile(r"[^\0-.]*")
"""The part of a key before the first character that sorts below a slash.

A hierarchical account lists ``a/b`` before ``a-b``, because it lists folder by folder.
Starting at ``a-b`` would omit ``a/b``, which sorts after it; ``a`` precedes both in
either order.
"""


class AzureBackend(Backend):
    """A container, or a prefix in one."""

    extra = "azure"
    container_noun = "container"
    capabilities = frozenset(
        {
            StoreCapability.WRITE,
            StoreCapability.WHOLE_OBJECTS,
            StoreCapability.EXCLUSIVE_CREATE,
            StoreCapability.RANGE_READ,
            StoreCapability.PARTS,
        }
    )
    concurrency = CLOUD_CONCURRENCY
    parts = MultipartConfig(
        part_size=16 << 20,
        max_parts=50_000,
        concurrency=8,
        has_begin=False,
    )
    max_buffered_bytes: ClassVar[int] = 64 << 20
    """Maximum bytes of a put that are held in memory; a larger one is streamed."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Create a client with the filesystem's account and credentials."""
        super().__init__(filesystem, root)
        name, _, prefix = self.root.partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._container = make_container(filesystem, name, self.max_buffered_bytes)
        close_with(self, filesystem, self._container)

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the account that adlfs reads from its options and the environment."""
        return endpoint_of(url, {**cls.options, **options})

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole object in one request."""
        return cast("bytes", self.run_async(self._read, timeout, key))

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)`` in one request, however many."""
        span = f"bytes={start}-{end - 1}"
        return cast("bytes", self.run_async(self._read, timeout, key, span))

    async def _read(self, key: str, span: str | None = None) -> bytes:
        # The public download splits a request, retries it, inflates the body, and
        # leaves the connection open when it is cancelled.
        blobs = self._blob(key)._client.blob  # noqa: SLF001
        try:
            body = await blobs.download(range=span)
        except Exception as error:
            # An empty blob, as a folder marker is.
            if getattr(error, "status_code", None) == _NO_SUCH_RANGE:
                await self._head(key)
            raise
        answer = body.response
        if _is_folder(_metadata(answer.headers)):
            answer.internal_response.close()
            raise FileNotFoundError(key)
        found = str(answer.headers.get("Content-Range", ""))
        if span and not found.startswith(span.replace("=", " ").partition("-")[0]):
            answer.internal_response.close()
            raise OSError(f"{span} was answered with {found or answer.status_code}")
        if span is None and found:
            answer.internal_response.close()
            raise OSError(f"the whole object was answered with {found}")
        return cast("bytes", await answer.internal_response.read())

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a whole object in one request."""
        if content.size > self.max_buffered_bytes:
            self.run_async(self._stream, timeout, key, content, overwrite=overwrite)
            return
        data = content.read(0, content.size)
        upload = self._blob(key).upload_blob
        self.run_async(upload, timeout, data, overwrite=overwrite)

    async def _stream(self, key: str, content: Content, *, overwrite: bool) -> None:
        # Not at the top: tieredfs is imported without any cloud's client.
        from azure.storage.blob._generated.models import (  # noqa: PLC0415 - the public upload wants it all in memory
            ModifiedAccessConditions,
        )

        condition = ModifiedAccessConditions(if_none_match=None if overwrite else "*")
        body = ContentReader(content)
        try:
            await self._blob(key)._client.block_blob.upload(  # noqa: SLF001 - as above
                content_length=content.size,
                body=body,
                modified_access_conditions=condition,
            )
        except Exception:
            if body.failure is not None:
                raise body.failure from None
            raise

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy ``source`` to ``target``; within an account that is one request."""
        self.run_async(self._copy, timeout, source, target)

    async def _copy(self, source: str, target: str) -> None:
        # The synchronous copy takes 256 MiB at most, and needs more than an account
        # key.
        blob = self._blob(target)
        answer = await blob.start_copy_from_url(self._blob(source).url)
        status = answer["copy_status"]
        while status == "pending":
            await asyncio.sleep(_POLL.total_seconds())
            status = (await blob.get_blob_properties()).copy.status
        if status != "success":
            msg = f"the copy of {source} to {target} ended as {status}"
            raise OSError(msg)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of an object in one request."""
        return cast("ObjectInfo", self.run_async(self._head, timeout, key))

    async def _head(self, key: str) -> ObjectInfo:
        found = await self._blob(key).get_blob_properties()
        if _is_folder(found.metadata):
            raise FileNotFoundError(key)
        etag, modified = str(found.etag).strip('"'), to_modified(found.last_modified)
        return ObjectInfo(key, int(found.size), etag, modified)

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List a thousand keys, starting at the token ``at``."""
        return cast("Page", self.run_async(self._page, timeout, listing, at))

    async def _page(self, listing: Listing, at: object) -> Page:
        wanted = {
            "name_starts_with": self._prefix + listing.prefix,
            "include": ["metadata"],
            "results_per_page": _MAX_PAGE_KEYS,
        }
        taker = PageTaker()
        if listing.delimiter:
            found = self._container.walk_blobs(delimiter=listing.delimiter, **wanted)
        else:
            # Azurite ignores this, and starts at the first key.
            begin = self._begin(listing)
            found = self._container.list_blobs(
                start_from=begin, raw_response_hook=taker, **wanted
            )
        pages = found.by_page(at)
        try:
            items = [item async for item in await anext(pages)] + (taker.blobs or [])
        except (AttributeError, LookupError, ValueError) as error:
            # The client expects a listing in the answer.
            msg = "the answer is not a listing; check the endpoint"
            raise OSError(msg) from error
        entries = sorted(self._listed(items), key=lambda entry: entry.key)
        following = pages.continuation_token
        return Page(entries, check_next(following, at) if following else None)

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete an object; a missing one is not an error."""
        for key in keys:
            try:
                self.run_async(self._blob(key).delete_blob, timeout)
            except Exception as error:
                if _code(error) not in _NOT_THERE:
                    raise
        return {}

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Upload one block, and return its name; unused blocks expire in a week."""
        name = f"{upload}-{part.number:05d}"
        stage = self._blob(key).stage_block
        with _disturbance(key):
            self.run_async(stage, timeout, name, data, length=len(data))
        return name

    def finish_upload(
        self,
        key: str,
        upload: str,
        tags: Sequence[str],
        timeout: float,
        *,
        overwrite: bool,
    ) -> None:
        """Commit the blocks as an object."""
        # Not at the top: tieredfs is imported without any cloud's client.
        from azure.core import MatchConditions  # noqa: PLC0415
        from azure.storage.blob import BlobBlock  # noqa: PLC0415

        del upload
        condition = {} if overwrite else {"match_condition": MatchConditions.IfMissing}
        blocks = [BlobBlock(tag) for tag in tags]
        commit = self._blob(key).commit_block_list
        with _disturbance(key):
            self.run_async(commit, timeout, blocks, **condition)

    async def _awaited(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Await a function; raise the server's error, not the client's TypeError."""
        try:
            return await function(*args, **options)
        except TypeError as error:
            # The client fails on an answer that has a code and no message.
            answers = [link for link in links(error) if hasattr(link, "status_code")]
            if not answers:
                raise
            raise answers[0] from None

    def _blob(self, key: str) -> Any:  # noqa: ANN401 - the client has no types here
        return self._container.get_blob_client(self._prefix + key)

    def _begin(self, listing: Listing) -> str | None:
        """Return where to start so that no key after ``start_after`` is omitted."""
        if not listing.start_after.startswith(listing.prefix):
            return None
        rest = listing.start_after.removeprefix(listing.prefix)
        found = _IN_ANY_ORDER.match(rest)
        return self._prefix + listing.prefix + found[0] if found and found[0] else None

    def _listed(self, items: Sequence[Any]) -> Iterator[ObjectInfo]:
        cut = len(self._prefix)
        for item in items:
            key = str(item.name)[cut:]
            if not hasattr(item, "size"):
                yield ObjectInfo(key, None)
            elif not key.endswith("/") and not _is_folder(item.metadata):
                yield ObjectInfo(key, int(item.size), str(item.etag).strip('"'))


@contextmanager
def _disturbance(key: str) -> Iterator[None]:
    """Raise DisturbedUploadError for errors caused by another writer's blocks."""
    try:
        yield
    except Exception as error:
        code = _code(error)
        if code not in _DISTURBED:
            raise
        msg = f"{key} has blocks of another writer: {code}"
        raise DisturbedUploadError(msg) from error


def _code(error: Exception) -> str:
    """Return Azure's code of an error; the client's own list of codes lacks some."""
    answer = getattr(error, "response", None)
    return str(answer.headers.get("x-ms-error-code", "")) if answer else ""


def _metadata(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the metadata of an object from the headers of an answer."""
    return {
        name.lower().removeprefix(_METADATA): value
        for name, value in headers.items()
        if name.lower().startswith(_METADATA)
    }


def _is_folder(metadata: Mapping[str, str] | None) -> bool:
    """Return whether the metadata marks a folder, as accounts and tools mark them.

    Names of metadata are case-insensitive, and keep the case they were given.
    """
    marks = {name.lower(): value for name, value in (metadata or {}).items()}
    return "true" in {str(marks.get(name)).lower() for name in _MARKS}
