"""Put an object under a key that no other write has, a new one for each attempt.

A server may perform a put long after the client has given it up, and after its retry
was acknowledged. If the object has been deleted meanwhile, it would be back. No
precondition prevents that, because no object is there. A key that no caller was ever
given does.
"""

import secrets
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from tieredfs.errors import TieredFSError
from tieredfs.objects.backends import Backend
from tieredfs.objects.content import Content
from tieredfs.objects.errors_map import is_ambiguous
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests
from tieredfs.objects.write.verified import VERIFY_SHARE

__all__ = ["Send", "new_key", "put_new"]

_TOKEN_BYTES: Final = 16


class Send(Protocol):
    """Makes one attempt to put a content, given backend, key and seconds left."""

    def __call__(
        self, backend: Backend, key: str, left: float, /, *, overwrite: bool
    ) -> None:
        """Put the content."""


def new_key(prefix: str) -> str:
    """Return a key that no other write has."""
    return f"{prefix}{secrets.token_urlsafe(_TOKEN_BYTES)}"


def put_new(
    requests: Requests, prefix: str, content: Content, send: Send, deadline: Deadline
) -> str:
    """Put an object; return the key of the attempt that succeeded.

    Objects that other attempts have put are removed, unless they arrive later. If no
    attempt succeeded, all are removed, provided the store answers.

    Raises:
        TieredFSError: The error of the last attempt, if none has put the object.
    """
    answered = ""
    unanswered: list[str] = []

    def attempt(backend: Backend, left: float) -> None:
        nonlocal answered
        key = new_key(prefix)
        try:
            send(backend, key, left, overwrite=True)
        except Exception as error:
            if is_ambiguous(error):
                unanswered.append(key)
            raise
        answered = key

    call = Call("put", prefix, attempt, lambda _: content.size)
    try:
        requests.make(call, deadline.earlier(VERIFY_SHARE))
    except TieredFSError:
        # The retries are used up: the store is asked once for each key.
        once = replace(requests, policy=replace(requests.policy, attempts=1))
        for key in reversed(unanswered):
            if _is_there(once, key, content.size, deadline):
                answered = key
                break
        else:
            _remove(requests, unanswered, deadline)
            raise
    _remove(requests, [key for key in unanswered if key != answered], deadline)
    return answered


def _is_there(requests: Requests, key: str, size: int, deadline: Deadline) -> bool:
    """Return whether an attempt has put the object: no other write has its key."""
    head = Call("head", key, lambda backend, left: backend.head(key, left))
    with suppress(TieredFSError):
        return requests.make(head, deadline).size == size
    return False


def _remove(requests: Requests, keys: list[str], deadline: Deadline) -> None:
    """Delete objects that may exist; a failure does not matter to the caller."""
    for key in keys:

        def delete(backend: Backend, left: float, key: str = key) -> None:
            backend.delete([key], left)

        with suppress(TieredFSError):
            requests.make(Call("delete", key, delete), deadline)
