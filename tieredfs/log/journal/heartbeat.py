"""Whether a manager is alive: an object of its own, which it writes again and again.

Two times are compared that the store has given, so the clocks of the machines do not
matter: when the other manager has last written its object, and when this one has just
written its own.
"""

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from tieredfs.errors import ClosedError, NotFoundError, TieredFSError
from tieredfs.format.segment.key_scheme import MANAGER_FOLDER
from tieredfs.log.journal.local_lock import LocalLock
from tieredfs.log.store_clock import written_at
from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["LIFETIME_SECONDS", "Heartbeat", "unique_owner"]

LIFETIME_SECONDS: Final = 60.0
"""A manager that has written nothing for so long is taken for dead."""

_PER_LIFETIME: Final = 3
_LOOKS_PER_BEAT: Final = 4
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9.-]")


def unique_owner() -> str:
    """Return a name for this process that no other has, and that people recognise."""
    host = _NOT_IN_A_KEY.sub("-", socket.gethostname())[:63].strip(".") or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(slots=True)
class Heartbeat:
    """The heartbeat of one manager. It may be shared by threads.

    Attributes:
        store: The store of the tier.
        owner: The manager's unique name, which can be part of a key.
        lifetime: Seconds.
        clock: Seconds from any point in time on.
        lock: Shows other managers of this machine that this one is alive; None for
            none.
    """

    store: ObjectStore
    owner: str
    lifetime: float = LIFETIME_SECONDS
    clock: Callable[[], float] = time.monotonic
    lock: LocalLock | None = None
    _next: float | None = field(default=None, init=False)
    _is_ended: bool = field(default=False, init=False)
    _cleared: set[str] = field(default_factory=set, init=False)
    _lock: AbstractContextManager[object] = field(default_factory=make_lock, init=False)

    def beat(self) -> None:
        """Say that this manager is alive, if it has not done so for a while.

        Raises:
            ClosedError: It has said that it is gone.
        """
        with self._lock:
            self._check_alive()
            now = self.clock()
            if self._next is None or now >= self._next:
                self._write()
                self._next = now + self.lifetime / _PER_LIFETIME

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Say it again from a thread of its own, from the first ``beat`` on.

        So it is said also while one request, or the deletion of a large partition,
        takes longer than a lifetime. After the block this manager is gone; after Ctrl-C
        nothing is said, as the store may hang, and it is taken for dead in a while.
        """
        stop = threading.Event()
        DaemonExecutor(1, "tieredfs-alive").submit(self.keep, stop)
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            self.end()
            raise
        else:
            self.end()
        finally:
            stop.set()

    def clear_dead(self, other: str) -> None:
        """Remove what a manager has left that died, so that it does not stay for ever.

        If it only stood still, it writes that again.
        """
        if other not in self._cleared:
            with suppress(TieredFSError):  # then it stays
                self.store.delete([_key(other)])
            self._cleared.add(other)

    def keep(self, stop: threading.Event) -> None:
        """Say it again until ``stop`` is set, from the first ``beat`` on."""
        while not stop.wait(self.lifetime / _PER_LIFETIME / _LOOKS_PER_BEAT):
            if self._next is not None:
                with suppress(TieredFSError):  # of the store, which may recover
                    self.beat()

    def end(self) -> None:
        """Say that this manager is gone: what it was in charge of can be taken over.

        A thread of it that is still at work is refused its next change.
        """
        with self._lock:
            self._is_ended = True
            if self.lock is not None:  # also where the store fails
                self.lock.release()
            if self._next is not None:
                self._next = None
                self.store.delete([_key(self.owner)])

    def is_dead(self, other: str) -> bool:
        """Return whether another manager has died, or has ended.

        It is not where the store does not say when objects were written.

        Raises:
            ClosedError: This one has said that it is gone.
        """
        if self.lock is not None and self.lock.is_dead(other):
            return True
        try:
            before = self.store.head(_key(other)).modified
        except NotFoundError:
            return True
        with self._lock:
            self._check_alive()
            now = written_at(self.store, _key(self.owner), self.owner.encode())
        if before is None or now is None:
            return False
        return now - before > self.lifetime * 1000

    def _check_alive(self) -> None:
        """Raise ClosedError once this manager is gone."""
        if self._is_ended:
            raise ClosedError(f"manager {self.owner} has ended: it changes nothing")

    def _write(self) -> None:
        if self.lock is not None:
            self.lock.hold()
        self.store.put(_key(self.owner), self.owner.encode(), overwrite=True)


def _key(owner: str) -> str:
    return f"{MANAGER_FOLDER}alive/{owner}"
