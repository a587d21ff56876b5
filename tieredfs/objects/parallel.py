"""Do several things at once, and end with the first that fails."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["run_all"]

_T = TypeVar("_T")


def run_all(
    tasks: Sequence[Callable[[], _T]], *, at_once: int, to_the_end: bool = False
) -> list[_T]:
    """Run tasks, a few at a time, and return what they return, in their order.

    Args:
        tasks: What to do; when one fails, those that have not begun are left out.
        at_once: Most that run at the same time.
        to_the_end: Whether those that have begun are waited for when one fails.

    Raises:
        Exception: That of a task that failed.
    """
    if len(tasks) <= 1 or at_once <= 1:
        return [task() for task in tasks]
    pool = ThreadPoolExecutor(min(len(tasks), at_once), "tieredfs")
    try:
        futures = [pool.submit(task) for task in tasks]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
        return [future.result() for future in futures]
    finally:
        # What still runs has a deadline, and nobody wants its answer.
        pool.shutdown(wait=to_the_end, cancel_futures=True)
