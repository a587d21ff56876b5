"""The cache directory that a user's processes share: entry files, size limit and locks.

The directory is the only source of truth: an entry exists if its file does. A file is
complete before it gets its name, and is replaced or removed but never changed, so a
process that has mapped it keeps the bytes it checked. The locks are the kernel's,
through ``filelock``, so a killed process releases them.

The last use of an entry is its file's modification time, so one scan of the directory
gives the order of eviction. The modification time of an entry that was used only once
is 40 years earlier, so it precedes all entries that were used again.
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
from secrets import randbits, token_hex
from typing import Final, NamedTuple, Self

import pyarrow as pa
from filelock import FileLock

from tieredfs.cache.eviction import Candidate, plan_evictions
from tieredfs.cache.ledger import MARK_BITS, Balance, Ledger
from tieredfs.format.buffers import Buffer

__all__ = ["DEFAULT_BYTES", "CacheDirectory", "Usage", "max_bytes_if_new"]

DEFAULT_BYTES: Final = 1 << 30
"""Default maximum bytes on disk of a cache: 1 GiB, as in Kafka."""

# The directory may contain files of other programs, none of which uses these names.
_SUFFIX = ".indexes"
_ENTRY = re.compile(rf"[0-9a-f]{{32}}\{_SUFFIX}", re.ASCII)
_LEFTOVER = re.compile(r"(\d{1,10})-[0-9a-f]{16}\.tmp", re.ASCII)
_LEDGER = "tieredfs-ledger"
_LOCK = "tieredfs-lock"
_LOAD_LOCK = "tieredfs-load-{:04d}"
_LOAD_LOCKS = 1024
_MAX_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.002
_ABANDONED_SECONDS = 3600.0
"""Seconds after which a temporary file counts as abandoned even if its process exists:
in a container, the id of a dead process may be that of a running one."""

_PROBATION = 40 * 365 * 86_400.0
_EARLIEST_USE = 1_200_000_000.0
"""No entry was used before this time (2008): an earlier time means probation."""


class Usage(NamedTuple):
    """The contents of a directory.

    Attributes:
        entries: Number of files.
        size: Total bytes of the files.
        max_bytes: Maximum total bytes.
    """

    entries: int
    size: int
    max_bytes: int


def max_bytes_if_new(path: Path, max_bytes: int) -> int | None:
    """Return ``max_bytes`` for a new directory; None for one that has a limit."""
    with suppress(OSError):  # opening the directory reports it
        if CacheDirectory.existing(path) is not None:
            return None
    return max_bytes


class CacheDirectory:
    """The files of a cache, named by hexadecimal digits, and their total size."""

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float]) -> None:
        """Refer to a directory; nothing is read or written yet.

        Args:
            path: The directory; a relative path is resolved now.
            max_bytes: Maximum total bytes of all entries, if none has been set.
            clock: Returns seconds since 1970.
        """
        self.path = path.absolute()
        self._max_bytes = max_bytes
        self._clock = clock
        self._ledger = Ledger(self.path / _LEDGER)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """Return the directory if a cache has created it, with its limit; else None."""
        found = cls(path, DEFAULT_BYTES, time.time)
        is_made = (path / _LEDGER).exists() or any(found.scan())
        return found if is_made else None

    @property
    def max_bytes(self) -> int:
        """Maximum total bytes of all entries, for all processes."""
        balance = self._ledger.read()
        return balance.max_bytes if balance else self._max_bytes

    def establish(self, max_bytes: int | None = None) -> None:
        """Create the directory, and evict entries beyond its limit.

        No entry is opened: one scan of the directory counts them.

        Args:
            max_bytes: The limit to set for all processes, before any eviction; None to
                keep the current one. It is kept if the directory loses it.

        Raises:
            OSError: The directory cannot be created or written.
        """
        with self._changing(self._counted()) as change:
            change.max_bytes = change.max_bytes if max_bytes is None else max_bytes
            self._max_bytes = change.max_bytes
            change.evict_to_fit(0)

    def resize(self, max_bytes: int) -> list[str]:
        """Set the limit for all processes; return the names of evicted entries."""
        self._max_bytes = max_bytes
        with self._changing() as change:
            change.max_bytes = max_bytes
            return change.evict_to_fit(0)

    def read(self, name: str) -> memoryview:
        """Map the file of an entry, read-only; the mapping outlives the file.

        Raises:
            FileNotFoundError: The entry does not exist.
            OSError: The entry cannot be mapped, or is not a file.
        """
        path = self._file(name)
        if not path.is_file() and path.exists():  # opening a pipe may block forever
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # The descriptor is closed immediately, only the mapping stays: mmap.mmap keeps
        # a descriptor. The path is passed as bytes: pyarrow encodes a str as UTF-8.
        with pa.memory_map(os.fsencode(path)) as file:
            return memoryview(file.read_buffer()).cast("B")

    def publish(
        self, name: str, pieces: Sequence[Buffer], timeout: float = _MAX_LOCK_SECONDS
    ) -> list[str]:
        """Write an entry, on probation; return the names of the entries it evicted.

        Afterwards, and after a crash as well, the entry is complete or does not exist.
        An entry that is larger than the limit is not written.

        Args:
            name: Name of the entry.
            pieces: Its content.
            timeout: Seconds to wait for another process; 10 at most.

        Raises:
            OSError: The entry cannot be written.
        """
        return self._put(name, pieces, timeout, is_new=True)

    def rewrite(
        self, name: str, pieces: Sequence[Buffer], timeout: float = _MAX_LOCK_SECONDS
    ) -> list[str]:
        """Write an entry in place of the one that exists, with that one's last use.

        As ``publish``, but an entry that was removed meanwhile stays removed.

        Args:
            name: Name of the entry.
            pieces: Its content.
            timeout: Seconds to wait for another process; 10 at most.

        Raises:
            OSError: The entry cannot be written.
        """
        return self._put(name, pieces, timeout, is_new=False)

    def _put(
        self, name: str, pieces: Sequence[Buffer], timeout: float, *, is_new: bool
    ) -> list[str]:
        temporary = self.path / f"{os.getpid()}-{token_hex(8)}.tmp"
        self._make()
        try:
            with open(temporary, "xb", opener=_open_private) as file:
                file.writelines(pieces)
                size = file.tell()
            self._stamp(temporary, self._clock() - _PROBATION)
            with self._changing(timeout=min(timeout, _MAX_LOCK_SECONDS)) as change:
                if size > change.max_bytes:
                    return []
                if not is_new:
                    try:
                        last = self._file(name).stat().st_mtime
                    except FileNotFoundError:
                        return []
                    self._stamp(temporary, last)
                change.discard(name)
                gone = change.evict_to_fit(size)
                temporary.replace(self._file(name))
                change.total += size
                return gone
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def remove(self, names: Sequence[str]) -> None:
        """Remove entries; a missing one is not an error.

        Raises:
            OSError: The entries cannot be removed.
        """
        with self._changing() as change:
            for name in names:
                change.discard(name)

    def clear(self) -> None:
        """Remove all entries.

        Raises:
            OSError: The entries cannot be removed.
        """
        with self._changing() as change:
            for candidate in self.scan():
                change.discard(candidate.name)
            change.total = 0

    def touch(self, name: str) -> None:
        """Record another use of an entry, which makes it hot.

        If the file cannot be changed, the entry keeps its previous time.
        """
        with suppress(OSError):
            self._stamp(self._file(name), self._clock())

    def used(self, name: str) -> float | None:
        """Return the last use of an entry, by the clock; None if it does not exist."""
        try:
            moment = self._file(name).stat().st_mtime
        except FileNotFoundError:
            return None
        return moment if moment > _EARLIEST_USE else moment + _PROBATION

    def scan(self) -> Iterator[Candidate]:
        """Yield each entry with its size and last use; no entry is opened."""
        for item in self._items():
            if _ENTRY.fullmatch(item.name) is None:
                continue
            with suppress(FileNotFoundError):
                found = item.stat(follow_symlinks=False)
                is_hot = found.st_mtime > _EARLIEST_USE
                used = found.st_mtime + (0 if is_hot else _PROBATION)
                name = item.name.removesuffix(_SUFFIX)
                yield Candidate(name, found.st_size, used, is_hot)

    def usage(self) -> Usage:
        """Count the entries and their bytes."""
        sizes = [candidate.size for candidate in self.scan()]
        return Usage(len(sizes), sum(sizes), self.max_bytes)

    @contextmanager
    def loading(self, name: str, timeout: float) -> Iterator[None]:
        """Hold the lock for loading an entry, against all threads and processes.

        Args:
            name: Name of the entry.
            timeout: Seconds to wait for the current holder.

        Raises:
            OSError: The lock is not possible; TimeoutError if ``timeout`` passed.
        """
        with self._locked(_LOAD_LOCK.format(int(name, 16) % _LOAD_LOCKS), timeout):
            yield

    @contextmanager
    def _changing(
        self, count: "_Count | None" = None, *, timeout: float = _MAX_LOCK_SECONDS
    ) -> Iterator["_DirectoryChange"]:
        """Hold the lock for changing the directory, and update the ledger afterwards.

        If the process is killed inside, or fails, the ledger marks the size as unknown
        and keeps the previous limit. Counting many entries takes long, so they are
        counted before the lock is taken.

        Args:
            count: An earlier count, if there is one.
            timeout: Seconds to wait for another process.
        """
        while True:
            with self._locked(_LOCK, timeout):
                balance = self._ledger.read()
                total = _known_total(balance, count)
                if total is not None:
                    max_bytes = balance.max_bytes if balance else self._max_bytes
                    self._write(max_bytes, None)
                    change = _DirectoryChange(self, max_bytes, total)
                    yield change
                    self._write(change.max_bytes, change.total)
                    return
            count = self._counted()

    def _write(self, max_bytes: int, total: int | None) -> None:
        """Write a balance that equals no earlier one."""
        self._ledger.write(Balance(max_bytes, total, randbits(MARK_BITS)))

    @contextmanager
    def _locked(self, name: str, timeout: float) -> Iterator[None]:
        """Hold one of the locks.

        A killed process releases its locks. A stopped one does not, so every wait is
        limited.
        """
        self._make()
        lock = FileLock(self.path / name)
        try:
            held = lock.acquire(timeout=timeout, poll_interval=_POLL_SECONDS)
        except NotImplementedError as error:  # the disk does not support locks
            raise OSError(errno.ENOLCK, str(error)) from error
        with held:
            yield

    def _make(self) -> None:
        """Create the directory, which another process may have removed."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _items(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as found:
                yield from found
        except FileNotFoundError:
            return

    def _counted(self) -> "_Count":
        """Count the bytes of all entries; remove abandoned temporary files."""
        balance = self._ledger.read()
        size = 0
        for item in self._items():
            with suppress(FileNotFoundError):
                if _ENTRY.fullmatch(item.name):
                    size += item.stat(follow_symlinks=False).st_size
                elif writer := _LEFTOVER.fullmatch(item.name):
                    self._remove_leftover(Path(item.path), int(writer[1]))
        return _Count(balance, size)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{_SUFFIX}"

    @staticmethod
    def _stamp(path: Path, moment: float) -> None:
        os.utime(path, (moment, moment))

    @staticmethod
    def _remove_leftover(path: Path, writer: int) -> None:
        """Remove a temporary file if its process is gone, or the file is old."""
        # By the system's clock: an unfinished file does not have our timestamp yet.
        is_old = time.time() - path.stat().st_ctime > _ABANDONED_SECONDS
        if is_old or not _is_running(writer):
            path.unlink(missing_ok=True)

    def unlink(self, name: str) -> int:
        """Remove a file, while the lock is held; return the bytes that it had."""
        path = self._file(name)
        try:
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):  # unexpected, but it blocks the name
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            return 0
        return found.st_size


