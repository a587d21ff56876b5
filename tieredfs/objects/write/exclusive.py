"""Find out whether a store knows what it is to create an object exclusively.

Some take the condition and overwrite without a word (seen with rclone and JuiceFS), and
no answer tells which: so an object is created under a name that is taken. It is deleted
afterwards, by the one that made it; where that is refused, it is there for the next.
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
from tieredfs.objects.concurrency.waiting import acquire
from tieredfs.objects.content import BufferContent
from tieredfs.objects.keys import COMMON_PROBE, probe_key
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["probe_conditional_put"]


def probe_conditional_put(
    requests: Requests, backend: Backend, key: str, deadline: Deadline
) -> None:
    """Try it, unless that was done; afterwards the backend's capabilities are true.

    Args:
        requests: Makes the calls.
        backend: Of the store.
        key: What is to be created; errors name it.
        deadline: When the call has to end that wants to know.

    Raises:
        TieredFSError: The trial could not be made; the next call makes it again.
    """
    if backend.conditional_put_verified:
        return
    proving = requests.connection.proving
    if not acquire(proving, deadline.remaining):
        limit = requests.policy.deadline
        msg = f"put {requests.name(key)}: not tried what the store can in {limit:g} s"
        raise DeadlineExceededError(msg)
    try:
        if not backend.conditional_put_verified:
            works = backend.create_works()
            if works is None:
                # Another process may delete the common one between two creates.
                works = any(
                    _is_refused(requests, key, probe, deadline)
                    for probe in (COMMON_PROBE, probe_key())
                )
            if not works:
                backend.capabilities -= {StoreCapability.EXCLUSIVE_CREATE}
            backend.conditional_put_verified = True
    finally:
        proving.release()


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
