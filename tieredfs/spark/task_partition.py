"""What Spark takes to an executor for one task."""

from typing import Generic, TypeVar

from pyspark.sql.datasource import InputPartition

__all__ = ["TaskPartition"]

_T = TypeVar("_T")


class TaskPartition(InputPartition, Generic[_T]):
    """One task.

    For an empty plan Spark passes a plain InputPartition, which readers ignore.
    """

    def __init__(self, task: _T) -> None:
        """Take the task."""
        self.task = task

    def __repr__(self) -> str:
        """Show what is read, without secrets."""
        return f"TaskPartition({self.task!r})"
