"""What the steps of a machine share: the handles, their directory, and the model."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tieredfs.cache import CachedIndexes, RemoteIndexCache
from tieredfs.objects import ObjectStore
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.damage import LEDGER_DAMAGE, change_byte
from tieredfs.testing.cache_machine.directory import WatchedDirectory
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.model import CacheModel
from tieredfs.testing.cache_machine.observation import Observation
from tieredfs.testing.cache_machine.pool import POOL, indexes_of
from tieredfs.testing.cache_machine.samples import Clock
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE, Setup
from tieredfs.testing.cache_machine.storage import IndexStorage
from tieredfs.testing.cache_machine.stored_segments import StoredSegments
from tieredfs.testing.rule import require

__all__ = ["CacheState", "has_ttl"]


def has_ttl(machine: "CacheState") -> bool:
    """Return whether entries expire."""
    return machine.setup.ttl is not None


class CacheState(RuleBasedStateMachine):
    """Two handles on one directory and one over another store; it has no steps.

    Attributes:
        clock: The time that the handles see, if entries expire.
        stored: What the two stores hold, and held before it was replaced.
        storages: The storage of each store.
        directory: That of all handles.
        caches: The handles by their numbers.
        model: What the handles have to do.
        segments: The segments that the steps are about.
        held: What the last calls have returned: the call, the segment and its indexes.
        seen: What was there after the last call; None if it was changed since then.
        last: The last call, or what else was done last.
    """

    setup: ClassVar[Setup]

    def __init__(self) -> None:
        """Begin with an empty directory, in which another program has files."""
        super().__init__()
        self._opened = ExitStack()
        # A cache that is wrong may be writing to it when it is removed.
        temporary = TemporaryDirectory(ignore_cleanup_errors=True)
        root = Path(self._opened.enter_context(temporary))
        self.clock = Clock()
        self.stored = StoredSegments()
        self.storages = [
            IndexStorage(ObjectStore(f"memory://tieredfs-testing-cache/{number}"))
            for number in range(2)
        ]
        self.directory = WatchedDirectory(root / "cache", self.stored)
        self.caches: dict[int, RemoteIndexCache] = {}
        self.model = CacheModel(self.stored, self.setup.ttl)
        self.segments = [*POOL]
        for segment in self.segments:
            self.store(segment)
        self.held: list[tuple[str, CachedSegment, CachedIndexes]] = []
        self.seen: Observation | None = None
        self.last = "opening the cache"

    def teardown(self) -> None:
        """Close the handles, and remove the directory."""
        for cache in self.caches.values():
            cache.close()
        self._opened.close()

    @invariant()
    def what_is_held_stays(self) -> None:
        """Compare again what was returned by earlier steps."""
        for said, segment, found in self.held:
            earlier = f"what {said} had returned, looked at after {self.last},"
            self.stored.check_indexes(earlier, segment, found.indexes)

    @invariant()
    def the_directory_has_nothing_else(self) -> None:
        """Look at the files that are not entries, the limit and the counted size."""
        if not self.caches:
            return  # it is not open yet
        self.directory.check_other_files(self.last)
        self.check_limits()
        size = self.entries().size
        for handle, cache in self.caches.items():
            require(
                cache.stats.size == size,
                f"the counters are true: after {self.last} handle {handle} says that "
                f"the entries have {cache.stats.size} bytes, not {size}",
            )

    def check_limits(self) -> None:
        """Require that all handles have one limit."""
        limit = self.model.limit
        for handle, cache in self.caches.items():
            require(
                cache.max_bytes == limit or limit is None,
                f"a limit is that of all handles: after {self.last} handle {handle} "
                f"has {cache.max_bytes} bytes, not {limit}",
            )

    def store(self, segment: CachedSegment) -> None:
        """Store the indexes of a segment in its store."""
        indexes = indexes_of(segment)
        self.storage_of(segment).stored[segment.metadata] = indexes
        self.stored.indexes[segment] = indexes

    def damage_entry(
        self, segment: CachedSegment, damage: Callable[[Path], None], said: str
    ) -> None:
        """Damage the entry of a segment, and maybe what is beside it.

        Args:
            segment: It has an entry that is not damaged.
            damage: What is done, given the entry's file.
            said: What it is, as words before those for the entry.
        """
        self.says(f"{said} the entry of {segment}")
        self.directory.damage(segment, damage)
        self.seen = None
        if damage in LEDGER_DAMAGE:
            self.model.lose_limit()

    def change_byte(self, segment: CachedSegment, permille: int, bits: int) -> bool:
        """Change a byte of a segment's entry; return whether there is one."""
        if segment not in self.directory.files():
            return False
        damage = partial(change_byte, permille=permille, bits=bits)
        self.damage_entry(segment, damage, "a changed byte in")
        return True

    def entries(self) -> Entries:
        """Look at the entries, and require that each file is one."""
        return self.directory.entries(self.last)

    def look(self) -> Observation:
        """Look at the entries, the counters and the operations of the storages."""
        stats = {handle: cache.stats for handle, cache in self.caches.items()}
        self.seen = Observation(self.entries(), stats, self.operations())
        return self.seen

    def operations(self) -> Counter[CachedSegment]:
        """Return how many operations have reached the storages for each segment."""
        return Counter(
            {
                CachedSegment(number, metadata): count
                for number, storage in enumerate(self.storages)
                for metadata, count in storage.operations.items()
            }
        )

    def storage_of(self, segment: CachedSegment) -> IndexStorage:
        """Return the storage that has a segment."""
        return self.storages[segment.store]

    def handle_on(self, segment: CachedSegment, handle: int) -> int:
        """Return the number of a handle on a segment's store: the given one, if it is.

        Args:
            segment: The segment.
            handle: One of the handles over the first store.
        """
        return OTHER_HANDLE if segment.store else handle

    def handles_on(self, segment: CachedSegment) -> list[int]:
        """Return the numbers of all handles on a segment's store."""
        return [OTHER_HANDLE] if segment.store else [0, 1]

    def cache_on(self, segment: CachedSegment, handle: int) -> RemoteIndexCache:
        """Return the handle whose number ``handle_on`` returns."""
        return self.caches[self.handle_on(segment, handle)]

    def says(self, step: str) -> str:
        """Take note of what is done now, and return it."""
        self.last = step
        return step
