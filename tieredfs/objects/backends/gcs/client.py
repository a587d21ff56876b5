"""gcsfs that makes one attempt, and tells what was answered.

Traps closed here, seen with gcsfs 2026.10:

- ``gcsfs.GCSFileSystem`` is, unless the environment says otherwise, a class that asks
  another service over gRPC what kind of bucket it has: 17 to 51 s a call where only a
  custom endpoint answers. The plain class is taken, whatever the environment says;
- six tries of each request, 33 s against a server that is not there, and aiohttp's own
  second one below them;
- a token is asked for when the filesystem is made, without any deadline, and renewed on
  the event loop, where everybody's calls stand still meanwhile: both are done aside,
  while the call that needs it waits no longer than it may;
- a token that is refused before its time is sent again until it expires;
- every answer below 400 is taken for success, and so is a redirect, which leads to a
  proxy's login page more often than to an object: each request names the answers that
  mean success.
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
_PIECE = 256 << 10


class OneTryFileSystem(GCSFileSystem):  # type: ignore[misc] # it has no types
    """Google Cloud Storage, one request at a time."""

    def __init__(self, *, token: object = None, **options: object) -> None:
        """Describe it; nothing is asked, not even for a token."""
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
        """Send a request once; all of gcsfs's own go this way too.

        Args:
            method: Of HTTP.
            path: Below the JSON interface, or a URL; with a {} for each of ``args``.
            args: Names, which are encoded.
            headers: To be sent besides those that are always.
            json: The body, to be encoded, or none.
            data: The body, in pieces, or none.
            good: The statuses that mean success.
            query: Parameters; those that are None are left out.

        Raises:
            GCSError: The answer is no success.
        """
        session = await self._set_session()
        credentials = await self._valid_credentials()
        sent = dict(headers or {})
        raw = "Accept-Encoding" in sent  # an object is wanted as it is stored
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
        """Return a URL with its names and parameters as they stand, not tidied up."""
        url = self._format_path(path, args)
        given = urlencode(self._get_params(query), quote_via=quote)
        mark = given and ("&" if "?" in url else "?")
        return URL(f"{url}{mark}{given}", encoded=True)

    async def _valid_credentials(self) -> Credentials | None:
        """Return credentials that hold for a while; None for nobody's."""
        if not self._fresh():
            if self._renewal is None or self._renewal.done():
                self._renewal = _aside(self._renew)
            try:
                await asyncio.shield(self._renewal)
            except asyncio.CancelledError:
                # It hangs, and the next caller asks anew: but for the search for
                # credentials, which ends, and may take longer than one attempt.
                if self._known:
                    self._renewal = None
                raise
        return cast("Credentials | None", self.credentials.credentials)

    def _fresh(self) -> bool:
        """Tell whether it is known who we are, with a token that holds for a while."""
        held = self.credentials.credentials
        return self._known and (held is None or held.valid)

    def _renew(self) -> None:
        """Find out who we are if that is not known, and ask for a token."""
        if not self._known:
            try:
                self.credentials.connect(method=self._method)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                # It has no one error for a token that is none.
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
        """Forget a token that was refused; tell whether another may do better."""
        held = self.credentials.credentials
        if held is None or not _renewable(held):
            return False
        if held.token == token:
            if token == self._second_token:
                return False
            held.token, self._refused = None, True
        return True


def _renewable(credentials: Credentials) -> bool:
    """Tell whether there is a way to another token."""
    # A user's have it if they were given with one; all others can be asked again.
    ways = ("refresh_token", "refresh_handler")
    has = [getattr(credentials, way) for way in ways if hasattr(credentials, way)]
    return not has or any(has)


async def _stored(answer: ClientResponse) -> bytearray:
    """Read the bytes of an object; all of them have the checksum they come with.

    Raises:
        ClientPayloadError: They have not, or there are fewer than was said.
    """
    content = bytearray(answer.content_length or 0)
    whole = answer.status == HTTPStatus.OK
    size = checksum = 0
    async for piece in answer.content.iter_any():
        content[size : size + len(piece)] = piece
        size += len(piece)
        if whole:  # now: in a moment it is in no cache any more
            checksum = google_crc32c.extend(checksum, piece)
    told = ",".join(answer.headers.getall("X-Goog-Hash", ())).replace(" ", "")
    right = [each for each in told.split(",") if each.startswith("crc32c=")]
    if whole and right and f"crc32c={crc32c(checksum)}" not in right:
        raise ClientPayloadError("the bytes have not the checksum they came with")
    return content


def _body(pieces: tuple[bytes, ...]) -> bytes | AsyncIterator[memoryview]:
    """Return what aiohttp sends at once if it is short, or bit by bit."""
    if sum(map(len, pieces)) <= _PIECE:
        return b"".join(pieces)
    return _bits(pieces)


async def _bits(pieces: tuple[bytes, ...]) -> AsyncIterator[memoryview]:
    """Yield pieces without a copy, so that other calls have their turn."""
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), _PIECE):
            yield view[start : start + _PIECE]


def _aside(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Call a function in a thread of its own, which nobody has to wait for.

    An executor's threads are waited for at the end of the process, and asyncio's own
    executor looks up the names of hosts.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    ended.add_done_callback(lambda end: end.cancelled() or end.exception())

    def settle(error: BaseException | None) -> None:
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
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="tieredfs-token", daemon=True).start()
    return cast("asyncio.Future[None]", ended)
