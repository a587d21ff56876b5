"""The finalizers of fsspec's filesystems: what closes their clients, and where.

s3fs and gcsfs close a client on whatever event loop runs in the thread that drops the
last reference. In a coroutine of the user's that is another loop than the client's:
the sockets stay open, and asyncio reports a task whose exception was never retrieved.
"""

import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

__all__ = [
    "close_client",
    "close_when_collected",
    "filesystem_finalizers",
    "take_finalizers",
]


def filesystem_finalizers() -> Iterator["weakref.finalize[..., AbstractFileSystem]"]:
    """Yield the finalizers of all filesystems of this process."""
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined] # noqa: SLF001 - they are kept nowhere else
        alive = finalizer.peek()
        if alive is not None and isinstance(alive[0], AbstractFileSystem):
            yield finalizer


def take_finalizers(filesystem: AbstractFileSystem) -> list[Callable[[], object]]:
    """Detach the finalizers of a filesystem, and return what they would call."""
    taken: list[Callable[[], object]] = []
    for finalizer in filesystem_finalizers():
        alive = finalizer.peek()
        if alive is not None and alive[0] is filesystem:
            finalizer.detach()
            _, function, arguments, options = alive
            taken.append(partial(function, *arguments, **(options or {})))
    return taken


def close_when_collected(
    owner: object, filesystem: AbstractFileSystem
) -> "weakref.finalize[..., object]":
    """Close a filesystem's client on the client's loop when its owner is collected.

    Nothing happens in a forked child, which does not have that loop, or when the
    process ends, where fsspec's own finalizers run.

    Args:
        owner: An object that the filesystem does not refer to.
        filesystem: A filesystem instance that only ``owner`` uses.

    Returns:
        The finalizer, to be detached when the owner uses another filesystem.
    """
    closing = weakref.finalize(owner, _close_here, os.getpid(), filesystem)
    closing.atexit = False
    return closing


def close_client(filesystem: AbstractFileSystem) -> None:
    """Close a filesystem's client on the client's loop; do not wait for that."""
    loop = filesystem.loop if isinstance(filesystem, AsyncFileSystem) else None
    if loop is not None and loop.is_running():
        for finalizer in take_finalizers(filesystem):
            loop.call_soon_threadsafe(finalizer)


def _close_here(pid: int, filesystem: AbstractFileSystem) -> None:
    if os.getpid() == pid:
        close_client(filesystem)
