"""S3 and compatible stores, through s3fs.

Traps closed here, seen with s3fs 2026.9: two retry loops of its own around botocore's,
and one of aiohttp's below them that repeats even an exclusive create when a connection
is reset; 125 attempts and 327 s against a server that hangs: all four are reduced to
one attempt. A whole read or a copy costs an additional HEAD; public fsspec lists
everything in one call and cannot begin after a key, so the underlying client is used;
``?versionId=`` in a key is cut off; a folder marker is listed as an empty object. Every
answer below 300 is taken for success, even a proxy's login page: so an answer must also
contain what S3's always do, such as an etag or a range.

An endpoint may be given in the options, in fsspec's configuration, in the environment
or in the files of the AWS configuration, in each under several names, and some of these
disable others: so the endpoint is read from the client that results from all of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from operator import attrgetter, le
from typing import Any, Self, cast
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from tieredfs.objects.backends.base import CLOUD_CONCURRENCY, Backend, OptionError
from tieredfs.objects.backends.listing import (
    EntryColumns,
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
    UnfinishedUpload,
)
from tieredfs.objects.backends.s3_page import EVENT, parse_page, rows_of, text_of
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.finalizers import close_client
from tieredfs.objects.content import Content
from tieredfs.objects.policy import Deadline

__all__ = ["S3Backend"]

_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId"})
_AMAZON = re.compile(
    r"(?:[^/]+\.)?s3(?:-fips|-accelerate)?(?:\.dualstack)?"
    r"(?:[.-][a-z]+(?:-[a-z]+)+-\d+)?(?:\.vpce)?\.amazonaws\.com(?:\.cn)?"
)
"""Amazon's own S3; other hosts of amazonaws.com may be any customer's server."""
_REQUIRED_FIELD = {
    "complete_multipart_upload": "ETag",
    "copy_object": "ETag",
    "create_multipart_upload": "UploadId",
    "get_object": "ETag",
    "head_object": "ETag",
    "list_objects_v2": "IsTruncated",
    "list_parts": "UploadId",
    "put_object": "ETag",
    "upload_part": "ETag",
}
"""A field that every S3 server includes in its answer to an operation."""
_IN_THE_BODY = frozenset({"delete_objects", "list_multipart_uploads"})
"""Operations whose answer may have an empty result."""
_HTML = "text/html"
_MAX_CONNECTIONS = 256
"""As many as concurrent requests may be chosen; the client's own limit is 10, in which
the requests of twenty partitions wait for each other."""
_TIME_TOLERANCE_SECONDS = 2.0
"""Tolerance, in seconds, for the difference of two upload times reported by S3."""


class S3Backend(Backend):
    """A bucket, or a prefix in one."""

    extra = "s3"
    container_noun = "bucket"
    capabilities = frozenset(StoreCapability)
    conditional_put_known = False
    concurrency = CLOUD_CONCURRENCY
    max_delete_keys = 1000
    parts = MultipartConfig(part_size=8 << 20, max_parts=10_000, concurrency=4)

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Disable the client's retries, and its parsing of keys."""
        super().__init__(filesystem, root)
        for name in ("key", "secret", "token"):  # the client checks them when it signs
            if not isinstance(getattr(filesystem, name), str | None):
                raise TypeError(f"{name} is not a string")
        # An attribute only: no constructor argument reaches it.
        filesystem.retries = 1
        filesystem.config_kwargs = {
            "http_session_cls": _one_try_session(),
            "max_pool_connections": _MAX_CONNECTIONS,
            **filesystem.config_kwargs,
            "retries": {"total_max_attempts": 1},
        }
        self.bucket: str = filesystem.split_path(self.root)[0]
        filesystem.split_path = self._split
        prefix = self.root.removeprefix(self.bucket).strip("/")
        self._prefix = f"{prefix}/" if prefix else ""

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Create the client, which finds its endpoint in its configuration."""
        made = super().open(url, options, timeout)
        # Amazon honours conditions; other servers are probed.
        client = made.run_async(made.filesystem.set_session, timeout)
        made.conditional_put_known = _is_amazon(client.meta.endpoint_url)
        return made

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the endpoint of a client that reads all its configuration."""
        # An anonymous one: to find credentials, a client makes requests.
        anonymous = {"anon": True, "key": None, "secret": None, "token": None}
        chosen = {**cls.options, **options, **anonymous, "cache_regions": False}
        filesystem, _ = url_to_fs(url, **chosen, skip_instance_cache=True)
        filesystem.connect()
        found = str(filesystem.s3.meta.endpoint_url)
        close_client(filesystem)
        return found

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole object in one request."""
        return cast("bytes", self.run_async(self._read, timeout, key))

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)`` in one request."""
        span = (start, end)
        return cast("bytes", self.run_async(self._read, timeout, key, span))

    async def _read(self, key: str, span: tuple[int, int] | None = None) -> bytes:
        asked = {"Range": f"bytes={span[0]}-{span[1] - 1}"} if span else {}
        answer = await self.filesystem._call_s3(  # noqa: SLF001 - no public call of one request
            "get_object", Bucket=self.bucket, Key=self._prefix + key, **asked
        )
        async with answer["Body"] as body:
            _check("get_object", answer)
            content_range = str(answer.get("ContentRange", ""))
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            if span is None and status != HTTPStatus.OK:
                raise OSError(f"the whole object was answered with {status}")
            if span is not None and not content_range.startswith(f"bytes {span[0]}-"):
                found = content_range or status
                raise OSError(f"bytes from {span[0]} on were answered with {found}")
            return cast("bytes", await body.read())

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy ``source`` to ``target`` in one request; 5 GiB at most."""
        whole = {"Bucket": self.bucket, "Key": self._prefix + source}
        self._call("copy_object", timeout, CopySource=whole, Key=self._prefix + target)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of an object in one request."""
        answer = self._call("head_object", timeout, Key=self._prefix + key)
        return ObjectInfo(
            key,
            int(answer["ContentLength"]),
            str(answer["ETag"]).strip('"'),
            to_modified(answer.get("LastModified")),
        )

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List a thousand keys, starting after ``start_after`` or at the token."""
        request: dict[str, object] = {"Prefix": self._prefix + listing.prefix}
        if listing.delimiter:
            request["Delimiter"] = listing.delimiter
        if listing.start_after:
            request["StartAfter"] = self._prefix + listing.start_after
        if at is not None:
            request["ContinuationToken"] = at
        try:
            answer = self.run_async(self._list, timeout, request)
            _check("list_objects_v2", answer)
            listed = self._listed(answer, self._prefix + listing.prefix)
        except (LookupError, ValueError) as error:  # an encoding, or a size
            msg = "the answer is not a listing; check the endpoint"
            raise OSError(msg) from error
        more = answer.get("IsTruncated")
        token = answer.get("NextContinuationToken")
        return Page(listed, check_next(token, at) if more else None)

    async def _list(self, request: Mapping[str, object]) -> dict[str, Any]:
        client = await self.filesystem.get_s3(self.bucket)
        client.meta.events.register_first(EVENT, parse_page, unique_id=EVENT)
        answer = await self.filesystem._call_s3(  # noqa: SLF001 - no public call of one request
            "list_objects_v2", Bucket=self.bucket, **request
        )
        return cast("dict[str, Any]", answer)

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete up to a thousand objects; S3 answers the same for a missing one."""
        if len(keys) == 1:
            self._call("delete_object", timeout, Key=self._prefix + keys[0])
            return {}
        wanted = {"Objects": [{"Key": self._prefix + key} for key in keys]}
        answer = self._call("delete_objects", timeout, Delete=wanted | {"Quiet": True})
        cut = len(self._prefix)
        return {
            str(error["Key"])[cut:]: _key_error(error)
            for error in answer.get("Errors") or ()
            if error.get("Code") != "NoSuchKey"
        }

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a whole object in one request."""
        condition = {} if overwrite else {"IfNoneMatch": "*"}
        body = content.read(0, content.size)
        self._call(
            "put_object", timeout, Key=self._prefix + key, Body=body, **condition
        )

    def begin_upload(self, key: str, timeout: float, *, overwrite: bool) -> str:
        """Begin a multipart upload; the condition applies when it is finished."""
        del overwrite
        answer = self._call("create_multipart_upload", timeout, Key=self._prefix + key)
        return str(answer["UploadId"])

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Upload one part, and return its etag."""
        with _disturbance(key):
            answer = self._call(
                "upload_part",
                timeout,
                Key=self._prefix + key,
                UploadId=upload,
                PartNumber=part.number,
                Body=data,
            )
        return str(answer["ETag"])

    def finish_upload(
        self,
        key: str,
        upload: str,
        tags: Sequence[str],
        timeout: float,
        *,
        overwrite: bool,
    ) -> None:
        """Complete the upload from its parts."""
        condition = {} if overwrite else {"IfNoneMatch": "*"}
        parts = [
            {"PartNumber": number, "ETag": tag}
            for number, tag in enumerate(tags, start=1)
        ]
        with _disturbance(key):
            self._call(
                "complete_multipart_upload",
                timeout,
                Key=self._prefix + key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                **condition,
            )

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Abort an upload; a missing one is not an error."""
        with suppress(FileNotFoundError):
            self._call(
                "abort_multipart_upload",
                timeout,
                Key=self._prefix + key,
                UploadId=upload,
            )

    def begun_before(
        self, key: str, upload: str, seconds: float, timeout: float
    ) -> Sequence[str]:
        """List uploads of a key that began shortly before another, and have no part."""
        end = Deadline(timeout)
        name = self._prefix + key
        found = {
            str(item["UploadId"]): item["Initiated"]
            for item in self._uploads(name, end)
            if item["Key"] == name
        }
        if upload not in found:
            return []
        ours = found.pop(upload)
        first = ours - timedelta(seconds=seconds + _TIME_TOLERANCE_SECONDS)
        early = [number for number, at in found.items() if first <= at <= ours]
        return [number for number in early if not self._has_parts(name, number, end)]

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List the unfinished uploads below the prefix that began before a time."""
        cut = len(self._prefix)
        return [
            UnfinishedUpload(str(item["Key"])[cut:], str(item["UploadId"]))
            for item in self._uploads(self._prefix, Deadline(timeout))
            if item["Initiated"] < before
        ]

    def _uploads(self, prefix: str, end: Deadline) -> Iterator[dict[str, Any]]:
        """Yield S3's records of the uploads of all keys with a prefix."""
        at: dict[str, str] = {}
        while True:
            answer = self._call(
                "list_multipart_uploads", end.check(), Prefix=prefix, **at
            )
            yield from answer.get("Uploads") or ()
            if not answer.get("IsTruncated"):
                return
            upload = answer.get("NextUploadIdMarker", "")
            last = at.get("KeyMarker") if at.get("UploadIdMarker") == upload else None
            key = check_next(answer.get("NextKeyMarker"), last)
            at = {"KeyMarker": key, "UploadIdMarker": upload}

    def _has_parts(self, name: str, upload: str, end: Deadline) -> bool:
        answer = self._call(
            "list_parts", end.check(), Key=name, UploadId=upload, MaxParts=1
        )
        return bool(answer.get("Parts"))

    async def _awaited(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Connect if necessary, and await a function."""
        try:
            await self.filesystem.set_session()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # botocore gets the options unchecked, and has no single error for them.
            raise OptionError(str(error)) from error
        return await function(*args, **options)

    def _split(self, path: str) -> tuple[str, str, None]:
        """Split a path into the bucket and the key, which may contain any text."""
        return self.bucket, path.removeprefix(self.bucket).lstrip("/"), None

    def _listed(self, answer: dict[str, Any], prefix: str) -> Sequence[ObjectInfo]:
        """Return the entries of a page, sorted by key: some servers sort by folder.

        Raises:
            OSError: A key does not begin with the prefix that was asked for.
        """
        cut = len(self._prefix)
        rows = [row for row in rows_of(answer) if not row.key.endswith("/")]
        for row in rows:
            if not row.key.startswith(prefix):
                msg = f"it lists {row.key!r}, which does not begin with {prefix!r}"
                raise OSError(msg)
        found = EntryColumns(
            [row.key[cut:] for row in rows],
            [row.size for row in rows],
            [row.etag for row in rows],
        )
        folders = [
            ObjectInfo(text_of(item["Prefix"])[cut:], None)
            for item in answer.get("CommonPrefixes") or ()
        ]
        if not folders and all(map(le, found.keys, found.keys[1:])):
            return found
        return sorted([*found, *folders], key=attrgetter("key"))

    def _call(
        self, operation: str, timeout: float, **parameters: object
    ) -> dict[str, Any]:
        answer = self.run_async(
            self.filesystem._call_s3,  # noqa: SLF001 - no public call of one request
            timeout,
            operation,
            Bucket=self.bucket,
            **parameters,
        )
        _check(operation, answer)
        return cast("dict[str, Any]", answer)


def _check(operation: str, answer: Mapping[str, Any]) -> None:
    """Refuse an answer that is not S3's.

    Raises:
        OSError: It lacks a field that S3 always includes, or is an HTML page.
    """
    headers = answer["ResponseMetadata"].get("HTTPHeaders", {})
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    wanted = _REQUIRED_FIELD.get(operation)
    kind = str(headers.get("content-type", ""))
    if operation == "copy_object":  # its result has a field of its own
        answer = answer.get("CopyObjectResult", {})
    is_success = status == HTTPStatus.OK or operation not in _IN_THE_BODY
    # moto gives an empty answer the content type of a page.
    is_page = kind.startswith(_HTML) and status != HTTPStatus.NO_CONTENT
    is_s3 = answer.get(wanted) not in (None, "") if wanted else not is_page
    if is_success and is_s3:
        return
    raise OSError(f"{status}: not an answer of S3's; check the endpoint")


@contextmanager
def _disturbance(key: str) -> Iterator[None]:
    """Raise DisturbedUploadError if another client has aborted the upload."""
    try:
        yield
    except FileNotFoundError as error:
        msg = f"{key}: the upload is no longer there"
        raise DisturbedUploadError(msg) from error


def _is_amazon(endpoint: str) -> bool:
    return bool(_AMAZON.fullmatch(urlsplit(endpoint).hostname or ""))


def _key_error(error: Mapping[str, Any]) -> Exception:
    """Return the error for one key of a bulk delete."""
    code = str(error.get("Code", ""))
    message = f"{code}: {error.get('Message', '')}"
    return PermissionError(message) if code in _DENIED else OSError(message)


def _one_try_session() -> type:
    """Return a class of aiobotocore sessions that send each request once."""
    # Not at the top: tieredfs is imported without any cloud's client.
    from aiobotocore.httpsession import AIOHTTPSession  # noqa: PLC0415

    class OneTrySession(AIOHTTPSession):  # type: ignore[misc] # it has no types
        async def _get_session(self, proxy_url: str | None) -> Any:  # noqa: ANN401 - aiohttp's
            session = await super()._get_session(proxy_url)
            session._retry_connection = False  # noqa: SLF001 - there is no other way
            return session

    return OneTrySession
