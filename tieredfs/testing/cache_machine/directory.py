"""The directory of a cache, as another program sees it and damages it."""

import os
from collections.abc import Callable
from pathlib import Path

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.damage import crash, entry_files, unfinished
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.stored_segments import StoredSegments
from tieredfs.testing.rule import require

__all__ = ["WatchedDirectory"]


class WatchedDirectory:
    """A cache's directory, in which another program has files as well.

    Whose entry a file is follows from its bytes, not from its name: the name is the
    cache's own business.

    Attributes:
        path: Where it is.
    """

    def __init__(self, path: Path, stored: StoredSegments) -> None:
        """Make the directory, and put the files of another program there.

        Args:
            path: Where to make it.
            stored: What the stores hold whose indexes are cached.
        """
        self.path = path
        self._stored = stored
        self._foreign = [path / "notes", path / "pushed" / "one"]
        self._foreign[1].parent.mkdir(parents=True)
        for file in self._foreign:
            file.write_bytes(b"of another program")
        self._damaged: dict[Path, tuple[CachedSegment, bytes | None]] = {}
        self._unfinished: set[Path] = set()
        self._unfinished_elsewhere: set[Path] = set()

    def entries(self, when: str) -> Entries:
        """Return the entries, of which each has to be whole, or damaged from outside.

        Args:
            when: After which call, for an error.
        """
        whole: dict[CachedSegment, int] = {}
        damaged: dict[CachedSegment, int] = {}
        used: dict[CachedSegment, float] = {}
        for path in entry_files(self.path):
            found, content = path.lstat(), _content(path)
            if path in self._damaged and self._damaged[path][1] == content:
                segment = self._damaged[path][0]
                damaged[segment], used[segment] = found.st_size, found.st_mtime
                continue
            self._damaged.pop(path, None)  # the cache has written another one
            owner = None if content is None else self._stored.owner(content)
            if owner is None or owner in whole:
                raise AssertionError(
                    f"only what was fetched whole is kept: after {when} {path.name} "
                    "has not all indexes of a segment"
                )
            whole[owner], used[owner] = found.st_size, found.st_mtime
        return Entries(whole, damaged, used)

    def files(self) -> dict[CachedSegment, Path]:
        """Return the file of each entry that is not damaged."""
        found: dict[CachedSegment, Path] = {}
        for path in entry_files(self.path):
            content = _content(path)
            if path in self._damaged or content is None:
                continue
            owner = self._stored.owner(content)
            if owner is not None:
                found[owner] = path
        return found

    def damage(self, segment: CachedSegment, damage: Callable[[Path], None]) -> None:
        """Damage the entry of a segment, and what else the damage is about.

        Args:
            segment: It has an entry that is not damaged.
            damage: What is done, given the entry's file.
        """
        path = self.files()[segment]
        damage(path)
        if not self.path.exists():
            self._foreign = []
            self._unfinished = set()
            self._unfinished_elsewhere = set()
            self._damaged = {}
        elif path in entry_files(self.path):
            self._damaged[path] = segment, _content(path)

    def crash(self) -> None:
        """Leave what a process leaves that was killed while it wrote an entry."""
        self._unfinished.add(crash(self.path))

    def begin_elsewhere(self) -> None:
        """Let another process, which is running, begin to write an entry."""
        self._unfinished_elsewhere.add(unfinished(self.path, os.getppid()))

    def check_crashes_are_cleaned_up(self) -> None:
        """Require that a new handle has removed what crashes have left."""
        left = sorted(path.name for path in self._unfinished if path.exists())
        require(
            not left,
            "a new handle removes what a crash has left: after opening the cache "
            f"again there is {left}",
        )
        self._unfinished.clear()

    def check_other_files(self, when: str) -> None:
        """Require that other programs' files are there, and nothing unfinished is.

        Args:
            when: After which call, for an error.
        """
        lost = sorted(path.name for path in self._foreign if not path.exists())
        require(
            not lost, f"files of other programs stay: after {when} there is no {lost}"
        )
        elsewhere = self._unfinished_elsewhere
        lost = sorted(path.name for path in elsewhere if not path.exists())
        require(
            not lost,
            f"what another process is writing stays: after {when} there is no {lost}",
        )
        found = {*self.path.glob("*.tmp")} - self._unfinished - elsewhere
        require(
            not found,
            f"nothing unfinished is left: after {when} there is "
            f"{sorted(path.name for path in found)}",
        )


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None for what is not one."""
    return path.read_bytes() if path.is_file() else None
