"""The directory that the processes of a user share: files, their bound, their locks.

The directory itself is the truth: an entry is there when its file is. A file has its
whole content before it has its name, and is replaced or removed but never changed, so
that whoever has it mapped keeps what was checked. The lock of a killed process is free:
it is the kernel's, through ``filelock``.

When an entry was used last is its file's modification time, so that one look at the
directory tells in which order to remove. That of an entry which was used only once is
40 years earlier: it comes before all that were used again.
"""

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple, Self

import pyarrow as pa
from filelock import FileLock

from tieredfs.cache.eviction import Candidate, plan_evictions
from tieredfs.cache.ledger import Balance, Ledger
from tieredfs.format.buffers import Buffer

__all__ = ["DEFAULT_BYTES", "CacheDirectory", "Usage", "bound_if_new"]

DEFAULT_BYTES: Final = 1 << 30
"""Bytes on disk that a cache may take, unless it is told otherwise: 1 GiB, as Kafka."""

# The directory may hold other files: no other program gives its own such names.
_SUFFIX = ".indexes"
_ENTRY = re.compile(rf"[0-9a-f]{{32}}\{_SUFFIX}", re.ASCII)
_LEFTOVER = re.compile(r"(\d{1,10})-[0-9a-f]{16}\.tmp", re.ASCII)
_LEDGER = "tieredfs-ledger"
_LOCK = "tieredfs-lock"
_LOAD_LOCK = "tieredfs-load-{:04d}"
_STRIPES = 1024
_PATIENCE = 10.0
_POLL = 0.002
_ABANDONED = 3600.0
"""Seconds after which a file is not being written any more: in a container the number
of a process that is gone may be that of one that runs."""

_PROBATION = 40 * 365 * 86_400.0
_NEVER = 1_200_000_000.0
"""No entry was used before this time (2008): an earlier one is of one on probation."""


class Usage(NamedTuple):
    """What a directory holds.

    Attributes:
        entries: Files.
        size: Bytes of them.
        bound: Bytes that there may be.
    """

    entries: int
    size: int
    bound: int


def bound_if_new(path: Path, bound: int) -> int | None:
    """Return the bound for a directory; None where a cache has been, which has one."""
    with suppress(OSError):  # whoever opens it tells
        if CacheDirectory.existing(path) is not None:
            return None
    return bound


