"""Put an object under a key that no other write has, at each attempt another.

A server may do a put long after its client has given it up, and after its repeat was
acknowledged: where the object has been deleted meanwhile, it would be back. No
precondition prevents that, for nothing is there. A key that was never given to anyone
does.
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
from tieredfs.objects.write.verified import FOR_ASKING

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

    Afterwards what the others have put is removed, unless it comes later; all of it
    when none has succeeded, if the store answers.

    Raises:
        TieredFSError: What the last attempt raised, when none has put the object.
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
        requests.make(call, deadline.earlier(FOR_ASKING))
    except TieredFSError:
        # The caller has tried for long enough: the store is asked once for each.
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
    """Tell whether an attempt has put the object: no other write has its key."""
    head = Call("head", key, lambda backend, left: backend.head(key, left))
    with suppress(TieredFSError):
        return requests.make(head, deadline).size == size
    return False


def _remove(requests: Requests, keys: list[str], deadline: Deadline) -> None:
    """Delete what may be there; the object is there whether that succeeds or not."""
    for key in keys:

        def delete(backend: Backend, left: float, key: str = key) -> None:
            backend.delete([key], left)

        with suppress(TieredFSError):
            requests.make(Call("delete", key, delete), deadline)
