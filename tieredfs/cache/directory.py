"""The directory that the processes of a user share: files, their bound, their locks.

The directory itself is the truth: an entry is there when its file is. A file has its
whole content before it has its name, and is replaced or removed but never changed, so
that whoever has it mapped keeps what was checked. The lock of a killed process is free:
it is the kernel's, through ``filelock``.

When an entry was used last is its file's modification time, so that one look at the
directory tells in which order to remove. That of an entry which was used only once is
40 years earlier: it comes before all that were used again.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Self

import pyarrow as pa
from filelock import FileLock

from tieredfs.cache.eviction import Candidate, plan_evictions
from tieredfs.cache.ledger import Balance, Ledger
from tieredfs.format.buffers import Buffer

__all__ = ["CacheDirectory", "Usage"]

_SUFFIX = ".indexes"
_TEMPORARY = ".tmp"
_LEDGER = "ledger"
_STRIPES = 64
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


class CacheDirectory:
    """Files of a cache, by names of hexadecimal digits, and the room they have."""

    def __init__(self, path: Path, bound: int, clock: Callable[[], float]) -> None:
        """Make the directory, set its bound for all processes, and keep within it.

        No entry is opened: one look at the directory counts them.

        Args:
            path: The directory.
            bound: Bytes that all entries may have together.
            clock: Seconds since 1970.

        Raises:
            OSError: It cannot be made or written.
        """
        self.path = path
        self._bound = bound
        self._clock = clock
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FileLock(path / "lock")
        self._loading = [FileLock(path / f"load-{n:02d}") for n in range(_STRIPES)]
        self._ledger = Ledger(path / _LEDGER)
        with self._lock:
            self._remove_leftovers()
            self._ledger.write(Balance(bound, None))
        with self._changing() as room:
            room.make(0)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """Return a directory that a cache has made, its bound as it is; else None.

        Raises:
            OSError: It cannot be read or written.
        """
        told = Ledger(path / _LEDGER).read()
        return None if told is None else cls(path, told.bound, time.time)

    def resize(self, bound: int) -> list[str]:
        """Set the bound for all processes; return the names of what had to go."""
        self._bound = bound
        with self._changing() as room:
            room.bound = bound
            return room.make(0)

    def read(self, name: str) -> memoryview:
        """Map the file of an entry, read-only; the mapping outlives the file.

        Raises:
            FileNotFoundError: There is none.
            OSError: It cannot be mapped.
        """
        # The descriptor is closed at once: only the mapping stays.
        with pa.memory_map(str(self._file(name))) as file:
            return memoryview(file.read_buffer()).cast("B")

    def publish(self, name: str, pieces: Sequence[Buffer]) -> list[str]:
        """Write an entry, on probation; return the names of what had to go for it.

        Afterwards it is there whole, or, also after a crash, not at all. One that is
        larger than the bound is not kept.

        Raises:
            OSError: It cannot be written.
        """
        size = sum(memoryview(piece).nbytes for piece in pieces)
        temporary = self.path / f"{os.getpid()}-{token_hex(8)}{_TEMPORARY}"
        try:
            with temporary.open("xb") as file:
                file.writelines(pieces)
            self._stamp(temporary, self._clock() - _PROBATION)
            with self._changing() as room:
                if size > room.bound:
                    return []
                room.remove(name)
                gone = room.make(size)
                temporary.replace(self._file(name))
                room.total += size
                return gone
        finally:
            temporary.unlink(missing_ok=True)

    def remove(self, names: Sequence[str]) -> None:
        """Remove entries; one that is not there is no error."""
        with self._changing() as room:
            for name in names:
                room.remove(name)

    def clear(self) -> None:
        """Remove all entries."""
        with self._changing() as room:
            for candidate in self.scan():
                room.remove(candidate.name)
            room.total = 0

    def use_again(self, name: str) -> None:
        """Note that an entry was used once more: it is hot from now on."""
        with suppress(FileNotFoundError):
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
        with os.scandir(self.path) as found:
            for item in found:
                if not item.name.endswith(_SUFFIX):
                    continue
                with suppress(FileNotFoundError):
                    told = item.stat()
                    is_hot = told.st_mtime > _NEVER
                    used = told.st_mtime + (0 if is_hot else _PROBATION)
                    name = item.name.removesuffix(_SUFFIX)
                    yield Candidate(name, told.st_size, used, is_hot)

    def usage(self) -> Usage:
        """Count what is there."""
        sizes = [candidate.size for candidate in self.scan()]
        told = self._ledger.read()
        return Usage(len(sizes), sum(sizes), told.bound if told else self._bound)

    @contextmanager
    def loading(self, name: str) -> Iterator[None]:
        """Be the only one, of all threads and processes, that loads an entry."""
        with self._loading[int(name, 16) % _STRIPES]:
            yield

    @contextmanager
    def _changing(self) -> Iterator["_Room"]:
        """Hold the lock, and the account of what is there.

        Whoever is killed inside, or fails, leaves word that it has to be counted.
        """
        with self._lock:
            told = self._ledger.read() or Balance(self._bound, None)
            self._ledger.write(Balance(told.bound, None))
            total = self._count() if told.total is None else told.total
            room = _Room(self, told.bound, total)
            yield room
            self._ledger.write(Balance(room.bound, room.total))

    def _count(self) -> int:
        return sum(candidate.size for candidate in self.scan())

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"

    @staticmethod
    def _stamp(path: Path, moment: float) -> None:
        os.utime(path, (moment, moment))

    def _remove_leftovers(self) -> None:
        """Remove what processes that are gone were writing."""
        for path in self.path.glob(f"*{_TEMPORARY}"):
            writer = path.name.partition("-")[0]
            if not (writer.isdecimal() and _is_running(int(writer))):
                path.unlink(missing_ok=True)

    def unlink(self, name: str) -> int:
        """Remove a file, the lock being held; return the bytes that it had."""
        path = self._file(name)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        return size


class _Room:
    """The account of a directory while it is changed."""

    def __init__(self, directory: CacheDirectory, bound: int, total: int) -> None:
        self._directory = directory
        self.bound = bound
        self.total = total

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there."""
        self.total = max(0, self.total - self._directory.unlink(name))

    def make(self, size: int) -> list[str]:
        """Remove what has to go for ``size`` bytes more; return the names."""
        if self.total + size <= self.bound:
            return []
        entries = list(self._directory.scan())
        self.total = sum(entry.size for entry in entries)  # what is, not what was told
        gone = plan_evictions(entries, self.bound - size)
        for entry in gone:
            self.remove(entry.name)
        return [entry.name for entry in gone]


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
