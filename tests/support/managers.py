"""Managers that run in tests, and stores that hold up or fail what they ask for."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self, TypeVar

from typing_extensions import override

from support.rolling_log import RollingLog
from tieredfs import (
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    StorageUnavailableError,
    TieredFSError,
    TopicIdPartition,
)
from tieredfs.format.segment.key_scheme import MANAGER_FOLDER
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.status import PartitionStatus
from tieredfs.testing.stores import WRITES, InterceptedStore

__all__ = [
    "QUICK",
    "ROLLING",
    "SOON",
    "Failing",
    "Held",
    "Noted",
    "bury",
    "grown",
    "is_own",
    "managing",
    "status_of",
    "stored",
    "wait_for",
]

ROLLING = RollingLog.partition
SOON = 15.0
"""Seconds within which everything happens that a test waits for."""

QUICK = ManagerSettings(interval=0.02, threads=2, delete_delay_ms=0)

_T = TypeVar("_T")


@contextmanager
def managing(
    target: RemoteStorageManager,
    source: RemoteStorageManager | None = None,
    settings: ManagerSettings = QUICK,
    *,
    name: str = "one",
    lifetime: float = 60.0,
    now_ms: Callable[[], int] = lambda: 0,
) -> Iterator[RemoteLogManager]:
    """Run a manager, and close it."""
    heartbeat = Heartbeat(target.store, name, lifetime)
    with RemoteLogManager(
        target, source, settings, heartbeat=heartbeat, now_ms=now_ms
    ) as manager:
        yield manager


def wait_for(is_met: Callable[[], object]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + SOON
    while not is_met():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.005)


def status_of(
    manager: RemoteLogManager, partition: TopicIdPartition
) -> PartitionStatus:
    """Return the status of a partition."""
    return next(one for one in manager.status() if one.partition == partition)


def stored(
    storage: RemoteStorageManager, partition: TopicIdPartition = ROLLING
) -> list[int]:
    """Return the first offsets of the segments in the tier."""
    try:
        return [one.start_offset for one in storage.list_segments(partition)]
    except NotFoundError:
        return []


def grown(log: RollingLog, segments: int, records: int = 5) -> None:
    """Write closed segments."""
    for _ in range(segments):
        log.produce("plain", 0, records)
        log.roll()


class Noted(InterceptedStore):
    """A store that says of some requests before they are sent."""

    note: Callable[[str, str], object]
    verbs: frozenset[str]

    @classmethod
    def over(
        cls,
        store: ObjectStore,
        note: Callable[[str, str], object],
        verbs: frozenset[str] = WRITES,
    ) -> Self:
        """Return a store over the same objects, which calls ``note``."""
        made = cls._onto(store)
        made.note, made.verbs = note, verbs
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb in self.verbs:
            self.note(verb, keys[0])
        return execute()


class Held(InterceptedStore):
    """A store in which some requests wait until they are released."""

    is_held: Callable[[str, str], bool]
    reached: threading.Event
    release: threading.Event

    @classmethod
    def over(cls, store: ObjectStore, is_held: Callable[[str, str], bool]) -> Self:
        """Return a store over the same objects, whose writes may be held."""
        made = cls._onto(store)
        made.is_held = is_held
        made.reached, made.release = threading.Event(), threading.Event()
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb in WRITES and self.is_held(verb, keys[0]):
            self.reached.set()
            self.release.wait(SOON)
        return execute()


class Failing(InterceptedStore):
    """A store in which the requests for some keys fail."""

    is_failing: Callable[[str], bool]
    error: type[TieredFSError]

    @classmethod
    def over(cls, store: ObjectStore, is_failing: Callable[[str], bool]) -> Self:
        """Return a store over the same objects, whose requests may fail."""
        made = cls._onto(store)
        made.is_failing, made.error = is_failing, StorageUnavailableError
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if self.is_failing(keys[0]):
            raise self.error(f"{verb} {keys[0]} fails")
        return execute()


def is_own(key: str) -> bool:
    """Return whether an object is one of the managers', and not a segment's."""
    return key.startswith(MANAGER_FOLDER)


def bury(store: ObjectStore, name: str) -> None:
    """Let a manager that has died have been dead for a minute."""
    store.delete([f"{MANAGER_FOLDER}alive/{name}"])
