"""``tieredfs push --watch``: the manager of a log directory, as a process."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from contextvars import copy_context
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tieredfs.cli.metrics import serving_metrics
from tieredfs.cli.output.tables import show_json, show_line
from tieredfs.errors import FencedError, TieredFSError
from tieredfs.log.manager.directory_watch import DirectoryWatch
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.status import PartitionStatus
from tieredfs.log.retention.plan import Retention
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["watch_log_directory"]

_STOP_SECONDS: Final = 7.0
"""Seconds for the tasks that run when the process is to end: Docker kills it after ten.
What is cut off is settled and copied by the next one."""


def watch_log_directory(  # noqa: PLR0913 - what is copied, how, and what is shown
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    select: Callable[[], Iterable[TopicIdPartition]],
    retention: Retention,
    settings: ManagerSettings,
    *,
    directory: Path | None,
    metrics: tuple[str, int] | None,
    as_json: bool,
) -> None:
    """Keep a log directory tiered until a signal ends the process.

    Args:
        source: The log directory.
        target: The tier.
        select: Lists the partitions that are to be tiered.
        retention: What is kept in the tier.
        settings: How the manager works.
        directory: Where logs that were read, and locks, are recorded; None for nowhere.
        metrics: Where to serve metrics; None for nowhere.
        as_json: Whether each report is JSON, one object a line.

    Raises:
        KeyboardInterrupt: A signal has ended it; the tasks have ended, or did not in
            time.
    """
    reports = _Reports(as_json=as_json)
    manager = RemoteLogManager(
        target,
        source,
        settings,
        directory=directory,
        on_status=reports.report,
    )
    watch = DirectoryWatch(
        manager, source, select, retention, on_error=reports.show_error
    )
    with ExitStack() as stack:
        if metrics is not None:
            stack.enter_context(
                serving_metrics(metrics, manager.status, _now_ms, lambda: watch.problem)
            )
        stack.enter_context(manager)
        try:
            watch.run(threading.Event())
        finally:
            if not manager.close(_STOP_SECONDS):
                reports.show("tasks are still running", level="warning")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Reports:
    """What is shown of the tasks: what was copied and deleted, and what fails."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        # A thread of the manager has no context of its own: answers would not be found.
        self._context = copy_context()
        self._lock = threading.Lock()
        self._last: dict[TopicIdPartition, PartitionStatus] = {}
        self._standby: dict[TopicIdPartition, str] = {}

    def report(self, status: PartitionStatus) -> None:
        """Show what has changed of a partition since its last report."""
        with self._lock:
            before = self._last.get(status.partition)
            if before is None:
                before = PartitionStatus(status.partition, status.role)
            self._last[status.partition] = status
        fields = _fields(status)
        copied = status.copied_segments - before.copied_segments
        deleted = status.deleted_segments - before.deleted_segments
        if copied > 0:
            self._standby.pop(status.partition, None)
            size = status.copied_bytes - before.copied_bytes
            self.show(
                f"copied {copied} segments, {size:,} bytes, up to offset "
                f"{status.end_offset}",
                fields=fields,
            )
        if deleted > 0:
            self.show(
                f"deleted {deleted} segments, before offset {status.earliest_offset}",
                fields=fields,
            )
        self._report_error(status, before.error, fields)

    def _report_error(
        self,
        status: PartitionStatus,
        before: Exception | None,
        fields: Mapping[str, object],
    ) -> None:
        """Show what fails now, and what does not any more.

        That another manager is in charge is no failure: this one stands by.
        """
        error, name = status.error, str(status.partition)
        if isinstance(error, FencedError):
            # Each time that there is something to do; said once.
            if self._standby.get(status.partition) != str(error):
                self._standby[status.partition] = str(error)
                said = str(error).removeprefix(f"{name}: ")
                self.show(f"standing by: {said}", fields=fields)
        elif error is not None:
            if str(error) != str(before):
                said = str(error).removeprefix(f"{name}: ")
                self.show(said, level=_kind_of(error), fields=fields)
        elif before is not None and not isinstance(before, FencedError):
            self.show("works again", fields=fields)

    def show_error(self, error: TieredFSError) -> None:
        """Show an error that is of no partition."""
        self.show(str(error), level=_kind_of(error))

    def show(
        self,
        text: str,
        *,
        level: str = "info",
        fields: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Show one line."""
        where = f"{fields['partition']}: " if "partition" in fields else ""
        with self._lock:
            if self._as_json:
                line = {"level": level, "message": text, **fields}
                self._context.run(show_json, line)
            elif level == "info":
                self._context.run(show_line, f"{where}{text}")
            else:
                said = f"{where}{text}".removeprefix(f"{level}: ")
                show_line(f"tieredfs: {level}: {said}", err=True)


def _fields(status: PartitionStatus) -> dict[str, object]:
    return {
        "partition": str(status.partition),
        "earliest_offset": status.earliest_offset,
        "end_offset": status.end_offset,
        "lag_segments": status.lag.segments,
        "lag_bytes": status.lag.size,
    }


def _kind_of(error: Exception) -> str:
    """Return the kind of an error, as the command names it elsewhere."""
    if isinstance(error, TieredFSError):
        return error.kind.value.replace("_", " ")
    return "error"
