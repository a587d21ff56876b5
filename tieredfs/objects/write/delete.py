"""Delete many objects, as many in a request as the store takes."""

from collections.abc import Sequence
from functools import partial

from tieredfs.errors import TieredFSError
from tieredfs.objects.backends import Backend
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["delete", "raise_undone"]

_SHOWN = 10


def delete(requests: Requests, keys: Sequence[str], backend: Backend) -> None:
    """Delete objects; one that is not there is success.

    Every key is tried, whatever happens to others.

    Raises:
        TieredFSError: Some are still there, as far as is known; ``keys`` tells which.
    """
    deadline = requests.deadline()
    step = backend.delete_limit
    chunks = [keys[at : at + step] for at in range(0, len(keys), step)]
    tasks = [partial(_delete_chunk, requests, chunk, deadline) for chunk in chunks]
    errors = run_all(tasks, at_once=backend.at_once)
    raise_undone(errors, len(keys), "keys were not deleted")


def raise_undone(errors: Sequence[TieredFSError | None], count: int, what: str) -> None:
    """Raise one error for all that could not be done of several things.

    Args:
        errors: Why some could not be done, each with their keys; None where all were.
        count: How many things there were.
        what: What they are, and what they were not, for the message.

    Raises:
        TieredFSError: One that another call does not help, if there is one.
    """
    failed = [error for error in errors if error is not None]
    if not failed:
        return
    left = tuple(key for error in failed for key in error.keys)
    worst = min(failed, key=lambda error: error.retryable)
    if count > 1:
        shown = ", ".join(left[:_SHOWN]) + (", …" if len(left) > _SHOWN else "")
        worst = type(worst)(f"{len(left)} of {count} {what}: {shown}: {worst}")
    worst.keys = left
    raise worst from failed[0].__cause__


def _delete_chunk(
    requests: Requests, keys: Sequence[str], deadline: Deadline
) -> TieredFSError | None:
    """Delete what one request takes; return why some could not be, with their keys."""
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
    """Return an error that another try does not help, if there is one."""

    def may_help(error: Exception) -> bool:
        kind = failure_class(error)
        return kind is not None and kind.retryable

    return min(errors, key=may_help)
