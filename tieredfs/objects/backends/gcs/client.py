"""A gcsfs filesystem that makes one attempt, and reports the answer.

Traps closed here, seen with gcsfs 2026.10:

- ``gcsfs.GCSFileSystem`` is, unless the environment says otherwise, a class that asks
  another service over gRPC what kind of bucket it has: 17 to 51 s per call where only a
  custom endpoint answers. The plain class is used, whatever the environment says;
- each request is attempted six times, 33 s if the server is not there, and aiohttp adds
  a second attempt below that;
- a token is requested when the filesystem is created, without any deadline, and renewed
  on the event loop, which blocks all calls meanwhile: both are done in another thread,
  and the call that needs the token waits no longer than its timeout;
- a token that is refused before it expires is sent again until it expires;
- every answer below 400 is taken for success, even a redirect, which leads to a proxy's
  login page more often than to an object: each request names the answers that mean
  success.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import cast
from urllib.parse import quote, urlencode

import google_crc32c
import requests
from aiohttp import ClientPayloadError, ClientResponse, ClientSession, ClientTimeout
from gcsfs.core import GCSFileSystem
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import Request
from yarl import URL

from tieredfs.objects.backends.base import OptionError
from tieredfs.objects.backends.gcs.errors_map import (
    StaleTokenError,
    TokenServerError,
    failure,
)
from tieredfs.objects.backends.gcs.sessions import crc32c

__all__ = ["OneTryFileSystem"]

_TOKEN_TIMEOUT = 30
_PIECE_BYTES = 256 << 10


class OneTryFileSystem(GCSFileSystem):  # type: ignore[misc] # it has no types
    """Google Cloud Storage, one request at a time."""

    def __init__(self, *, token: object = None, **options: object) -> None:
        """Create the filesystem; no request is made, not even for a token."""
        super().__init__(token="anon", **options)  # noqa: S106 - the name of a method
        self._method = token
        self._known = token == "anon"  # noqa: S105 - the name of a method
        self._renewal: asyncio.Future[None] | None = None
        self._refused = False
        self._second_token: str | None = None

    async def _set_session(self) -> ClientSession:
        session = cast("ClientSession", await super()._set_session())
        session._retry_connection = False  # noqa: SLF001 - there is no other way
        return session

    async def _request(
        self,
        method: str,
        path: str,
        *args: str,
        headers: Mapping[str, str] | None = None,
        json: object = None,
        data: tuple[bytes, ...] = (),
        good: Container[int] = (HTTPStatus.OK,),
        **query: object,
    ) -> tuple[int, Mapping[str, str], None, bytes | bytearray]:
        """Send a request once; gcsfs's own requests use this method too.

        Args:
            method: The HTTP method.
            path: A path below the JSON API, or a URL, with a {} for each of ``args``.
            args: Names to be encoded into the path.
            headers: Additional headers.
            json: The body, to be encoded as JSON, or None.
            data: The body, in pieces, or empty.
            good: The statuses that mean success.
            query: Query parameters; those that are None are omitted.

        Raises:
            GCSError: The answer is not a success.
        """
        session = await self._set_session()
        credentials = await self._valid_credentials()
        sent = dict(headers or {})
        raw = "Accept-Encoding" in sent  # return an object as stored, not inflated
        token = None
        if credentials is not None:
            credentials.apply(sent)  # type: ignore[no-untyped-call] # it has no types
            token = credentials.token
        if data:
            sent["Content-Length"] = str(sum(map(len, data)))
        async with session.request(
            method,
            self._url(path, args, query),
            json=json,
            data=_body(data) if data else None,
            headers=sent,
            timeout=ClientTimeout(total=self.requests_timeout),
            allow_redirects=False,
            auto_decompress=not raw,
        ) as answer:
            if answer.status in good:
                content = await (_stored(answer) if raw else answer.read())
                return answer.status, answer.headers, None, content
            if answer.status < HTTPStatus.BAD_REQUEST:  # its body may be anything
                raise failure(answer.status, answer.headers, b"")
            content = await answer.read()
        if answer.status == HTTPStatus.UNAUTHORIZED and self._gives_up(token):
            raise StaleTokenError(str(failure(answer.status, {}, content)))
        raise failure(answer.status, answer.headers, content)

    def _url(
        self, path: str, args: tuple[str, ...], query: Mapping[str, object]
    ) -> URL:
        """Return a URL whose names and parameters are encoded, not normalised."""
        url = self._format_path(path, args)
        given = urlencode(self._get_params(query), quote_via=quote)
        mark = given and ("&" if "?" in url else "?")
        return URL(f"{url}{mark}{given}", encoded=True)

    async def _valid_credentials(self) -> Credentials | None:
        """Return credentials that are valid for a while; None for anonymous access."""
        if not self._fresh():
            if self._renewal is None or self._renewal.done():
                self._renewal = _aside(self._renew)
            try:
                await asyncio.shield(self._renewal)
            except asyncio.CancelledError:
                # The renewal hangs, so the next caller starts another. Not so for the
                # search for credentials: it ends, but may outlast one attempt.
                if self._known:
                    self._renewal = None
                raise
        return cast("Credentials | None", self.credentials.credentials)

    def _fresh(self) -> bool:
        """Return whether credentials are known, with a token valid for a while."""
        held = self.credentials.credentials
        return self._known and (held is None or held.valid)

    def _renew(self) -> None:
        """Find credentials if they are not known, and request a token."""
        if not self._known:
            try:
                self.credentials.connect(method=self._method)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                # gcsfs has no single error for an invalid token.
                raise OptionError(f"token: {error}") from error
            self._known = True
        if self._fresh():
            return
        held = self.credentials.credentials
        with requests.Session() as session:
            try:
                held.refresh(partial(Request(session), timeout=_TOKEN_TIMEOUT))
            except RefreshError as error:
                if error.retryable:
                    raise TokenServerError(str(error)) from error
                raise
        if self._refused:
            self._refused, self._second_token = False, held.token

    def _gives_up(self, token: str | None) -> bool:
        """Drop a refused token; return whether another one may be accepted."""
        held = self.credentials.credentials
        if held is None or not _renewable(held):
            return False
        if held.token == token:
            if token == self._second_token:
                return False
            held.token, self._refused = None, True
        return True


def _renewable(credentials: Credentials) -> bool:
    """Return whether another token can be requested."""
    # A user's credentials may lack a refresh token; all others can be renewed.
    ways = ("refresh_token", "refresh_handler")
    has = [getattr(credentials, way) for way in ways if hasattr(credentials, way)]
    return not has or any(has)


async def _stored(answer: ClientResponse) -> bytearray:
    """Read the bytes of an object; verify the checksum of a whole one.

    Raises:
        ClientPayloadError: The checksum is wrong, or bytes are missing.
    """
    content = bytearray(answer.content_length or 0)
    whole = answer.status == HTTPStatus.OK
    size = checksum = 0
    async for piece in answer.content.iter_any():
        content[size : size + len(piece)] = piece
        size += len(piece)
        if whole:  # now, while the piece is in the CPU's cache
            checksum = google_crc32c.extend(checksum, piece)
    hashes = ",".join(answer.headers.getall("X-Goog-Hash", ())).replace(" ", "")
    expected = [each for each in hashes.split(",") if each.startswith("crc32c=")]
    if whole and expected and f"crc32c={crc32c(checksum)}" not in expected:
        raise ClientPayloadError("the bytes do not match the checksum they came with")
    return content


def _body(pieces: tuple[bytes, ...]) -> bytes | AsyncIterator[memoryview]:
    """Return a body that aiohttp sends in one write if short, else in chunks."""
    if sum(map(len, pieces)) <= _PIECE_BYTES:
        return b"".join(pieces)
    return _chunks(pieces)


async def _chunks(pieces: tuple[bytes, ...]) -> AsyncIterator[memoryview]:
    """Yield chunks without a copy; other calls can run between them."""
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]


def _aside(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Call a function in a daemon thread of its own.

    An executor's threads are waited for at the end of the process, and asyncio's own
    executor is needed to resolve host names.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    ended.add_done_callback(lambda end: end.cancelled() or end.exception())

    def set_outcome(error: BaseException | None) -> None:
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            function()
        except BaseException as caught:  # noqa: BLE001 - it is raised where it is awaited
            error = caught
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(set_outcome, error)

    threading.Thread(target=run, name="tieredfs-token", daemon=True).start()
    return cast("asyncio.Future[None]", ended)
