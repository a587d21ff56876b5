"""Locks that are free in a forked child, whichever thread of the parent held them.

Only the thread that forks lives on in the child: a lock that another one held, for a
write that takes minutes say, would stay held there for ever.
"""

import os
import threading
import weakref

__all__ = ["make_lock"]

_locks: "weakref.WeakSet[threading.Lock]" = weakref.WeakSet()


def make_lock() -> threading.Lock:
    """Return a lock for what a child may go on to use."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        # What threading and logging do with their own; a new lock in the place of each
        # would have to be looked for in every object that has one.
        lock._at_fork_reinit()  # type: ignore[attr-defined] # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