class _Count(NamedTuple):
    """A count of the entries, made without the lock.

    Attributes:
        balance: The ledger when the count began.
        total: Total bytes of the entries.
    """

    balance: Balance | None
    total: int


def _known_total(balance: Balance | None, count: _Count | None) -> int | None:
    """Return the total bytes of all entries; None if they have to be counted.

    Args:
        balance: The ledger, read while the lock is held.
        count: An earlier count; valid only if the ledger has not changed since.
    """
    if count is not None and count.balance == balance:
        return count.total
    return balance.total if balance else None


class _DirectoryChange:
    """The size and limit of a directory while it is being changed."""

    def __init__(self, directory: CacheDirectory, max_bytes: int, total: int) -> None:
        self._directory = directory
        self.max_bytes = max_bytes
        self.total = total

    def remove(self, name: str) -> None:
        """Remove an entry, if it exists."""
        self.total = max(0, self.total - self._directory.unlink(name))

    def discard(self, name: str) -> None:
        """Remove an entry, if it exists, but count it until the next eviction.

        Another program may have put something larger in its place, whose size was never
        counted. With a total that is too small the directory would grow beyond its
        limit; one that is too large costs a scan.
        """
        self._directory.unlink(name)

    def evict_to_fit(self, size: int) -> list[str]:
        """Evict entries to make room for ``size`` bytes; return their names."""
        if self.total + size <= self.max_bytes:
            return []
        entries = list(self._directory.scan())
        self.total = sum(entry.size for entry in entries)  # actual, not the ledger's
        gone = plan_evictions(entries, self.max_bytes - size)
        for entry in gone:
            self.remove(entry.name)
        return [entry.name for entry in gone]


def _open_private(path: str, flags: int) -> int:
    """Open a file for its owner only: its content may be encrypted in the store."""
    return os.open(path, flags, 0o600)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OverflowError:  # too large for a process id
        return False
    except PermissionError:
        return True
    return True
