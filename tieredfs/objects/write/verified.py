"""Resolve ambiguous writes: writes of which a lost reply leaves the outcome unknown.

A reply can be lost after the store has performed a request. A repeated create then
fails because of its own first attempt. So if an attempt may have succeeded, the object
under the key is compared with the content to be written: the same bytes mean success.
(Concurrent writers write distinct payloads. Two that write the same bytes may both get
a success, and the object is what both of them wanted.) A refusal that our own first
attempt may have caused is raised only after that comparison: without it, "the object
already exists" would be a guess.
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

__all__ = ["VERIFY_SHARE", "write_verified"]

VERIFY_SHARE = 0.1
"""Share of a write's deadline that is reserved for checking whether it succeeded."""


def write_verified(
    requests: Requests, call: Call[None], content: Content, deadline: Deadline
) -> None:
    """Make a call that writes ``content`` under its key; resolve an ambiguous outcome.

    Raises:
        AlreadyExistsError: Another writer's object was there first.
        TieredFSError: The error of the call, if the object does not have the content;
            or the error of the check, if it fails.
    """
    is_unclear = False

    def attempt(backend: Backend, left: float) -> None:
        nonlocal is_unclear
        try:
            call.attempt(backend, left)
        except Exception as error:
            is_unclear |= is_ambiguous(error)
            raise

    try:
        requests.make(replace(call, attempt=attempt), deadline.earlier(VERIFY_SHARE))
    except (StorageUnavailableError, DeadlineExceededError):
        # The retries are used up: the store is asked once.
        once = replace(requests, policy=replace(requests.policy, attempts=1))
        with suppress(TieredFSError):
            if is_unclear and _has_content(once, call.key, content, deadline):
                return
        raise
    except TieredFSError:
        if not is_unclear or not _has_content(requests, call.key, content, deadline):
            raise


def _has_content(
    requests: Requests, key: str, content: Content, deadline: Deadline
) -> bool:
    """Return whether an object has exactly this content.

    Raises:
        TieredFSError: The object could not be read.
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
