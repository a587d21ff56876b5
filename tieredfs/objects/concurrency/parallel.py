"""Do several things at once, and end with the first that fails."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import wait_for_all

__all__ = ["run_all"]

_T = TypeVar("_T")


def run_all(
    tasks: Sequence[Callable[[], _T]],
    *,
    at_once: int,
    stop: Callable[[], None] | None = None,
    is_waited_for: bool = True,
) -> list[_T]:
    """Run tasks, a few at a time, and return what they return, in their order.

    Args:
        tasks: What to do; when one fails, those that have not begun are left out.
        at_once: Most that run at the same time.
        stop: Make those that have begun end.
        is_waited_for: Whether those that have begun are waited for after ``stop``; not
            after Ctrl-C, for a store may hang.

    Raises:
        Exception: That of the task that failed first: those of others may be its
            consequence.
    """
    if len(tasks) <= 1 or at_once <= 1:
        return [task() for task in tasks]
    failures: list[BaseException] = []

    def run(task: Callable[[], _T]) -> _T:
        try:
            return task()
        except BaseException as error:
            failures.append(error)
            raise

    pool = DaemonExecutor(min(len(tasks), at_once))
    is_interrupted = True
    try:
        futures = [pool.submit(run, task) for task in tasks]
        wait_for_all(futures)
        is_interrupted = False
        if failures:
            raise failures[0]
        return [future.result() for future in futures]
    finally:
        # What still runs has a deadline, and nobody wants its answer.
        if stop is not None:
            stop()
        is_waited = stop is not None and is_waited_for and not is_interrupted
        pool.shutdown(wait=is_waited, cancel_futures=True)
        failures.clear()
