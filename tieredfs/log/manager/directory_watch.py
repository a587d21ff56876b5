"""Let a manager follow a broker's log directory: its partitions come, go and grow."""

import queue
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from tieredfs.errors import InvalidArgumentError, NotFoundError, TieredFSError
from tieredfs.log.manager.folder_changes import FolderChanges
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.retention.plan import KEEP_ALL, Retention
from tieredfs.model import UNKNOWN_TOPIC_ID, TopicIdPartition
from tieredfs.objects.policy import Deadline
from tieredfs.storage import RemoteStorageManager

__all__ = ["DirectoryWatch"]

_LIST_SECONDS: Final = 600.0
"""Seconds after which the partitions are listed although no folder came or went."""

_RETRY_SECONDS: Final = 5.0
_TICK_SECONDS: Final = 0.25
"""Seconds after which it is seen that ``stop`` is set."""

_FOLDER: Final = re.compile(r".+-\d{1,10}(-delete|-future|-stray)?", re.ASCII)


class DirectoryWatch:
    """Assign the partitions of a log directory to a manager, and wake the changed ones.

    A partition whose folder is gone is revoked; its segments stay in the tier. Where
    the whole directory is gone, as a disk that is not mounted, it is waited for.

    Attributes:
        problem: Why there is nothing to watch; None if there is.
    """

    def __init__(
        self,
        manager: RemoteLogManager,
        source: RemoteStorageManager,
        select: Callable[[], Iterable[TopicIdPartition]],
        retention: Retention = KEEP_ALL,
        *,
        on_error: Callable[[TieredFSError], object] = lambda _: None,
    ) -> None:
        """Prepare to watch, without looking yet.

        Args:
            manager: Leads the partitions.
            source: The log directory, on this machine.
            select: Lists those of its partitions that are to be tiered.
            retention: What is kept of them; compacted logs do not expire.
            on_error: Called with each new ``problem``; then it is tried again.

        Raises:
            InvalidArgumentError: The directory is not on this machine.
        """
        root = source.store.local_path
        if root is None:
            raise InvalidArgumentError(
                f"{source.store.url} is not a directory of this machine: only such a "
                "one can be watched"
            )
        self._root = root
        self._manager = manager
        self._source = source
        self._select = select
        self._retention = retention
        self._on_error = on_error
        self.problem: TieredFSError | None = None
        self._assigned: dict[str, TopicIdPartition] = {}
        self._compacted: set[TopicIdPartition] = set()

    def run(self, stop: threading.Event) -> None:
        """Watch until ``stop`` is set; then the manager still has its partitions.

        Args:
            stop: Set by another thread, or by the handler of a signal.
        """
        while not stop.is_set():
            seen = self._directory_id()
            if seen is None:
                self._report(
                    NotFoundError(f"not found: {self._root}: waiting until it is there")
                )
                stop.wait(_TICK_SECONDS)
                continue
            self._watch(stop, seen)

    def _watch(self, stop: threading.Event, seen: tuple[int, int]) -> None:
        """Watch the directory as long as it is the same one."""
        changes: queue.SimpleQueue[frozenset[str]] = queue.SimpleQueue()
        with FolderChanges(self._root, changes.put):
            # The second listing finds what came before the system began to report.
            due = Deadline(min(self.sync_partitions(), _RETRY_SECONDS))
            while not stop.is_set() and self._directory_id() == seen:
                names: frozenset[str] = frozenset()
                with suppress(queue.Empty):
                    names = changes.get(timeout=min(_TICK_SECONDS, due.remaining))
                if self._directory_id() != seen:  # its folders are not gone: it is
                    break
                if self._needs_sync(names) or not due.remaining:
                    due = Deadline(self.sync_partitions())
                for name in names:
                    if name in self._assigned:
                        self._manager.wake(self._assigned[name])

    def _directory_id(self) -> tuple[int, int] | None:
        """Return what identifies the directory; None if it is not there."""
        try:
            found = self._root.stat()
        except OSError:  # such as a disk that is not mounted
            return None
        return found.st_dev, found.st_ino

    def _report(self, problem: TieredFSError | None) -> None:
        """Report a problem once, until there is another one or none."""
        before, self.problem = self.problem, problem
        if problem is not None and str(problem) != str(before):
            self._on_error(problem)

    def sync_partitions(self) -> float:
        """Assign the partitions that are there, and revoke those that are not.

        Returns:
            Seconds until they are to be listed again.
        """
        try:
            found = {str(partition): partition for partition in self._select()}
        except NotFoundError as error:  # not yet, or not any more
            self._report(error)
            found = {}
        except TieredFSError as error:
            self._report(error)
            return _RETRY_SECONDS
        else:
            self._report(None)
        for name, partition in list(self._assigned.items()):
            if found.get(name) != partition:
                del self._assigned[name]
                self._compacted.discard(partition)
                try:
                    self._manager.revoke(partition, timeout=0)
                except TieredFSError as error:  # of the store: it is no longer assigned
                    self._on_error(error)
        expires = self._retention != KEEP_ALL
        for name, partition in found.items():
            is_compacted = expires and self._source.is_compacted(partition)
            is_known = name in self._assigned
            if is_known and is_compacted == (partition in self._compacted):
                continue
            if is_compacted:
                self._compacted.add(partition)
            retention = KEEP_ALL if is_compacted else self._retention
            self._manager.assign(partition, retention=retention)
            self._assigned[name] = partition
        return _LIST_SECONDS if self.problem is None else _RETRY_SECONDS

    def _needs_sync(self, names: Iterable[str]) -> bool:
        """Return whether one of the names may be of a partition that is not assigned.

        A broker writes the id of a new topic later than it makes the folder.
        """
        for name in names:
            partition = self._assigned.get(name)
            if partition is None and _FOLDER.fullmatch(name):
                return True
            if partition is not None and partition.topic_id == UNKNOWN_TOPIC_ID:
                return True
            if partition is not None and not (self._root / name).is_dir():
                return True
        return False
