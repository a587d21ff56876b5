"""Probe whether a store honours a conditional put, which creates an object exclusively.

Some stores accept the condition and overwrite silently (seen with rclone and JuiceFS),
and no answer shows it. So the probe creates an object under a name that is taken. The
process that created the object deletes it afterwards; where the store refuses that, the
next probe finds it.
"""

import secrets
from contextlib import suppress

from tieredfs.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects.backends import Backend
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.waiting import LockTimeoutError, call_holding
from tieredfs.objects.content import BufferContent
from tieredfs.objects.keys import COMMON_PROBE, probe_key
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["probe_conditional_put"]


def probe_conditional_put(
    requests: Requests, backend: Backend, key: str, deadline: Deadline
) -> None:
    """Probe a backend once, and remove EXCLUSIVE_CREATE if the probe fails.

    Args:
        requests: Makes the calls.
        backend: The store's backend.
        key: The key to be created, which errors name.
        deadline: When the enclosing call has to end.

    Raises:
        DeadlineExceededError: Another call's probe was not done in time.
        TieredFSError: The probe could not be made; the next call repeats it.
    """
    if backend.conditional_put_known:
        return

    def probe() -> None:
        if backend.conditional_put_known:
            return
        works = backend.conditional_put_works()
        if works is None:
            # Another process may delete the common probe between two creates.
            works = any(
                _is_refused(requests, key, tried, deadline)
                for tried in (COMMON_PROBE, probe_key())
            )
        if not works:
            backend.capabilities -= {StoreCapability.EXCLUSIVE_CREATE}
        backend.conditional_put_known = True

    try:
        call_holding(requests.connection.probe_lock, deadline.remaining, probe)
    except LockTimeoutError as error:
        limit = requests.policy.deadline
        msg = (
            f"put {requests.name(key)}: another call's probe of this store for "
            f"exclusive create was not done in {limit:g} s"
        )
        raise DeadlineExceededError(msg) from error


def _is_refused(requests: Requests, key: str, probe: str, deadline: Deadline) -> bool:
    """Create an object and create it again; return whether either was refused."""

    def attempt(backend: Backend, left: float) -> None:
        content = BufferContent(secrets.token_bytes(8))
        backend.put(probe, content, left, overwrite=False)

    def delete(backend: Backend, left: float) -> None:
        backend.delete([probe], left)

    create = Call("put", key, attempt)
    is_made = False
    try:
        requests.make(create, deadline)
        is_made = True
        requests.make(create, deadline)
    except AlreadyExistsError:
        return True
    except UnsupportedOperationError:
        return False
    finally:
        if is_made:
            with suppress(TieredFSError):
                requests.make(Call("delete", key, delete), deadline)
    return False
