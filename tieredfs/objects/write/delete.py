"""Delete many objects, as many per request as the store accepts."""

from collections.abc import Sequence
from functools import partial

from tieredfs.errors import TieredFSError
from tieredfs.objects.backends import Backend
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["delete", "raise_failures"]

_MAX_SHOWN_KEYS = 10


def delete(
    requests: Requests, keys: Sequence[str], backend: Backend, deadline: Deadline
) -> None:
    """Delete objects; a missing object is not an error.

    Every key is tried, even when others fail.

    Args:
        requests: Makes the calls.
        keys: The objects' keys.
        backend: The backend, which limits the keys of a request.
        deadline: When all have to be deleted.

    Raises:
        TieredFSError: Some objects may remain; the error's ``keys`` lists them.
    """
    step = backend.max_delete_keys
    chunks = [keys[at : at + step] for at in range(0, len(keys), step)]
    tasks = [partial(_delete_chunk, requests, chunk, deadline) for chunk in chunks]
    errors = run_all(tasks, concurrency=requests.concurrency(backend))
    raise_failures(errors, len(keys), "keys were not deleted")


def raise_failures(
    errors: Sequence[TieredFSError | None], count: int, what: str
) -> None:
    """Raise one error for all the failures of several operations.

    Args:
        errors: The error of each operation, with its keys; None where it succeeded.
        count: Number of keys in all operations.
        what: What the keys are and what was not done, for the message.

    Raises:
        TieredFSError: An error that is not retryable, if there is one.
    """
    failed = [error for error in errors if error is not None]
    if not failed:
        return
    left = tuple(key for error in failed for key in error.keys)
    worst = min(failed, key=lambda error: error.retryable)
    if count > 1:
        shown = ", ".join(left[:_MAX_SHOWN_KEYS]) + (
            ", …" if len(left) > _MAX_SHOWN_KEYS else ""
        )
        worst = type(worst)(f"{len(left)} of {count} {what}: {shown}: {worst}")
    worst.keys = left
    raise worst from failed[0].__cause__


def _delete_chunk(
    requests: Requests, keys: Sequence[str], deadline: Deadline
) -> TieredFSError | None:
    """Delete the keys of one request; return the error, if any, with its keys."""
    left = list(keys)

    def attempt(backend: Backend, seconds: float) -> None:
        failures = backend.delete(left, seconds)
        left[:] = failures
        if failures:
            raise _worst(list(failures.values()))

    try:
        requests.make(Call("delete", keys[0], attempt), deadline)
    except TieredFSError as error:
        error.keys = tuple(left)
        return error
    return None


def _worst(errors: Sequence[Exception]) -> Exception:
    """Return an error that is not retryable, if there is one."""

    def may_help(error: Exception) -> bool:
        kind = failure_class(error)
        return kind is not None and kind.retryable

    return min(errors, key=may_help)
