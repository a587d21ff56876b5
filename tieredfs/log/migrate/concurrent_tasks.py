"""Tasks that are done concurrently, of which the first error ends all."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import wait_for_all

__all__ = ["all_done"]

_T = TypeVar("_T")


def all_done(pool: DaemonExecutor, tasks: Sequence[Callable[[], _T]]) -> list[_T]:
    """Return the results of tasks in their order, or raise the first error."""
    jobs = [pool.submit(task) for task in tasks]
    wait_for_all(jobs)
    for job in jobs:
        if job.done():
            job.result()  # raises the error that has ended the wait
    return [job.result() for job in jobs]
