"""S3 and what speaks its protocol, through s3fs.

Traps closed here, seen with s3fs 2026.9: two retry loops of its own around botocore's,
and one of aiohttp's below them that repeats even an exclusive create when a connection
is reset; 125 tries and 327 s against a server that hangs: all four are turned down to
one attempt. A whole read or a copy costs a HEAD more; public fsspec lists everything
at once and cannot begin after a key, so the client underneath is asked; ``?versionId=``
in a key is cut off; a folder marker is listed as an object of no bytes. Every answer
below 300 is taken for success, such as a proxy's login page: so what S3 always says
besides, an etag or a place in the object, has to be there.

An endpoint may stand in the options, in fsspec's configuration, in the environment or
in the files of the AWS configuration, in each by several names, and some of them switch
others off: so only the client that came of it all is asked where it leads.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Self, cast
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from tieredfs.objects.backends.base import Backend, OptionError
from tieredfs.objects.backends.listing import Listing, ObjectInfo, Page
from tieredfs.objects.backends.parts import (
    DisturbedUploadError,
    MultipartConfig,
    Part,
    UnfinishedUpload,
)
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content
from tieredfs.objects.policy import Deadline

__all__ = ["S3Backend"]

_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId"})
_AMAZON = re.compile(
    r"(?:[^/]+\.)?s3(?:-fips|-accelerate)?(?:\.dualstack)?"
    r"(?:[.-][a-z]+(?:-[a-z]+)+-\d+)?(?:\.vpce)?\.amazonaws\.com(?:\.cn)?"
)
"""Amazon's own S3; a load balancer or a machine there may be anybody's."""
_ALWAYS = {
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
"""What an answer to an operation has in it, whatever speaks S3."""
_IN_THE_BODY = frozenset({"delete_objects", "list_multipart_uploads"})
"""Operations whose answer may say nothing but that it is one."""
_PAGE = "text/html"
_TICK = 2.0
"""Seconds by which two times that S3 says of uploads may be too near or too far."""


class S3Backend(Backend):
    """A bucket, or a prefix in one."""

    extra = "s3"
    container = "bucket"
    capabilities = frozenset(StoreCapability)
    conditional_put_verified = False
    at_once = 16
    delete_limit = 1000
    parts = MultipartConfig(
        threshold=64 << 20, part_size=8 << 20, max_parts=10_000, concurrency=4
    )

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Leave retries to the store, and keys as they stand."""
        super().__init__(filesystem, root)
        for name in ("key", "secret", "token"):  # the client looks when it signs
            if not isinstance(getattr(filesystem, name), str | None):
                raise TypeError(f"{name} is no text")
        # An attribute only: no constructor argument reaches it.
        filesystem.retries = 1
        filesystem.config_kwargs = {
            "http_session_cls": _one_try_session(),
            **filesystem.config_kwargs,
            "retries": {"total_max_attempts": 1},
        }
        self.bucket: str = filesystem.split_path(self.root)[0]
        filesystem.split_path = self._split
        prefix = self.root.removeprefix(self.bucket).strip("/")
        self._prefix = f"{prefix}/" if prefix else ""

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Make the client, which knows where its configuration leads it."""
        made = super().open(url, options, timeout)
        # Amazon's conditions hold; those of others are tried.
        client = made.run_async(made.filesystem.set_session, timeout)
        made.conditional_put_verified = _is_amazon(client.meta.endpoint_url)
        return made

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the endpoint of a client that is made of all its configuration."""
        # One that is nobody's: to find credentials, a client asks other services.
        nobody = {"anon": True, "key": None, "secret": None, "token": None}
        chosen = {**cls.options, **options, **nobody, "cache_regions": False}
        filesystem, _ = url_to_fs(url, **chosen, skip_instance_cache=True)
        filesystem.connect()
        return str(filesystem.s3.meta.endpoint_url)

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
            said = str(answer.get("ContentRange", ""))
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            if span is None and status != HTTPStatus.OK:
                raise OSError(f"the whole object was answered with {status}")
            if span is not None and not said.startswith(f"bytes {span[0]}-"):
                msg = f"bytes from {span[0]} on were answered with {said or status}"
                raise OSError(msg)
            return cast("bytes", await body.read())

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Make ``target`` what ``source`` is, in one request; 5 GiB at most."""
        whole = {"Bucket": self.bucket, "Key": self._prefix + source}
        self._call("copy_object", timeout, CopySource=whole, Key=self._prefix + target)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of an object in one request."""
        answer = self._call("head_object", timeout, Key=self._prefix + key)
        return ObjectInfo(
            key, int(answer["ContentLength"]), str(answer["ETag"]).strip('"')
        )

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List a thousand keys, from ``start_after`` or the token ``at`` on."""
        request: dict[str, object] = {"Prefix": self._prefix + listing.prefix}
        if listing.delimiter:
            request["Delimiter"] = listing.delimiter
        if listing.start_after:
            request["StartAfter"] = self._prefix + listing.start_after
        if at is not None:
            request["ContinuationToken"] = at
        answer = self._call("list_objects_v2", timeout, **request)
        entries = sorted(self._listed(answer), key=lambda entry: entry.key)
        more = answer.get("IsTruncated")
        return Page(entries, answer["NextContinuationToken"] if more else None)

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
        """Make an object appear whole, in one request."""
        condition = {} if overwrite else {"IfNoneMatch": "*"}
        body = content.read(0, content.size)
        self._call(
            "put_object", timeout, Key=self._prefix + key, Body=body, **condition
        )

    def begin_upload(self, key: str, timeout: float, *, overwrite: bool) -> str:
        """Begin an upload in parts; the condition is for its end."""
        del overwrite
        answer = self._call("create_multipart_upload", timeout, Key=self._prefix + key)
        return str(answer["UploadId"])

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Upload one part, and return its etag."""
        with _kept(key):
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
        """Make an object of the parts."""
        condition = {} if overwrite else {"IfNoneMatch": "*"}
        parts = [
            {"PartNumber": number, "ETag": tag}
            for number, tag in enumerate(tags, start=1)
        ]
        with _kept(key):
            self._call(
                "complete_multipart_upload",
                timeout,
                Key=self._prefix + key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                **condition,
            )

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove the parts of an upload; one that is gone is no error."""
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
        first = ours - timedelta(seconds=seconds + _TICK)
        early = [number for number, at in found.items() if first <= at <= ours]
        return [number for number in early if not self._has_parts(name, number, end)]

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List the uploads that were begun, below the prefix, before a moment."""
        cut = len(self._prefix)
        return [
            UnfinishedUpload(str(item["Key"])[cut:], str(item["UploadId"]))
            for item in self._uploads(self._prefix, Deadline(timeout))
            if item["Initiated"] < before
        ]

    def _uploads(self, prefix: str, end: Deadline) -> Iterator[dict[str, Any]]:
        """Yield what S3 says of all uploads of keys that begin with a text."""
        at: dict[str, object] = {}
        while True:
            answer = self._call(
                "list_multipart_uploads", end.check(), Prefix=prefix, **at
            )
            yield from answer.get("Uploads") or ()
            if not answer.get("IsTruncated"):
                return
            at = {
                "KeyMarker": answer["NextKeyMarker"],
                "UploadIdMarker": answer["NextUploadIdMarker"],
            }

    def _has_parts(self, name: str, upload: str, end: Deadline) -> bool:
        answer = self._call(
            "list_parts", end.check(), Key=name, UploadId=upload, MaxParts=1
        )
        return bool(answer.get("Parts"))

    async def _awaited(
        self, function: Callable[..., Any], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        """Connect if that has not been done, and await a function."""
        try:
            await self.filesystem.set_session()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # The options go to botocore as they are, which has no one error for them.
            raise OptionError(str(error)) from error
        return await function(*args, **options)

    def _split(self, path: str) -> tuple[str, str, None]:
        """Tell the bucket from the key, which may have any text in it."""
        return self.bucket, path.removeprefix(self.bucket).lstrip("/"), None

    def _listed(self, answer: dict[str, Any]) -> Iterator[ObjectInfo]:
        cut = len(self._prefix)
        for item in answer.get("Contents") or ():
            key = str(item["Key"])[cut:]
            if not key.endswith("/"):
                etag = str(item.get("ETag", "")).strip('"')
                yield ObjectInfo(key, int(item["Size"]), etag)
        for item in answer.get("CommonPrefixes") or ():
            yield ObjectInfo(str(item["Prefix"])[cut:], None)

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
        OSError: It lacks what S3 always says, or is a page for a browser.
    """
    headers = answer["ResponseMetadata"].get("HTTPHeaders", {})
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    wanted = _ALWAYS.get(operation)
    kind = str(headers.get("content-type", ""))
    if operation == "copy_object":  # what it made stands in a field of its own
        answer = answer.get("CopyObjectResult", {})
    is_success = status == HTTPStatus.OK or operation not in _IN_THE_BODY
    # moto calls what has no content a page.
    is_page = kind.startswith(_PAGE) and status != HTTPStatus.NO_CONTENT
    said = answer.get(wanted) not in (None, "") if wanted else not is_page
    if is_success and said:
        return
    raise OSError(f"{status}: not an answer of S3's; check the endpoint")


@contextmanager
def _kept(key: str) -> Iterator[None]:
    """Let what was to be uploaded be put whole where someone has aborted its upload."""
    try:
        yield
    except FileNotFoundError as error:
        msg = f"{key}: the upload is no longer there"
        raise DisturbedUploadError(msg) from error


def _is_amazon(endpoint: str) -> bool:
    return bool(_AMAZON.fullmatch(urlsplit(endpoint).hostname or ""))


def _key_error(error: Mapping[str, Any]) -> Exception:
    """Make an error of what S3 says of one key of many."""
    code = str(error.get("Code", ""))
    said = f"{code}: {error.get('Message', '')}"
    return PermissionError(said) if code in _DENIED else OSError(said)


def _one_try_session() -> type:
    """Make the class of aiobotocore's sessions that send a request once."""
    # Not at the top: tieredfs is imported without any cloud's client.
    from aiobotocore.httpsession import AIOHTTPSession  # noqa: PLC0415

    class OneTrySession(AIOHTTPSession):  # type: ignore[misc] # it has no types
        async def _get_session(self, proxy_url: str | None) -> Any:  # noqa: ANN401 - aiohttp's
            session = await super()._get_session(proxy_url)
            session._retry_connection = False  # noqa: SLF001 - there is no other way
            return session

    return OneTrySession
