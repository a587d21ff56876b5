"""Google Cloud Storage, through gcsfs.

Traps closed here and in ``client``, seen with gcsfs 2026.10 and fake-gcs-server:
``cat_file`` accepts a body that does not match the checksum it came with; an object
stored as gzip is returned inflated, with another size than listed; ``info`` of a
missing object lists the bucket; ``find`` lists everything in one call and cannot begin
after a key; a bulk delete retries on its own; ``pipe_file`` splits objects from 50 MiB
on; fake-gcs-server honours a condition on a multipart/related upload, not on an upload
of the bare bytes, and not on one in a session.
"""

import json
import time
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Self, cast
from urllib.parse import quote, urlencode, urlsplit

import google_crc32c
from fsspec import AbstractFileSystem

from tieredfs.objects.backends.base import CLOUD_CONCURRENCY, Backend
from tieredfs.objects.backends.gcs.bodies import answers, deletions, described
from tieredfs.objects.backends.gcs.errors_map import MissingError, UnexpectedAnswerError
from tieredfs.objects.backends.gcs.sessions import Send, Session, SessionError, crc32c
from tieredfs.objects.backends.listing import (
    Listing,
    ObjectInfo,
    Page,
    check_next,
    to_modified,
)
from tieredfs.objects.backends.multipart import MultipartConfig, Part
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content

__all__ = ["GCSBackend"]

_DELETED = (HTTPStatus.OK, HTTPStatus.NO_CONTENT)
_OPENED = (HTTPStatus.OK, HTTPStatus.CREATED)
_TAKEN = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.PERMANENT_REDIRECT)
"""Answers to bytes sent to a session; a "redirect" means that more are expected."""
_CANCELLED = (HTTPStatus.OK, HTTPStatus.NO_CONTENT, 499)
"""Google's own 499 confirms that an upload was cancelled."""

_NULL = b"null"
"""The body of fake-gcs-server's answer to a delete; Google's is empty."""


