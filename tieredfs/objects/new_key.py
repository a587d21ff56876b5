"""Put an object under a key that no other write has, at each attempt another.

A server may do a put long after its client has given it up, and after its repeat was
acknowledged: where the object has been deleted meanwhile, it would be back. No
precondition prevents that, for nothing is there. A key that was never given to anyone
does.
"""

import secrets
from contextlib import suppress
from typing import Final, Protocol

from tieredfs.errors import TieredFSError
from tieredfs.objects.content import Content
from tieredfs.objects.failures import is_ambiguous
from tieredfs.objects.policy import Deadline
from tieredfs.objects.quirks import Backend
from tieredfs.objects.requests import Call, Requests
from tieredfs.objects.settling import write

__all__ = ["Send", "new_key", "put_new"]

_TOKEN_BYTES: Final = 16


class Send(Protocol):
    """One attempt to put a content, given the backend, the key and the seconds left."""

    def __call__(
        self, backend: Backend, key: str, left: float, /, *, overwrite: bool
    ) -> None:
        """Put it."""


def new_key(prefix: str) -> str:
    """Return a key that no other write has."""
    return f"{prefix}{secrets.token_urlsafe(_TOKEN_BYTES)}"


def put_new(
    requests: Requests, prefix: str, content: Content, send: Send, deadline: Deadline
) -> str:
    """Put an object; return the key of the attempt that has succeeded.

    Afterwards what the others have put is removed, unless it comes later.

    Raises:
        TieredFSError: What the last attempt raised.
    """
    key = ""
    unanswered: list[str] = []

    def attempt(backend: Backend, left: float) -> None:
        nonlocal key
        key = new_key(prefix)
        try:
            send(backend, key, left, overwrite=True)
        except Exception as error:
            if is_ambiguous(error):
                unanswered.append(key)
            raise

    call = Call("put", prefix, attempt, lambda _: content.size)
    write(requests, call, content, deadline, written=lambda: key)
    _remove(requests, [other for other in unanswered if other != key], deadline)
    return key


def _remove(requests: Requests, keys: list[str], deadline: Deadline) -> None:
    """Delete what may be there; the object is there whether that succeeds or not."""
    for key in keys:

        def delete(backend: Backend, left: float, key: str = key) -> None:
            backend.delete([key], left)

        with suppress(TieredFSError):
            requests.make(Call("delete", key, delete), deadline)
