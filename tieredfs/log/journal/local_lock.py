"""Whether a manager of this machine is alive: the system releases a process's lock.

So a manager that was killed is replaced without waiting, when it is started again.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

__all__ = ["LocalLock"]

_SUFFIX: Final = ".lock"


@dataclass(slots=True)
class LocalLock:
    """The lock of a manager, and a look at those of others on this machine.

    Attributes:
        folder: Where the locks are; all managers of this user use the same.
        owner: The manager's unique name.
    """

    folder: Path
    owner: str
    _held: FileLock | None = field(default=None, init=False)

    def hold(self) -> None:
        """Take the lock, if it can be taken: a full disk, for example, is no error."""
        if self._held is not None:
            return
        with suppress(OSError, Timeout):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self._path(self.owner), timeout=0, thread_local=False)
            lock.acquire()
            self._held = lock

    def release(self) -> None:
        """Release the lock."""
        held, self._held = self._held, None
        if held is not None:
            with suppress(OSError):
                held.release()
                self._path(self.owner).unlink(missing_ok=True)

    def is_dead(self, other: str) -> bool:
        """Return whether another manager has died, and was one of this machine.

        It is not where it has left no lock here.
        """
        path = self._path(other)
        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0, thread_local=False):
                path.unlink(missing_ok=True)
        except (OSError, Timeout):
            return False
        return True

    def _path(self, owner: str) -> Path:
        return self.folder / f"{owner}{_SUFFIX}"