class GCSBackend(Backend):
    """A bucket, or a prefix in one.

    Unfinished uploads cannot be listed, and expire after a week.
    """

    extra = "gcs"
    container_noun = "bucket"
    capabilities = frozenset(StoreCapability)
    concurrency = CLOUD_CONCURRENCY
    max_delete_keys = 100
    parts = MultipartConfig(
        part_size=32 << 20,
        max_parts=100_000,
        concurrency=1,
        has_listing=False,
    )

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Split the root into bucket and prefix.

        Raises:
            ValueError: The URL names no bucket.
        """
        super().__init__(filesystem, root)
        self.bucket, _, prefix = self.root.strip("/").partition("/")
        if not self.bucket:
            raise ValueError("the URL names no bucket")
        self._prefix = f"{prefix}/" if prefix else ""
        # Google honours conditions; other servers are probed.
        host = urlsplit(self.endpoint).hostname or ""
        self.conditional_put_known = host.endswith(".googleapis.com")
        self._sessions: dict[str, Session] = {}

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Create the plain filesystem, whatever class the environment selects."""
        del timeout
        # Not at the top: tieredfs is imported without any cloud's client.
        from tieredfs.objects.backends.gcs.client import OneTryFileSystem  # noqa: PLC0415

        chosen = {**cls.options, **options, "skip_instance_cache": True}
        root = OneTryFileSystem._strip_protocol(url)  # noqa: SLF001 - no public one
        return cls(OneTryFileSystem(**chosen), root)

    @classmethod
    def destination(cls, url: str, options: Mapping[str, object]) -> str:
        """Return the endpoint that gcsfs reads from its options and the environment."""
        return cls.open(url, {**options, "token": "anon"}, 0).endpoint

    def get(self, key: str, timeout: float) -> memoryview:
        """Return a whole object in one request, with its checksum verified."""
        headers, content = self._media(key, timeout, {}, HTTPStatus.OK)
        del headers
        return content

    def get_range(self, key: str, start: int, end: int, timeout: float) -> memoryview:
        """Return the bytes ``[start, end)``, a range inside the object."""
        asked = {"Range": f"bytes={start}-{end - 1}"}
        headers, content = self._media(key, timeout, asked, HTTPStatus.PARTIAL_CONTENT)
        span = headers.get("Content-Range", "")
        if not span.startswith(f"bytes {start}-"):
            msg = f"bytes from {start} on were answered with {span!r}"
            raise UnexpectedAnswerError(HTTPStatus.PARTIAL_CONTENT, msg)
        return content

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a whole object in one request that includes its checksum."""
        data = content.read(0, content.size)
        check = crc32c(google_crc32c.value(data))
        about = {"name": self._prefix + key, "crc32c": check}
        boundary = uuid.uuid4().hex
        _, answer = self._upload(
            timeout,
            overwrite=overwrite,
            data=described(about, data, boundary),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
            uploadType="multipart",
            fields="generation",
        )
        _decoded(answer, "generation")

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy ``source`` to ``target``; a large object may take several requests."""
        end = time.monotonic() + timeout
        token: str | None = None
        while True:
            answer = self._json(
                "POST",
                "b/{}/o/{}/rewriteTo/b/{}/o/{}",
                self.bucket,
                self._prefix + source,
                self.bucket,
                self._prefix + target,
                timeout=max(0.0, end - time.monotonic()),
                fields="done,rewriteToken",
                rewriteToken=token,
                wanted=("done",),
            )
            if answer["done"]:
                return
            token = str(answer.get("rewriteToken", ""))

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and generation of an object in one request."""
        name = self._prefix + key
        wanted = ("size", "generation")
        path = ("b/{}/o/{}", self.bucket, name)
        asked = {"fields": ",".join((*wanted, "updated")), "wanted": wanted}
        return _entry(key, self._json("GET", *path, timeout=timeout, **asked))

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List a thousand keys, starting at ``start_after`` or the token in ``at``."""
        token, early = cast("tuple[str | None, list[ObjectInfo]]", at or (None, []))
        after = listing.start_after
        answer = self._json(
            "GET",
            "b/{}/o",
            self.bucket,
            timeout=timeout,
            prefix=self._prefix + listing.prefix or None,
            delimiter=listing.delimiter or None,
            startOffset=self._prefix + after if after else None,
            pageToken=token,
            maxResults=1000,
            fields="items(name,size,generation),prefixes,nextPageToken",
        )
        found = {entry.key: entry for entry in (*early, *self._listed(answer))}
        entries = sorted(found.values(), key=lambda entry: entry.key)
        following = answer.get("nextPageToken")
        if not following:
            return Page(entries)
        check_next(following, token)
        if not entries:  # a page may be empty and not the last
            return Page((), (following, []))
        # A server may give all prefixes with the first page: those after the last
        # object are returned with a later page.
        items = answer.get("items")
        last = items[-1]["name"][len(self._prefix) :] if items else entries[-1].key
        now = [entry for entry in entries if entry.key <= last]
        return Page(now, (following, entries[len(now) :]))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete up to a hundred objects in one request."""
        names = [self._prefix + key for key in keys]
        if len(keys) == 1:
            path = ("b/{}/o/{}", self.bucket, names[0])
            with suppress(MissingError):
                answer = self._send("DELETE", *path, timeout=timeout, good=_DELETED)
                if answer[2].strip() not in {b"", _NULL}:
                    _decoded(answer[2])
            return {}
        boundary = uuid.uuid4().hex
        query = urlencode(self.filesystem._get_params({}))  # noqa: SLF001 - who pays
        _, headers, content = self._send(
            "POST",
            f"{self.endpoint}/batch/storage/v1",
            timeout=timeout,
            data=(deletions(self.bucket, names, query, boundary),),
            headers={"Content-Type": f"multipart/mixed; boundary={boundary}"},
        )
        found = answers(headers.get("Content-Type", ""), content)
        unanswered = OSError("the server's answer does not mention this object")
        left = ((key, found.get(at, unanswered)) for at, key in enumerate(keys))
        return {key: error for key, error in left if error is not None}

    def begin_upload(self, key: str, timeout: float, *, overwrite: bool) -> str:
        """Open a session, and return its path on the server."""
        headers, _ = self._upload(
            timeout,
            overwrite=overwrite,
            json={"name": self._prefix + key},
            uploadType="resumable",
        )
        if "Location" not in headers:
            msg = "the answer to the begin of an upload has no Location"
            raise UnexpectedAnswerError(HTTPStatus.OK, msg)
        # The host of the URL may be one that only the server knows, so only the rest is
        # used: below the path of the endpoint, which the URL may contain or not.
        location = urlsplit(headers["Location"])
        path = urlsplit(self.endpoint).path
        below = location.path.removeprefix(
            path if location.path[len(path) :][:1] == "/" else ""
        )
        upload = f"{below}?{quote(location.query, safe='=&%')}"
        self._sessions[upload] = Session()
        return upload

    def put_part(
        self, key: str, upload: str, part: Part, data: bytes, timeout: float
    ) -> str:
        """Send the next bytes; the last few are sent when the upload is finished."""
        del key
        session = self._sessions[upload]
        session.add(data, part.total, self._sender(upload, timeout))
        return ""

    def finish_upload(
        self,
        key: str,
        upload: str,
        tags: Sequence[str],
        timeout: float,
        *,
        overwrite: bool,
    ) -> None:
        """Send the last bytes, which creates the object."""
        del key, tags, overwrite
        self._sessions[upload].finish(self._sender(upload, timeout))
        del self._sessions[upload]

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Cancel a session; a missing one is not an error."""
        del key
        self._sessions.pop(upload, None)
        url = self.endpoint + upload
        with suppress(MissingError):
            self._send("DELETE", url, timeout=timeout, good=_CANCELLED)

    @property
    def endpoint(self) -> str:
        """The prefix of the URLs of all requests."""
        return str(self.filesystem._location).rstrip("/")  # noqa: SLF001 - no public one

    def _media(
        self, key: str, timeout: float, headers: Mapping[str, str], good: int
    ) -> tuple[Mapping[str, str], memoryview]:
        """Download an object, or a range of one, as it is stored."""
        status, found, content = self._send(
            "GET",
            f"{self.endpoint}/download/storage/v1/b/{{}}/o/{{}}",
            self.bucket,
            self._prefix + key,
            timeout=timeout,
            headers={"Accept-Encoding": "gzip", **headers},
            alt="media",
            good=(good,),
        )
        # A proxy's page has the same status.
        if not any(name.lower().startswith("x-goog-") for name in found):
            msg = "no headers of Google Cloud Storage; check the endpoint"
            raise UnexpectedAnswerError(status, msg)
        return found, memoryview(content)

    def _upload(
        self,
        timeout: float,
        *,
        overwrite: bool,
        **options: Any,  # noqa: ANN401 - of _send
    ) -> tuple[Mapping[str, str], bytes]:
        """Begin an upload; unless overwriting, only if no object exists."""
        _, headers, content = self._send(
            "POST",
            f"{self.endpoint}/upload/storage/v1/b/{{}}/o",
            self.bucket,
            timeout=timeout,
            ifGenerationMatch=None if overwrite else 0,
            good=_OPENED,
            **options,
        )
        return headers, content

    def _sender(self, upload: str, timeout: float) -> Send:
        """Return a function that sends bytes to a session until the timeout."""
        end = time.monotonic() + timeout

        def send(
            headers: Mapping[str, str], data: bytes
        ) -> tuple[int, Mapping[str, str], bytes]:
            left = max(0.0, end - time.monotonic())
            url = self.endpoint + upload
            body = (data,) if data else ()
            try:
                return self._send(
                    *("PUT", url),
                    timeout=left,
                    headers=headers,
                    data=body,
                    good=_TAKEN,
                )
            except MissingError:  # the upload is missing, not the object
                raise SessionError("the upload no longer exists") from None

        return send

    def _listed(self, answer: Mapping[str, Any]) -> Iterator[ObjectInfo]:
        cut = len(self._prefix)
        for item in answer.get("items") or ():
            if not item["name"].endswith("/"):
                yield _entry(item["name"][cut:], item)
        for prefix in answer.get("prefixes") or ():
            yield ObjectInfo(prefix[cut:], None)

    def _json(
        self,
        method: str,
        *path: str,
        wanted: Sequence[str] = (),
        **options: Any,  # noqa: ANN401 - of _send
    ) -> dict[str, Any]:
        return _decoded(self._send(method, *path, **options)[2], *wanted)

    def _send(
        self,
        method: str,
        *path: str,
        timeout: float,
        good: Container[int] = (HTTPStatus.OK,),
        **options: Any,  # noqa: ANN401 - of the filesystem's
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; return the status, headers and body of its answer."""
        status, headers, _, content = self.run_async(
            self.filesystem._request,  # noqa: SLF001 - no public call of one request
            timeout,
            method,
            *path,
            good=good,
            **options,
        )
        return status, headers, content


def _decoded(content: bytes, *wanted: str) -> dict[str, Any]:
    """Decode an answer that is a JSON object with the ``wanted`` fields.

    Raises:
        UnexpectedAnswerError: The answer is something else, such as a proxy's page.
    """
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        msg = "the answer is not a JSON object; check the endpoint"
        raise UnexpectedAnswerError(HTTPStatus.OK, msg)
    missing = sorted(set(wanted) - found.keys())
    if missing:
        msg = f"the answer lacks {' and '.join(missing)}"
        raise UnexpectedAnswerError(HTTPStatus.OK, msg)
    return found


def _entry(key: str, item: Mapping[str, Any]) -> ObjectInfo:
    modified = to_modified(item.get("updated"))
    return ObjectInfo(key, int(item["size"]), str(item["generation"]), modified)
