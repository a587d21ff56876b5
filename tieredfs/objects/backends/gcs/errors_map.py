"""What Google Cloud Storage answers when it does not do what it was asked.

A status below 400 that the request did not expect, such as a redirect, is the answer of
something that stands between us and Google, or in its place.

gcsfs makes a bare ``OSError("Forbidden…")`` of a 403, a ValueError of whatever has
"invalid" in its text, and drops Retry-After: so its judgement is not asked. A limit of
the rate comes as 429, or as 403 with its own reason. A 400 is a mistake of whoever
asks, but for bytes that were damaged on their way.
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
_LONGEST = 300  # characters of what a server says


class GCSError(Exception):
    """An answer that is no success.

    Attributes:
        status: The HTTP status, or what it stands for.
        headers: Those that say when to come again.
    """

    def __init__(
        self, status: int, said: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Keep what the server said, without the request that it was said to."""
        super().__init__(f"{status}: {said}")
        self.status = status
        self.headers = {name.lower(): told for name, told in (headers or {}).items()}


class BadRequestError(GCSError):
    """The request is refused, and will be whenever it is made."""


class DamagedError(GCSError):
    """What arrived is not what was sent; to send it again may help."""


class MissingError(GCSError):
    """There is no such object, bucket or upload."""


class UnexpectedAnswerError(GCSError):
    """Success, or a redirect, that Google Cloud Storage does not answer this with."""


class TokenServerError(Exception):
    """Whoever gives tokens has none now; later it may."""


class StaleTokenError(Exception):
    """The token was refused before it expired; the next request brings another."""


def failure(
    status: int, headers: Mapping[str, str], content: bytes | bytearray
) -> GCSError:
    """Make an error of an answer.

    Args:
        status: Any that does not mean success here.
        headers: Of the answer.
        content: Its body.
    """
    said, reason = _told(status, content)
    if status == HTTPStatus.FORBIDDEN and reason in _RATES:
        status = HTTPStatus.TOO_MANY_REQUESTS
    kind: type[GCSError] = GCSError
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
        kind = MissingError
    elif status < HTTPStatus.BAD_REQUEST:
        kind = UnexpectedAnswerError
        said += ": not an answer of Google Cloud Storage; check the endpoint"
    elif status == HTTPStatus.BAD_REQUEST:
        kind = DamagedError if _DAMAGED in said else BadRequestError
    kept = {key: each for key, each in headers.items() if key.lower() == "retry-after"}
    return kind(int(status), said, kept)


def _told(status: int, content: bytes | bytearray) -> tuple[str, str]:
    """Return message and reason of an error's body, which need not be JSON."""
    text = content.decode(errors="replace")
    said, reason = "", ""
    try:
        error = json.loads(text)["error"]
        said = error["message"]
        reason = error["errors"][0]["reason"]
    except (ValueError, LookupError, TypeError):
        said = said or ("" if text.lstrip().startswith("<") else text)
    return str(said)[:_LONGEST] or responses.get(status, ""), str(reason)
