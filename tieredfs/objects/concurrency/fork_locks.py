"""Locks that are free in a forked child, whichever thread of the parent held them.

Only the thread that forks exists in the child. A lock that another thread held, for
example during a write of some minutes, would stay locked there forever.
"""

import os
import threading
import weakref

__all__ = ["make_lock", "make_rlock"]

_locks: "weakref.WeakSet[threading.Lock | threading.RLock]" = weakref.WeakSet()


def make_lock() -> threading.Lock:
    """Return a lock that is free again in a forked child."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def make_rlock() -> threading.RLock:
    """Return a lock that knows its thread, and is free again in a forked child."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        # As threading and logging do with their own locks. To replace each lock, every
        # object that has one would have to be found.
        lock._at_fork_reinit()  # type: ignore[union-attr] # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
