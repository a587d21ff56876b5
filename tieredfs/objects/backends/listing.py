"""A listing, page by page, that can be gone on with where it failed."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

__all__ = ["Child", "Listing", "ObjectInfo", "Page", "Walk"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One entry of a listing.

    Attributes:
        key: Relative to the store; it ends in ``/`` for a common prefix.
        size: Bytes; None for a common prefix, which has no content.
        version: Tells apart two contents under one key: an etag, or size and
            modification time; empty when the backend says neither.
    """

    key: str
    size: int | None
    version: str = ""

    @property
    def is_prefix(self) -> bool:
        """Whether this stands for all keys that begin with it."""
        return self.size is None


@dataclass(frozen=True, slots=True)
class Listing:
    """What is to be listed.

    Attributes:
        prefix: What the keys begin with.
        start_after: Only keys after this one.
        delimiter: ``/`` to fold the keys below a folder into one entry; else empty.
    """

    prefix: str
    start_after: str
    delimiter: str


@dataclass(frozen=True, slots=True)
class Page:
    """What one request of a listing gave.

    Attributes:
        entries: Sorted by their keys.
        following: What the backend wants to see again to give the next page; None
            when this is the last.
    """

    entries: Sequence[ObjectInfo]
    following: object = None


Child = tuple[str, Callable[[], ObjectInfo] | None]
"""A key with how to learn its size and version; a folder's ends in ``/``, with None."""


class Walk:
    """A way through folders in the order of their keys.

    It stands still when a folder cannot be read, and goes on from there when it is
    asked again: nothing is lost, nothing comes twice.
    """

    def __init__(self, listing: Listing) -> None:
        """Begin before the folder that the prefix lies in."""
        self._listing = listing
        folder, slash, _ = listing.prefix.rpartition("/")
        self._unread: str | None = folder + slash
        self._levels: list[list[Child]] = []
        self._found: list[ObjectInfo] = []

    def page(
        self,
        read: Callable[[str], Iterable[Child]],
        *,
        reads: float = 1,
        size: float = math.inf,
    ) -> Page:
        """Return the next entries.

        Args:
            read: Gives what lies directly in a folder, whose key ends in ``/`` or is
                empty for the root; nothing when it is not there.
            reads: Most folders that are read.
            size: Most entries that are returned.
        """
        while True:
            if self._unread is None:
                self._take(size)
            if self._unread is None or reads < 1:
                break
            # A folder sorts as its keys do: with the slash that follows.
            level = sorted(read(self._unread), key=itemgetter(0), reverse=True)
            self._levels.append(level)
            self._unread = None
            reads -= 1
        entries, self._found = self._found, []
        more = self._levels or self._unread is not None
        return Page(entries, self if more else None)

    def _take(self, size: float) -> None:
        """Take entries up to the next folder that has to be read."""
        while self._levels:
            level = self._levels[-1]
            if not level:
                self._levels.pop()
                continue
            key, describe = level[-1]
            if self.wants(key):
                if len(self._found) >= size:
                    return
                if describe is not None:
                    self._add(describe)
                elif self._listing.delimiter:
                    self._found.append(ObjectInfo(key, None))
                else:
                    self._unread = key
            level.pop()  # only now: a failure above leaves it to be asked again
            if self._unread is not None:
                return

    def _add(self, describe: Callable[[], ObjectInfo]) -> None:
        try:
            self._found.append(describe())
        except FileNotFoundError:  # removed while it was listed
            return

    def wants(self, key: str) -> bool:
        """Return whether a key, or one below a folder, may be wanted."""
        if not key.startswith(self._listing.prefix):
            return False
        after = self._listing.start_after
        return key > after or (key.endswith("/") and after.startswith(key))
