"""One call of a cache, and what has to be so after it."""

from collections.abc import Collection
from dataclasses import dataclass

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.counted import Counted
from tieredfs.testing.cache_machine.evictions import check_evictions
from tieredfs.testing.cache_machine.model import CacheModel
from tieredfs.testing.cache_machine.observation import Observation
from tieredfs.testing.rule import require

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one handle.

    Attributes:
        said: What is called.
        handle: What is called, or opened.
        got: The segment whose indexes it needs, if it is about one.
        removed: Segments that it has to remove.
        is_kept: Whether what it fetches can be kept.
        opens: Whether it opens the handle.
    """

    said: str
    handle: int
    got: CachedSegment | None = None
    removed: Collection[CachedSegment] = ()
    is_kept: bool = True
    opens: bool = False

    def check(
        self, model: CacheModel, before: Observation, after: Observation, now: float
    ) -> None:
        """Require that the call did what it had to do, and nothing else.

        Args:
            model: What the handles have to do.
            before: What was seen when it was called.
            after: What is seen now.
            now: Seconds since 1970.
        """
        fetches = after.fetches_since(before)
        others = sorted(str(one) for one in fetches if one != self.got)
        require(
            not others,
            f"only what is asked for is fetched: {self.said} fetched {others}",
        )
        if self.got is not None and self.is_kept:
            model.check_fetches(
                self.said,
                [self.handle],
                self.got,
                before.entries,
                now,
                fetches[self.got],
            )
            model.use(self.handle, self.got, now)
        model.check_entries(
            self.said,
            before.entries,
            after.entries,
            fetched=[*fetches] if self.is_kept else [],
            removed=self.removed,
        )
        evicted = after.gone_since(before) - {self.got, *self.removed}
        check_evictions(
            self.said, before.entries, after.entries, evicted, fetches, model.limit
        )
        nothing = Counted()
        own = Counted(
            lookups=int(self.got is not None),
            fetches=fetches.total(),
            evictions=len(evicted),
            is_damaged=self.got in before.entries.damaged,
            is_kept=self.is_kept,
        )
        for handle, counted in before.stats.items():
            if self.opens and handle == self.handle:
                continue  # it begins to count
            wanted = own if handle == self.handle else nothing
            said = f"{self.said}, for handle {handle},"
            wanted.check(said, counted, after.stats[handle])
