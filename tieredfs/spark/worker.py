"""A worker: the process that Spark keeps for task after task."""

import gc
from functools import cache

__all__ = ["freeze_imports"]


@cache
def freeze_imports() -> None:
    """Take what is imported out of the garbage collector's sight, once in a process.

    Spark collects all garbage of a worker after each task: with its own modules,
    pyarrow's and pandas' that takes longer than a small task.
    """
    gc.collect()  # else what is garbage now would never be freed
    gc.freeze()
