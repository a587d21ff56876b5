"""What a cache of indexes has to do after any calls: its machine's oracle.

Every check raises AssertionError with one sentence: the promise that is broken, and how
it was seen. What the indexes have to be is in ``stored_segments``.
"""

from collections.abc import Collection
from typing import Final

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.stored_segments import StoredSegments
from tieredfs.testing.rule import require

__all__ = ["CacheModel"]

_RECORDED_SHARE: Final = 3 / 4
"""A use may be recorded on disk after a quarter of the time that an entry lives."""


class CacheModel:
    """The limit of a directory, and what each handle on it may have in memory.

    Attributes:
        limit: Maximum bytes on disk; None if the directory has lost it.
    """

    limit: int | None

    def __init__(self, stored: StoredSegments, ttl: float | None = None) -> None:
        """Begin with an empty directory.

        Args:
            stored: What the stores hold.
            ttl: Seconds without use after which an entry is no longer served.
        """
        self.limit = None
        self._stored = stored
        self._ttl = ttl
        self._limits: dict[int, int] = {}
        self._mapped: dict[int, set[CachedSegment]] = {}
        self._used: dict[CachedSegment, float] = {}

    # What happens.

    def open(self, handle: int, limit: int | None) -> None:
        """Open a handle, which has nothing in memory.

        Args:
            handle: Its number.
            limit: The limit it sets; None for the current one, which must be known.
        """
        self._mapped[handle] = set()
        if limit is not None:
            self.limit = limit
        self._limits[handle] = self.largest_limit

    def resize(self, handle: int, limit: int) -> None:
        """Let a handle set the limit."""
        self.limit = self._limits[handle] = limit

    def lose_limit(self) -> None:
        """Lose the ledger: until one sets the limit, it is one that a handle knows."""
        self.limit = None

    def use(self, handle: int, segment: CachedSegment, now: float) -> None:
        """Get a segment through a handle, which may keep it in memory."""
        self._mapped[handle].add(segment)
        self._used[segment] = now

    def map(self, handle: int, segment: CachedSegment) -> None:
        """Open an entry through a handle, which is not a use."""
        self._mapped[handle].add(segment)

    def remove(self, handle: int, segments: Collection[CachedSegment]) -> None:
        """Remove segments through a handle."""
        self._mapped[handle] -= set(segments)

    def have_room(self, segments: Collection[CachedSegment], beside: int = 0) -> bool:
        """Return whether it is certain that the entries of segments are kept.

        Args:
            segments: The segments.
            beside: Bytes of the entries that are kept as well.
        """
        need = beside + sum(map(self._stored.most_bytes, segments))
        return self.limit is not None and need <= self.limit

    @property
    def largest_limit(self) -> int:
        """The limit, or the largest that it may be if the directory has lost it."""
        return max(self._limits.values()) if self.limit is None else self.limit

    # What has to be so.

    def check_fetches(
        self,
        said: str,
        handles: Collection[int],
        segment: CachedSegment,
        before: Entries,
        now: float,
        fetches: int,
    ) -> None:
        """Require that a segment was fetched if it had to be, and then only once.

        Args:
            said: What was called.
            handles: Those that were asked, by one call or by concurrent ones.
            segment: The segment.
            before: The entries when it was called.
            now: Seconds since 1970.
            fetches: How many operations reached the storage.
        """
        age = now - self._used.get(segment, now)
        is_expired = self._ttl is not None and age > self._ttl
        is_recent = self._ttl is None or age <= self._ttl * _RECORDED_SHARE
        if segment in before.whole and is_recent:
            require(
                fetches == 0,
                f"what is held is not fetched again: {said} sent {fetches} operations "
                "to the storage, and a valid entry was there",
            )
            return
        required = is_expired or not any(
            segment in self._mapped[handle] for handle in handles
        )
        if segment in before.whole and not is_expired:
            required = False
        why = "its entry was damaged" if segment in before.damaged else "it was missing"
        require(
            fetches <= 1,
            f"all indexes are fetched in one operation, by one of concurrent callers: "
            f"{said} sent {fetches} operations to the storage when {why}",
        )
        require(
            fetches == 1 or not required,
            f"what was removed or has expired is not served: {said} fetched nothing, "
            f"and no handle that was asked can have a valid entry: {why}",
        )

    def check_entries(
        self,
        said: str,
        before: Entries,
        after: Entries,
        *,
        fetched: Collection[CachedSegment] = (),
        kept_for_a_moment: Collection[CachedSegment] = (),
        removed: Collection[CachedSegment] = (),
    ) -> None:
        """Require that the directory has the entries that it has to have after a call.

        Args:
            said: What was called.
            before: The entries when it was called.
            after: The entries now.
            fetched: Segments that were fetched.
            kept_for_a_moment: Segments that were fetched and then removed.
            removed: Segments that were to be removed.
        """
        size = sum(after.whole.values())
        require(
            size <= self.largest_limit,
            f"the size on disk keeps to its bound: after {said} the entries have "
            f"{size} bytes, allowed are {self.largest_limit}",
        )
        left = sorted(map(str, set(removed) & {*after.whole, *after.damaged}))
        require(not left, f"what is removed is gone: after {said} there is {left}")
        more = sorted(map(str, set(after.whole) - set(before.whole) - set(fetched)))
        require(
            not more,
            f"only what was fetched whole is kept: after {said} there is {more}",
        )
        if self.limit is None:
            return
        written = [*fetched, *kept_for_a_moment]
        need = before.size + sum(map(self._stored.most_bytes, written))
        lost = sorted(map(str, set(before.whole) - set(after.whole) - set(removed)))
        require(
            not lost or need > self.limit,
            f"an entry stays while there is room: after {said} that of {lost} is gone, "
            f"though at most {need} of {self.limit} bytes were needed",
        )
        lacking = sorted(map(str, set(fetched) - set(after.whole)))
        require(
            not lacking or need > self.limit,
            f"what was fetched is kept: after {said} there is no entry of {lacking}",
        )
