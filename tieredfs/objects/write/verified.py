"""Write an object when nobody knows whether an earlier try has written it.

A reply can be lost after the store has done what it was asked. Repeated, a create then
fails by its own first try. So when a try may have been done, what lies under the key is
compared with what was to be written: the same bytes are our own success. (Racers write
distinct payloads; two that write the same bytes may both be told that they won, and the
object is what both of them wanted.) A refusal that may be meant for ourselves is passed
on only when that comparison was made: "there is one already" would be a guess.
"""

from contextlib import suppress
from dataclasses import replace

from tieredfs.errors import (
    CorruptObjectError,
    DeadlineExceededError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.objects.backends import Backend
from tieredfs.objects.content import Content, pieces
from tieredfs.objects.errors_map import is_ambiguous
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["FOR_ASKING", "write_verified"]

FOR_ASKING = 0.1
"""How much of a write's deadline is kept for asking whether it was done."""


def write_verified(
    requests: Requests, call: Call[None], content: Content, deadline: Deadline
) -> None:
    """Make a call that writes ``content`` under its key; settle what is unclear.

    Raises:
        AlreadyExistsError: An object that is not ours was there first.
        TieredFSError: What the call raised, when the object is not what it should be;
            or why there is no finding out.
    """
    unclear = False

    def attempt(backend: Backend, left: float) -> None:
        nonlocal unclear
        try:
            call.attempt(backend, left)
        except Exception as error:
            unclear |= is_ambiguous(error)
            raise

    try:
        requests.make(replace(call, attempt=attempt), deadline.earlier(FOR_ASKING))
    except (StorageUnavailableError, DeadlineExceededError):
        # Whoever calls has tried for long enough: the store is asked once.
        once = replace(requests, policy=replace(requests.policy, attempts=1))
        with suppress(TieredFSError):
            if unclear and _holds(once, call.key, content, deadline):
                return
        raise
    except TieredFSError:
        if not unclear or not _holds(requests, call.key, content, deadline):
            raise


def _holds(requests: Requests, key: str, content: Content, deadline: Deadline) -> bool:
    """Tell whether an object has exactly this content.

    Raises:
        TieredFSError: The store does not say.
    """
    head = Call("head", key, lambda backend, left: backend.head(key, left))
    try:
        return requests.make(head, deadline).size == content.size and all(
            requests.make(_piece(key, start, start + len(piece)), deadline) == piece
            for start, piece in pieces(content)
        )
    except (NotFoundError, CorruptObjectError):  # gone, or replaced meanwhile
        return False


def _piece(key: str, start: int, end: int) -> Call[bytes | memoryview]:
    return Call(
        "get_range",
        key,
        lambda backend, left: backend.get_range(key, start, end, left),
        len,
        f" [{start}, {end})",
    )
