"""A large object, sent part by part to a session that keeps count.

A session takes bytes in their order, in whole blocks but for its last request, which
makes the object. It may keep fewer than it was sent, so it is gone on with from where
it says; a reply that was lost leaves that open, and then it is asked first. (Seen with
fake-gcs-server: it takes the question for the end of the upload, and the same bytes
sent twice for twice the bytes.)
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import google_crc32c

__all__ = ["Send", "Session", "SessionError", "crc32c"]

_BLOCK = 256 << 10
_DONE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})

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
        left: Those after them that were given and not yet kept.
        checksum: CRC-32C of all that was given.
        unclear: Whether the server may have more than it is known to have.
    """

    total: int = 0
    kept: int = 0
    left: bytes = b""
    checksum: int = 0
    unclear: bool = False

    def add(self, data: bytes, total: int, send: Send) -> None:
        """Send the next bytes, but for a last few that make the object.

        When it fails, it can be called again with the same bytes.

        Raises:
            SessionError: The server kept nothing of them, or is done with the upload.
        """
        self.total = total
        left = self.left + data
        goal = self.kept + (len(left) - 1) // _BLOCK * _BLOCK
        at = self._place(send)
        if at is not None and at < goal:
            piece = left[at - self.kept : goal - self.kept]
            at = self._go_on(at, piece, {}, send)
        if at is None or at <= self.kept:
            raise SessionError(f"the upload stays at {at} of {total} bytes")
        self.left = left[at - self.kept :]
        self.checksum = google_crc32c.extend(self.checksum, data)
        self.kept = at

    def finish(self, send: Send) -> None:
        """Send what is left, which makes the object.

        Raises:
            SessionError: It did not.
        """
        at = self._place(send)
        if at is not None:
            check = {"X-Goog-Hash": f"crc32c={crc32c(self.checksum)}"}
            at = self._go_on(at, self.left[at - self.kept :], check, send)
        if at is not None:
            raise SessionError(f"the upload stays at {at} of {self.total} bytes")

    def _place(self, send: Send) -> int | None:
        """Return how many bytes the server has; None if it is done."""
        if not self.unclear:
            return self.kept
        return self._answer(*send(self._range("*"), b""))

    def _go_on(
        self, at: int, piece: bytes, headers: dict[str, str], send: Send
    ) -> int | None:
        """Send a piece, and return as ``_place`` does."""
        self.unclear = True
        place = f"{at}-{at + len(piece) - 1}" if piece else "*"
        found = self._answer(*send(self._range(place) | headers, piece))
        self.unclear = False
        return found

    def _range(self, span: str) -> dict[str, str]:
        return {"Content-Range": f"bytes {span}/{self.total}"}

    def _answer(
        self, status: int, headers: Mapping[str, str], content: bytes
    ) -> int | None:
        if status in _DONE:
            size = int(json.loads(content)["size"])
            if size != self.total:
                raise SessionError(f"the object has {size} of {self.total} bytes")
            return None
        if status != HTTPStatus.PERMANENT_REDIRECT:
            raise SessionError(f"the upload was answered with {status}")
        _, _, last = headers.get("Range", "").partition("-")
        return int(last) + 1 if last else 0
