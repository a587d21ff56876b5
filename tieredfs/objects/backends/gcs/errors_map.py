"""Errors for the answers of Google Cloud Storage that are not a success.

A status below 400 that the request did not expect, such as a redirect, comes from
something between us and Google, or from another server in its place.

gcsfs turns a 403 into a bare ``OSError("Forbidden…")``, and every answer whose text
contains "invalid" into a ValueError, and drops Retry-After: so its errors are not used.
A rate limit comes as 429, or as 403 with a reason of its own. A 400 is a mistake of the
caller, except for bytes that were damaged in transit.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses

__all__ = [
    "BadRequestError",
    "DamagedError",
    "GCSError",
    "MissingError",
    "StaleTokenError",
    "TokenServerError",
    "UnexpectedAnswerError",
    "failure",
]

_RATES = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})
_DAMAGED = "doesn't match calculated"
_MAX_MESSAGE_CHARS = 300


class GCSError(Exception):
    """An answer that is not a success.

    Attributes:
        status: The HTTP status, or an equivalent one.
        headers: The headers that state when to retry.
    """

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Keep the server's message, without the request."""
        super().__init__(f"{status}: {message}")
        self.status = status
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}


class BadRequestError(GCSError):
    """The request was refused, and would be refused again."""


class DamagedError(GCSError):
    """The bytes were damaged in transit; sending them again may help."""


class MissingError(GCSError):
    """There is no such object, bucket or upload."""


class UnexpectedAnswerError(GCSError):
    """A success or redirect that Google Cloud Storage would not answer with."""


class TokenServerError(Exception):
    """The token server could not issue a token; it may later."""


class StaleTokenError(Exception):
    """The token was refused before it expired; the next request uses a new one."""


def failure(
    status: int, headers: Mapping[str, str], content: bytes | bytearray
) -> GCSError:
    """Return the error for an answer.

    Args:
        status: A status that does not mean success for the request.
        headers: The headers of the answer.
        content: Its body.
    """
    message, reason = _message_and_reason(status, content)
    if status == HTTPStatus.FORBIDDEN and reason in _RATES:
        status = HTTPStatus.TOO_MANY_REQUESTS
    kind: type[GCSError] = GCSError
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
        kind = MissingError
    elif status < HTTPStatus.BAD_REQUEST:
        kind = UnexpectedAnswerError
        message += ": not an answer of Google Cloud Storage; check the endpoint"
    elif status == HTTPStatus.BAD_REQUEST:
        kind = DamagedError if _DAMAGED in message else BadRequestError
    kept = {key: each for key, each in headers.items() if key.lower() == "retry-after"}
    return kind(int(status), message, kept)


def _message_and_reason(status: int, content: bytes | bytearray) -> tuple[str, str]:
    """Return the message and reason in an error's body, which need not be JSON."""
    text = content.decode(errors="replace")
    message, reason = "", ""
    try:
        error = json.loads(text)["error"]
        message = error["message"]
        reason = error["errors"][0]["reason"]
    except (ValueError, LookupError, TypeError):
        message = message or ("" if text.lstrip().startswith("<") else text)
    return str(message)[:_MAX_MESSAGE_CHARS] or responses.get(status, ""), str(reason)
