"""Resumable uploads: a large object, sent part by part to a session.

A session accepts bytes in order, in whole blocks except for its last request, which
creates the object. The server may keep fewer bytes than it was sent. The upload then
continues at the position the server reports, as long as that position advances; further
requests are as large as what was kept, and double while they are kept whole. After an
interruption, bytes are sent again from the last known position: Google documents that
bytes the server has already are ignored. The server is not asked first for its
position: fake-gcs-server takes that question for the end of the upload, and shows half
an object. (fake-gcs-server does not ignore repeated bytes either: there, and only
there, a part whose reply was lost yields an object of another size, which is noticed at
the end.)
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
"""A function that sends headers and bytes; returns status, headers and body."""


def crc32c(value: int) -> str:
    """Encode a checksum as Google does."""
    return b64encode(value.to_bytes(4, "big")).decode()


class SessionError(Exception):
    """A resumable upload cannot go on."""


@dataclass(slots=True)
class Session:
    """The progress of an upload.

    Attributes:
        total: Size of the object in bytes.
        kept: Number of bytes that the server has.
        sent: Number of bytes that have been sent, kept or not.
        begin: Position of ``left`` in the object.
        left: Bytes given in earlier calls that the server does not have yet.
        piece: Maximum bytes of one request; None for no limit.
        checksum: CRC-32C of all bytes given so far.
    """

    total: int = 0
    kept: int = 0
    sent: int = 0
    begin: int = 0
    left: bytes = b""
    piece: int | None = None
    checksum: int = 0

    def add(self, data: bytes, total: int, send: Send) -> None:
        """Send the next bytes, except for a last few that ``finish`` sends.

        After a failure, it can be called again with the same bytes.

        Raises:
            SessionError: The server kept none of them, or has ended the upload.
        """
        self.total = total
        given = self.left + data
        size = (len(given) - 1) // _BLOCK * _BLOCK
        self._send_all(given, size, {}, send)
        self._keep(given)
        self.checksum = google_crc32c.extend(self.checksum, data)

    def finish(self, send: Send) -> None:
        """Send the remaining bytes, which creates the object.

        Raises:
            SessionError: The object was not created.
        """
        check = {"X-Goog-Hash": f"crc32c={crc32c(self.checksum)}"}
        self._send_all(self.left, len(self.left), check, send)
        self._keep(self.left)

    def _send_all(
        self, given: bytes, size: int, headers: dict[str, str], send: Send
    ) -> None:
        """Send the first ``size`` of the given bytes, except those already kept."""
        while self.kept < self.begin + size:
            start = self.kept - self.begin
            piece = given[start : min(size, start + (self.piece or size))]
            end = self.kept + len(piece)
            content_range = f"bytes {self.kept}-{end - 1}/{self.total}"
            self.sent = max(self.sent, end)
            sent = {"Content-Range": content_range, **headers}
            at = self._reached(*send(sent, piece))
            # It is past ``end`` when the reply to a longer request was lost.
            if not self.kept < at <= self.sent:
                raise SessionError(f"the upload stays at {at} of {self.total} bytes")
            if at < end:
                self.piece = max(_BLOCK, (at - self.kept) // _BLOCK * _BLOCK)
            elif self.piece is not None:
                self.piece *= 2
            self.kept = at

    def _keep(self, given: bytes) -> None:
        """Keep the bytes that the server does not have."""
        self.left, self.begin = given[self.kept - self.begin :], self.kept

    def _reached(self, status: int, headers: Mapping[str, str], content: bytes) -> int:
        """Return the number of bytes the server has, according to its answer."""
        if status in _DONE:
            try:
                size = int(json.loads(content)["size"])
            except (ValueError, LookupError, TypeError):
                msg = "the answer to the upload has no size: check the endpoint"
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
            raise SessionError(f"the upload keeps {kept!r}, not a range from byte 0")
        size = int(found[1]) + 1
        if size == self.total:  # the session would have ended with the object
            raise SessionError(f"all {size} bytes are kept, but no object was created")
        return size
