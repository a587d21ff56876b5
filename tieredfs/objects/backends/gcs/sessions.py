"""A large object, sent part by part to a session that keeps count.

A session takes bytes in their order, in whole blocks but for its last request, which
makes the object. It may keep fewer than it was sent, so it is gone on with from where
it says, as long as it gets on; what follows is sent in pieces of what it kept, which
double while they are kept whole. What was interrupted is sent again from there: bytes
that the server has already are ignored, as Google documents. It is not asked first how
far it has come: fake-gcs-server takes the question for the end of the upload, and shows
half an object. (It does not ignore what it has either: there, and only there, a part
whose reply was lost makes an object of another size, which is noticed at the end.)
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import google_crc32c

__all__ = ["Send", "Session", "SessionError", "crc32c"]

_BLOCK = 256 << 10
_DONE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})
_RANGE = re.compile(r"(?:bytes=)?0-(\d+)")

Send = Callable[[Mapping[str, str], bytes], tuple[int, Mapping[str, str], bytes]]
"""Sends headers and bytes to a session; returns status, headers and body."""


def crc32c(value: int) -> str:
    """Write a checksum as Google does."""
    return b64encode(value.to_bytes(4, "big")).decode()


class SessionError(Exception):
    """A session that did not do what was asked of it."""


@dataclass(slots=True)
class Session:
    """How far an upload has come.

    Attributes:
        total: Bytes of the object.
        kept: How many of them the server has.
        sent: How many of them have been sent, whether they were kept or not.
        begin: Where the bytes begin that are left.
        left: Those that were given when the last call ended, and not kept by then.
        piece: Most bytes of one request; None for all that there are.
        checksum: CRC-32C of all that was given.
    """

    total: int = 0
    kept: int = 0
    sent: int = 0
    begin: int = 0
    left: bytes = b""
    piece: int | None = None
    checksum: int = 0

    def add(self, data: bytes, total: int, send: Send) -> None:
        """Send the next bytes, but for a last few that make the object.

        When it fails, it can be called again with the same bytes.

        Raises:
            SessionError: The server kept nothing of them, or is done with the upload.
        """
        self.total = total
        given = self.left + data
        size = (len(given) - 1) // _BLOCK * _BLOCK
        self._send_all(given, size, {}, send)
        self._keep(given)
        self.checksum = google_crc32c.extend(self.checksum, data)

    def finish(self, send: Send) -> None:
        """Send what is left, which makes the object.

        Raises:
            SessionError: It did not.
        """
        check = {"X-Goog-Hash": f"crc32c={crc32c(self.checksum)}"}
        self._send_all(self.left, len(self.left), check, send)
        self._keep(self.left)

    def _send_all(
        self, given: bytes, size: int, headers: dict[str, str], send: Send
    ) -> None:
        """Send the first ``size`` of the given bytes, but for those that are kept."""
        while self.kept < self.begin + size:
            start = self.kept - self.begin
            piece = given[start : min(size, start + (self.piece or size))]
            end = self.kept + len(piece)
            place = f"bytes {self.kept}-{end - 1}/{self.total}"
            self.sent = max(self.sent, end)
            at = self._reached(*send({"Content-Range": place, **headers}, piece))
            # Further, when a reply was lost to a request that had more.
            if not self.kept < at <= self.sent:
                raise SessionError(f"the upload stays at {at} of {self.total} bytes")
            if at < end:
                self.piece = max(_BLOCK, (at - self.kept) // _BLOCK * _BLOCK)
            elif self.piece is not None:
                self.piece *= 2
            self.kept = at

    def _keep(self, given: bytes) -> None:
        """Keep what the server has not."""
        self.left, self.begin = given[self.kept - self.begin :], self.kept

    def _reached(self, status: int, headers: Mapping[str, str], content: bytes) -> int:
        """Return how many bytes the server has, by its answer."""
        if status in _DONE:
            try:
                size = int(json.loads(content)["size"])
            except (ValueError, LookupError, TypeError):
                msg = "the upload was answered with no size: check the endpoint"
                raise SessionError(msg) from None
            if size != self.total:
                raise SessionError(f"the object has {size} of {self.total} bytes")
            return size
        if status != HTTPStatus.PERMANENT_REDIRECT:
            raise SessionError(f"the upload was answered with {status}")
        kept = headers.get("Range")
        if kept is None:
            return 0
        found = _RANGE.fullmatch(kept)
        if found is None:
            raise SessionError(f"the upload keeps {kept!r}, which is no beginning")
        size = int(found[1]) + 1
        if size == self.total:  # bytes that are kept are no object yet
            raise SessionError(f"all {size} bytes are kept, and no object was made")
        return size
