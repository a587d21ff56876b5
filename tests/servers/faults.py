"""What can go wrong with a request, and which requests it happens to."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from typing_extensions import TypedDict


@dataclass
class Request:
    """One request that went through the proxy; status 0 while there is no answer.

    Attributes:
        at: When, by the monotonic clock.
        method: GET, PUT, …
        target: Path and query.
        headers: By their names in lower case.
        status: Of the answer.
        injected: Whether a rule took it.
        moved: Bytes of the answer's body that were passed on.
    """

    at: float
    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    status: int = 0
    injected: bool = False
    moved: int = 0

    @property
    def range(self) -> str:
        """The range it asks for; empty when it asks for the whole object."""
        return self.headers.get("x-ms-range", self.headers.get("range", ""))


@dataclass
class Hold:
    """A request that a slow network keeps until it is released.

    Attributes:
        release: Set to pass the request on, which its client may have given up by then.
        landed: Is set when the server has answered it.
    """

    release: threading.Event = field(default_factory=threading.Event)
    landed: threading.Event = field(default_factory=threading.Event)

    def land(self, seconds: float = 10) -> None:
        """Pass the request on, and wait until the server has answered it."""
        self.release.set()
        assert self.landed.wait(seconds)


class Faults(TypedDict, total=False):
    """What `FaultProxy.add` takes: the fields of `Rule`."""

    when: Callable[[Request], object]
    times: float
    skip: int
    probability: float
    status: int
    headers: Mapping[str, str]
    body: str
    cut_before: bool
    cut_after: int
    reset: bool
    hang_after: int
    lose_reply: bool
    hang: float
    hold: Hold | None
    delay: float
    flip_byte: int


@dataclass
class Rule:
    """Which requests fail, and how.

    Attributes:
        method: Only this one; empty for any.
        path: Only targets in which this regular expression is found.
        when: Only requests of which this is true: ``lambda request: request.range``.
        times: How many requests fail.
        skip: How many pass first.
        probability: Of each of the others to fail.
        status: Answer with this immediately, without asking the server.
        headers: Of that answer, such as Retry-After.
        body: Of that answer; None for what the store that was asked would say.
        cut_before: Reset the connection before the server hears.
        cut_after: End the connection after so many bytes of the reply's body; in the
            middle of its head if there is no body.
        reset: Make that end a reset.
        hang_after: Silence forever after so many bytes of the reply's body, or in the
            middle of its head.
        lose_reply: Reset the connection when the server has answered.
        hang: Seconds of silence before the request is passed on.
        hold: Keeps the request, whole, until it lets go.
        delay: Seconds before the answer.
        flip_byte: Position of a byte of the reply's body to be inverted.
        hits: How many requests failed so far.
    """

    method: str = ""
    path: str = ""
    when: Callable[[Request], object] = lambda _: True
    times: float = float("inf")
    skip: int = 0
    probability: float = 1.0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    cut_before: bool = False
    cut_after: int | None = None
    reset: bool = False
    hang_after: int | None = None
    lose_reply: bool = False
    hang: float = 0.0
    hold: Hold | None = None
    delay: float = 0.0
    flip_byte: int | None = None
    hits: int = 0

    def takes(self, request: Request, random: Random) -> bool:
        """Return whether this request is to fail, and count it."""
        if self.hits >= self.times or self.method not in {"", request.method}:
            return False
        if not re.search(self.path, request.target) or not self.when(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.probability < 1 and random.random() >= self.probability:
            return False
        self.hits += 1
        return True


_CODES = {
    403: ("AccessDenied", "AuthorizationFailure"),
    429: ("TooManyRequests", "TooManyRequests"),
    500: ("InternalError", "InternalError"),
    503: ("SlowDown", "ServerBusy"),
}
"""What S3 and Azure call a status."""


def refusal(status: int, request: Request) -> tuple[dict[str, str], str]:
    """Return headers and body of an error as the store that was asked words it."""
    if re.match(r"/(storage|upload|download|batch)/", request.target):
        body = f'{{"error": {{"code": {status}, "message": "injected"}}}}'
        return {"Content-Type": "application/json"}, body
    headers = {"Content-Type": "application/xml"}
    code, azure = _CODES.get(status, ("Injected", "Injected"))
    if "x-ms-version" in request.headers:
        code = headers["x-ms-error-code"] = azure
    return headers, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>"
