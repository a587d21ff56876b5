"""Run several tasks concurrently; after the first failure no other begins."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import wait_for_all

__all__ = ["run_all"]

_T = TypeVar("_T")


def run_all(
    tasks: Sequence[Callable[[], _T]],
    *,
    concurrency: int,
    stop: Callable[[], None] | None = None,
    is_waited_for: bool = True,
) -> list[_T]:
    """Run tasks, a few at a time, and return their results in order.

    Args:
        tasks: The tasks; when one fails, those that have not begun are skipped.
        concurrency: Maximum number of tasks that run concurrently.
        stop: Called after the last result or the first failure, if tasks have run
            concurrently: it makes those that still run end early. Without it they go
            on, and their results are dropped.
        is_waited_for: Whether running tasks are waited for after ``stop``; never after
            Ctrl-C, because a store may hang.

    Raises:
        Exception: The error of the task that failed first: the errors of others may be
            its consequence.
    """
    if len(tasks) <= 1 or concurrency <= 1:
        return [task() for task in tasks]
    failures: list[BaseException] = []

    def run(task: Callable[[], _T]) -> _T:
        try:
            return task()
        except BaseException as error:
            failures.append(error)
            raise

    pool = DaemonExecutor(min(len(tasks), concurrency))
    is_interrupted = True
    try:
        futures = [pool.submit(run, task) for task in tasks]
        wait_for_all(futures)
        is_interrupted = False
        if failures:
            raise failures[0]
        return [future.result() for future in futures]
    finally:
        # Tasks that still run have a deadline, and their results are not used.
        if stop is not None:
            stop()
        is_waited = stop is not None and is_waited_for and not is_interrupted
        pool.shutdown(wait=is_waited, cancel_futures=True)
        failures.clear()
