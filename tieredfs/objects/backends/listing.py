"""Listings, page by page; a listing can be resumed after a page that failed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import overload

__all__ = [
    "Child",
    "EntryColumns",
    "Listing",
    "ObjectInfo",
    "Page",
    "Walk",
    "check_next",
    "to_modified",
]

_key: Callable[["ObjectInfo"], str] = attrgetter("key")
_size: Callable[["ObjectInfo"], int | None] = attrgetter("size")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One entry of a listing.

    Attributes:
        key: Relative to the store; it ends in ``/`` for a common prefix.
        size: Bytes; None for a common prefix, which has no content.
        version: Differs between two contents under one key: an etag, or size and
            modification time; empty if the backend reports neither.
        modified: When it was written, ms since 1970 UTC by the clock of the store; None
            if the backend does not report it, as where a listing does not parse it;
            ignored when two entries are compared.
    """

    key: str
    size: int | None
    version: str = ""
    modified: int | None = field(default=None, compare=False)

    @property
    def is_prefix(self) -> bool:
        """Whether this stands for all keys that begin with it."""
        return self.size is None


@dataclass(frozen=True, slots=True)
class Listing:
    """The parameters of a listing.

    Attributes:
        prefix: Prefix of the keys.
        start_after: Only keys after this one.
        delimiter: ``/`` to fold the keys below a folder into one entry; else empty.
    """

    prefix: str
    start_after: str
    delimiter: str


@dataclass(frozen=True, slots=True)
class EntryColumns(Sequence[ObjectInfo]):
    """The objects of a page in columns; an entry is made when it is asked for.

    Attributes:
        keys: Their keys.
        sizes: Their sizes in bytes.
        versions: Their versions.
    """

    keys: Sequence[str]
    sizes: Sequence[int]
    versions: Sequence[str]

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.keys)

    def __iter__(self) -> Iterator[ObjectInfo]:
        """Iterate over the entries."""
        return map(ObjectInfo, self.keys, self.sizes, self.versions)

    @overload
    def __getitem__(self, at: int) -> ObjectInfo: ...
    @overload
    def __getitem__(self, at: slice) -> "EntryColumns": ...
    def __getitem__(self, at: int | slice) -> "ObjectInfo | EntryColumns":
        """Return one entry, or several in columns."""
        if isinstance(at, slice):
            return EntryColumns(self.keys[at], self.sizes[at], self.versions[at])
        return ObjectInfo(self.keys[at], self.sizes[at], self.versions[at])


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing.

    Attributes:
        entries: The entries, sorted by key. A backend that parses a page into columns
            returns ``EntryColumns``, of which an entry is made only if it is needed.
        following: The backend's state to pass in for the next page; None on the last
            page.
    """

    entries: Sequence[ObjectInfo]
    following: object = None

    def keys(self) -> Sequence[str]:
        """Return the keys of the entries."""
        if isinstance(self.entries, EntryColumns):
            return self.entries.keys
        return list(map(_key, self.entries))

    def sizes(self) -> Sequence[int | None]:
        """Return the sizes of the entries."""
        if isinstance(self.entries, EntryColumns):
            return self.entries.sizes
        return list(map(_size, self.entries))


def check_next(token: object, at: object) -> str:
    """Return a server's token of the next page, unless the listing would not end.

    Args:
        token: Of the next page, as the server gave it.
        at: That with which this page was requested; None for the first page.

    Raises:
        OSError: It is no token, or that of this page.
    """
    if not isinstance(token, str) or not token:
        msg = "the server has more pages, and no token of the next; check the endpoint"
        raise OSError(msg)
    if token == at:
        msg = "the server gave one token for two pages; check the endpoint"
        raise OSError(msg)
    return token


Child = tuple[str, Callable[[], ObjectInfo] | None]
"""A key, and a function for its size and version; a folder ends in ``/``, with None."""


class Walk:
    """A traversal of folders in key order.

    When a folder cannot be read, the next call resumes there: no entry is lost or
    repeated.
    """

    def __init__(self, listing: Listing) -> None:
        """Start at the folder that contains the prefix."""
        self._listing = listing
        folder, slash, _ = listing.prefix.rpartition("/")
        self._unread: str | None = folder + slash
        self._levels: list[list[Child]] = []
        self._found: list[ObjectInfo] = []

    def page(
        self,
        read: Callable[[str], Iterable[Child]],
        *,
        max_folders: float = 1,
        max_entries: float = math.inf,
    ) -> Page:
        """Return the next entries.

        Args:
            read: Returns the children of a folder, whose key ends in ``/`` or is empty
                for the root; empty if the folder does not exist.
            max_folders: Maximum number of folders to read.
            max_entries: Maximum number of entries to return.
        """
        while True:
            if self._unread is None:
                self._take(max_entries)
            if self._unread is None or max_folders < 1:
                break
            # A folder sorts like its keys: with its trailing slash.
            level = sorted(read(self._unread), key=itemgetter(0), reverse=True)
            self._levels.append(level)
            self._unread = None
            max_folders -= 1
        entries, self._found = self._found, []
        more = self._levels or self._unread is not None
        return Page(entries, self if more else None)

    def _take(self, max_entries: float) -> None:
        """Take entries up to the next folder that has to be read."""
        while self._levels:
            level = self._levels[-1]
            if not level:
                self._levels.pop()
                continue
            key, describe = level[-1]
            if self.wants(key):
                if len(self._found) >= max_entries:
                    return
                if describe is not None:
                    self._add(describe)
                elif self._listing.delimiter:
                    self._found.append(ObjectInfo(key, None))
                else:
                    self._unread = key
            level.pop()  # only now: after a failure above, it is described again
            if self._unread is not None:
                return

    def _add(self, describe: Callable[[], ObjectInfo]) -> None:
        try:
            self._found.append(describe())
        except FileNotFoundError:  # removed while it was listed
            return

    def wants(self, key: str) -> bool:
        """Return whether a key, or a key below a folder, may be in the listing."""
        if not key.startswith(self._listing.prefix):
            return False
        after = self._listing.start_after
        return key > after or (key.endswith("/") and after.startswith(key))


def to_modified(time: object) -> int | None:
    """Return a client's modification time as milliseconds since 1970 UTC.

    Args:
        time: A datetime, seconds since 1970, or ISO text. For anything else, and for a
            time without a zone, None is returned: it may be hours off.
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return None
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000) if time.tzinfo else None
    return round(time * 1000) if isinstance(time, int | float) else None