class CacheDirectory:
    """Files of a cache, by names of hexadecimal digits, and the room they have."""

    def __init__(self, path: Path, bound: int, clock: Callable[[], float]) -> None:
        """Name a directory; nothing is read or written yet.

        Args:
            path: The directory; a relative one is in the folder of this moment.
            bound: Bytes that all entries may have together, where none were told.
            clock: Seconds since 1970.
        """
        self.path = path.absolute()
        self._bound = bound
        self._clock = clock
        self._ledger = Ledger(self.path / _LEDGER)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """Return a directory that a cache has made, its bound as it is; else None."""
        found = cls(path, DEFAULT_BYTES, time.time)
        is_made = (path / _LEDGER).exists() or any(found.scan())
        return found if is_made else None

    @property
    def bound(self) -> int:
        """Bytes that all entries may have together, for all processes."""
        told = self._ledger.read()
        return told.bound if told else self._bound

    def establish(self, bound: int | None = None) -> None:
        """Make the directory, and keep within its bound.

        No entry is opened: one look at the directory counts them.

        Args:
            bound: To set for all processes, before anything has to go; None for the one
                that it has.

        Raises:
            OSError: It cannot be made or written.
        """
        with self._changing(self._counted()) as room:
            room.bound = room.bound if bound is None else bound
            room.evict_to_fit(0)

    def resize(self, bound: int) -> list[str]:
        """Set the bound for all processes; return the names of what had to go."""
        self._bound = bound
        with self._changing() as room:
            room.bound = bound
            return room.evict_to_fit(0)

    def read(self, name: str) -> memoryview:
        """Map the file of an entry, read-only; the mapping outlives the file.

        Raises:
            FileNotFoundError: There is none.
            OSError: It cannot be mapped, or is no file.
        """
        path = self._file(name)
        if not path.is_file() and path.exists():  # to open a pipe may take for ever
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # The descriptor is closed at once, only the mapping stays: mmap.mmap keeps one.
        # A path is given as bytes: of a text pyarrow takes only what is UTF-8.
        with pa.memory_map(os.fsencode(path)) as file:
            return memoryview(file.read_buffer()).cast("B")

    def publish(
        self, name: str, pieces: Sequence[Buffer], patience: float = _PATIENCE
    ) -> list[str]:
        """Write an entry, on probation; return the names of what had to go for it.

        Afterwards it is there whole, or, also after a crash, not at all. One that is
        larger than the bound is not kept.

        Args:
            name: The entry's.
            pieces: Its content.
            patience: Seconds to wait for another process; 10 at most.

        Raises:
            OSError: It cannot be written.
        """
        size = sum(memoryview(piece).nbytes for piece in pieces)
        temporary = self.path / f"{os.getpid()}-{token_hex(8)}.tmp"
        self._make()
        try:
            with open(temporary, "xb", opener=_open_private) as file:
                file.writelines(pieces)
            self._stamp(temporary, self._clock() - _PROBATION)
            with self._changing(patience=min(patience, _PATIENCE)) as room:
                if size > room.bound:
                    return []
                room.remove(name)
                gone = room.evict_to_fit(size)
                temporary.replace(self._file(name))
                room.total += size
                return gone
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def remove(self, names: Sequence[str]) -> None:
        """Remove entries; one that is not there is no error.

        Raises:
            OSError: They cannot be removed.
        """
        with self._changing() as room:
            for name in names:
                room.remove(name)

    def clear(self) -> None:
        """Remove all entries.

        Raises:
            OSError: They cannot be removed.
        """
        with self._changing() as room:
            for candidate in self.scan():
                room.remove(candidate.name)
            room.total = 0

    def touch(self, name: str) -> None:
        """Note that an entry was used once more: it is hot from now on.

        Where nothing can be written the oldest goes first, used again or not.
        """
        with suppress(OSError):
            self._stamp(self._file(name), self._clock())

    def used(self, name: str) -> float | None:
        """Return when an entry was used last, by the clock; None when there is none."""
        try:
            moment = self._file(name).stat().st_mtime
        except FileNotFoundError:
            return None
        return moment if moment > _NEVER else moment + _PROBATION

    def scan(self) -> Iterator[Candidate]:
        """Look at each entry once; none is opened."""
        for item in self._items():
            if _ENTRY.fullmatch(item.name) is None:
                continue
            with suppress(FileNotFoundError):
                told = item.stat(follow_symlinks=False)
                is_hot = told.st_mtime > _NEVER
                used = told.st_mtime + (0 if is_hot else _PROBATION)
                name = item.name.removesuffix(_SUFFIX)
                yield Candidate(name, told.st_size, used, is_hot)

    def usage(self) -> Usage:
        """Count what is there."""
        sizes = [candidate.size for candidate in self.scan()]
        return Usage(len(sizes), sum(sizes), self.bound)

    @contextmanager
    def loading(self, name: str, patience: float) -> Iterator[None]:
        """Be the only one, of all threads and processes, that loads an entry.

        Args:
            name: The entry's.
            patience: Seconds to wait for another one.

        Raises:
            OSError: There can be no lock; TimeoutError, when ``patience`` ran out.
        """
        with self._locked(_LOAD_LOCK.format(int(name, 16) % _STRIPES), patience):
            yield

    @contextmanager
    def _changing(
        self, count: "_Count | None" = None, *, patience: float = _PATIENCE
    ) -> Iterator["_Eviction"]:
        """Hold the lock, and the account of what is there.

        Whoever is killed inside, or fails, leaves word that it has to be counted, and
        the bound that was kept before. Where there are many entries to count them takes
        long, so it is done before the lock is taken.

        Args:
            count: What was counted, if it was.
            patience: Seconds to wait for another process.
        """
        while True:
            with self._locked(_LOCK, patience):
                told = self._ledger.read()
                total = _settled(told, count)
                if total is not None:
                    bound = told.bound if told else self._bound
                    self._ledger.write(Balance(bound, None))
                    room = _Eviction(self, bound, total)
                    yield room
                    self._ledger.write(Balance(room.bound, room.total))
                    return
            count = self._counted()

    @contextmanager
    def _locked(self, name: str, patience: float) -> Iterator[None]:
        """Hold one of the locks.

        A process that is killed lets go of it; one that is stopped does not, and
        nobody may wait for it for ever.
        """
        self._make()
        lock = FileLock(self.path / name)
        try:
            held = lock.acquire(timeout=patience, poll_interval=_POLL)
        except NotImplementedError as error:  # the disk has no locks
            raise OSError(errno.ENOLCK, str(error)) from error
        with held:
            yield

    def _make(self) -> None:
        """Make the directory: somebody may have removed it under us."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _items(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as found:
                yield from found
        except FileNotFoundError:
            return

    def _counted(self) -> "_Count":
        """Count the bytes of all entries; remove what was never written to its end."""
        told = self._ledger.read()
        size = 0
        for item in self._items():
            with suppress(FileNotFoundError):
                if _ENTRY.fullmatch(item.name):
                    size += item.stat(follow_symlinks=False).st_size
                elif writer := _LEFTOVER.fullmatch(item.name):
                    self._remove_leftover(Path(item.path), int(writer[1]))
        return _Count(told, size)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"

    @staticmethod
    def _stamp(path: Path, moment: float) -> None:
        os.utime(path, (moment, moment))

    @staticmethod
    def _remove_leftover(path: Path, writer: int) -> None:
        """Remove what a process was writing, if that is gone."""
        # By the system's clocks: what is being written has no time of ours yet.
        is_old = time.time() - path.stat().st_ctime > _ABANDONED
        if is_old or not _is_running(writer):
            path.unlink(missing_ok=True)

    def unlink(self, name: str) -> int:
        """Remove a file, the lock being held; return the bytes that it had."""
        path = self._file(name)
        try:
            told = path.lstat()
            if stat.S_ISDIR(told.st_mode):  # nobody knows why, but it is in the way
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            return 0
        return told.st_size


class _Count(NamedTuple):
    """What was counted without the lock.

    Attributes:
        told: What the ledger said when the counting began.
        total: Bytes of the entries that were there.
    """

    told: Balance | None
    total: int


def _settled(told: Balance | None, count: _Count | None) -> int | None:
    """Return how many bytes there are; None when they have to be counted.

    Args:
        told: What the ledger says, the lock being held.
        count: What was counted before; right only if nothing has changed since.
    """
    if count is not None and count.told == told:
        return count.total
    return told.total if told else None


class _Eviction:
    """The account of a directory while it is changed."""

    def __init__(self, directory: CacheDirectory, bound: int, total: int) -> None:
        self._directory = directory
        self.bound = bound
        self.total = total

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there."""
        self.total = max(0, self.total - self._directory.unlink(name))

    def evict_to_fit(self, size: int) -> list[str]:
        """Remove what has to go for ``size`` bytes more; return the names."""
        if self.total + size <= self.bound:
            return []
        entries = list(self._directory.scan())
        self.total = sum(entry.size for entry in entries)  # what is, not what was told
        gone = plan_evictions(entries, self.bound - size)
        for entry in gone:
            self.remove(entry.name)
        return [entry.name for entry in gone]


def _open_private(path: str, flags: int) -> int:
    """Open a file for its owner alone: what it holds may be encrypted in the store."""
    return os.open(path, flags, 0o600)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OverflowError:  # no process has such a number
        return False
    except PermissionError:
        return True
    return True
