"""The machine of a cache of indexes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, Literal, TypeVar

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tieredfs.cache import CachedIndexes, RemoteIndexCache
from tieredfs.errors import (
    ClosedError,
    CorruptIndexError,
    NotFoundError,
    StorageUnavailableError,
)
from tieredfs.model import IndexType, SegmentIndexes
from tieredfs.objects import ObjectStore
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.damage import (
    DAMAGE,
    LEDGER_DAMAGE,
    change_byte,
    crash,
    entry_files,
)
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.model import CacheModel
from tieredfs.testing.cache_machine.samples import (
    OFFSETS,
    Clock,
    content_of,
    made_segment,
)
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE, OpenCache, Setup
from tieredfs.testing.cache_machine.storage import IndexStorage
from tieredfs.testing.cache_machine.stored_segments import StoredSegments
from tieredfs.testing.rule import expect_error, require

__all__ = ["CacheMachine", "cache_machine"]

_T = TypeVar("_T")


def cache_machine(open_cache: OpenCache, ttl: float | None) -> "type[CacheMachine]":
    """Return the machine of a cache; see ``cache_machine_test``."""
    return type("AnyCache", (CacheMachine,), {"setup": Setup(open_cache, ttl)})


_NUMBERS: Final = (0, 1, 2, 3)
"""Segments of the first store; the other store has the first two as well."""

_PLACES: Final = (*((0, number) for number in _NUMBERS), (1, 0), (1, 1))
_ROOMY: Final = 1 << 20

PLACES = st.integers(0, len(_PLACES) - 1)
SOME_PLACES = st.lists(PLACES, min_size=1, max_size=4, unique=True)
TWO_PLACES = st.lists(PLACES, min_size=2, max_size=2, unique=True)
HANDLES = st.integers(0, 1)
LIMITS = st.sampled_from([*[_ROOMY] * 4, 3500, 2500, 1200, 0])
PERMILLE = st.integers(0, 1000)
FAULTS: Final[Mapping[str, Exception | SegmentIndexes]] = {
    "unavailable": StorageUnavailableError("the store does not answer"),
    "gone": NotFoundError("the segment is gone"),
    "slow": TimeoutError("the store is slow"),
    "malformed": SegmentIndexes({IndexType.OFFSET: memoryview(b"not an index")}),
    "misleading": SegmentIndexes(
        {IndexType.OFFSET: memoryview((1).to_bytes(4) + (1 << 30).to_bytes(4))}
    ),
}
"""What a storage raises, or returns in place of a segment's indexes."""


def _has_ttl(machine: Any) -> bool:  # noqa: ANN401 - of hypothesis, which has no types for it
    """Return whether entries expire."""
    return machine.setup.ttl is not None


class CacheMachine(RuleBasedStateMachine):
    """Two handles on one directory and one over another store, and all they can do."""

    setup: ClassVar[Setup]

    def __init__(self) -> None:
        """Begin with an empty directory, in which another program has files."""
        super().__init__()
        self._open = ExitStack()
        root = Path(self._open.enter_context(TemporaryDirectory()))
        self._directory = root / "cache"
        self._foreign = [self._directory / "notes", self._directory / "pushed" / "one"]
        self._foreign[1].parent.mkdir(parents=True)
        for path in self._foreign:
            path.write_bytes(b"of another program")
        self._storages = [
            IndexStorage(ObjectStore(f"memory://tieredfs-testing-cache/{number}"))
            for number in range(2)
        ]
        self._clock = Clock()
        self._caches: dict[int, RemoteIndexCache] = {}
        self._damaged: dict[Path, tuple[CachedSegment, bytes | None]] = {}
        self._unfinished: set[Path] = set()
        self._held: list[tuple[str, CachedSegment, CachedIndexes]] = []
        self._copies = 0
        self._last = "opening the cache"
        self.stored = StoredSegments()
        self.model = CacheModel(self.stored, self.setup.ttl)
        self._segments: list[CachedSegment] = []
        for store, number in _PLACES:
            self._segments.append(
                self._copied(CachedSegment(store, made_segment(number)))
            )

    def teardown(self) -> None:
        """Close the handles, and remove the directory."""
        for cache in self._caches.values():
            cache.close()
        self._open.close()

    @initialize(limit=LIMITS)
    def begin(self, limit: int) -> None:
        """Open the handles."""
        for handle in (0, 1, OTHER_HANDLE):
            self._reopen(handle, limit)

    # What readers do.

    @rule(places=SOME_PLACES, handle=HANDLES)
    def get(self, places: Sequence[int], handle: int) -> None:
        """Get segments, each twice: the second time it is held, if there is room."""
        for place in places:
            for _ in range(2):
                self._get(self._segments[place], handle)

    @rule(
        place=PLACES,
        handle=HANDLES,
        offset=st.integers(0, OFFSETS),
        end=st.integers(0, OFFSETS),
    )
    def look_up(self, place: int, handle: int, offset: int, end: int) -> None:
        """Look up offsets, a time and aborted transactions of a segment."""
        segment = self._segments[place]
        one, cache = segment.metadata, self._cache(segment, handle)
        self._get(segment, handle)
        first = one.start_offset
        said = self._says(f"lookup_offset of {segment}, {first + offset}")
        found = self._looked_up(
            segment, handle, lambda: cache.lookup_offset(one, first + offset)
        )
        self.stored.check_offset(said, segment, first + offset, found)
        asked = np.array([first, first + offset, first + OFFSETS])
        positions = self._looked_up(
            segment, handle, lambda: cache.lookup_offsets(one, asked)
        )
        self.stored.check_positions(said, segment, asked.tolist(), positions.tolist())
        time = 1_700_000_000_000 + offset * 1000
        said = self._says(f"lookup_timestamp of {segment}, {time}")
        found = self._looked_up(
            segment, handle, lambda: cache.lookup_timestamp(one, time)
        )
        self.stored.check_timestamp(said, segment, time, found)
        low, high = first + min(offset, end), first + max(offset, end)
        said = self._says(f"aborted_transactions of {segment}, [{low}, {high})")
        aborts = self._looked_up(
            segment, handle, lambda: cache.aborted_transactions(one, low, high)
        )
        self.stored.check_aborts(said, segment, low, high, aborts)

    @rule(place=PLACES, handle=HANDLES)
    def ask_for_the_layout(self, place: int, handle: int) -> None:
        """Ask for a layout's data, which fetches nothing."""
        segment = self._segments[place]
        said = self._says(f"layout_of({segment})")
        before, storage = self._entries(), self._storages[segment.store]
        operations = storage.operations
        found = self._cache(segment, handle).layout_of(segment.metadata)
        require(
            storage.operations == operations,
            f"a layout's data is not fetched: {said} sent an operation to the storage",
        )
        if found or (segment in before.whole and self.setup.ttl is None):
            self.stored.check_layout(said, segment, found)
            self.model.map(self._handle(segment, handle), segment)
        self.model.check_entries(said, before, self._entries())

    @rule(
        place=PLACES,
        handle=HANDLES,
        threads=st.integers(2, 4),
        is_damaged=st.booleans(),
        together=st.booleans(),
    )
    def get_concurrently(
        self,
        place: int,
        handle: int,
        threads: int,
        is_damaged: bool,  # noqa: FBT001 - hypothesis names it
        together: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Get a segment that is missing or damaged by threads of one handle or both."""
        segment = self._segments[place]
        self._remove([segment])
        if is_damaged:
            self._get(segment, handle)
            self._change_byte(segment, 900, 1)
            for one in self._handles(segment):
                self._reopen(one, None)
        used = self._handles(segment) if together else [self._handle(segment, handle)]
        said = self._says(f"get({segment}) by {threads} threads of the handles {used}")
        before, storage = self._entries(), self._storages[segment.store]
        storage.expect_concurrent_fetches()
        operations = storage.operations
        with ThreadPoolExecutor(threads) as pool:
            found = [
                *pool.map(
                    lambda number: self._caches[used[number % len(used)]].get(
                        segment.metadata
                    ),
                    range(threads),
                )
            ]
        fetches = storage.operations - operations
        for indexes in found:
            self._hold(said, segment, indexes)
        if self.model.has_room(segment):  # else a late thread fetches again
            self.model.check_fetches(
                said, used, segment, before, self._clock(), fetches
            )
        for one in used:
            self.model.use(one, segment, self._clock())
        after = self._entries()
        self.model.check_entries(
            said, before, after, fetched=[segment] if fetches else []
        )

    # What the handles do with the directory.

    @rule(places=st.lists(PLACES, max_size=3, unique=True), handle=HANDLES)
    def remove(self, places: Sequence[int], handle: int) -> None:
        """Remove segments, and get them again: each is fetched once."""
        for store in range(len(self._storages)):
            chosen = [self._segments[place] for place in places]
            chosen = [one for one in chosen if one.store == store]
            if chosen:
                self._remove_by(self._handle(chosen[0], handle), chosen)
        for place in places:
            self._get(self._segments[place], handle)

    @rule(handle=st.integers(0, OTHER_HANDLE))
    def clear(self, handle: int) -> None:
        """Remove all segments, those of the other store as well."""
        said = self._says(f"clear() by handle {handle}")
        before = self._entries()
        self._caches[handle].clear()
        gone = {*before.whole, *before.damaged}
        self.model.remove(handle, self.stored.indexes)
        self.model.check_entries(said, before, self._entries(), removed=gone)

    @rule(limit=LIMITS, handle=st.integers(0, OTHER_HANDLE))
    def resize(self, limit: int, handle: int) -> None:
        """Set the limit, and get all segments in turn."""
        self._resize(handle, limit)
        for segment in self._segments:
            self._get(segment, handle % 2)

    @rule(handle=HANDLES, is_closed=st.booleans(), limit=st.none() | LIMITS)
    def restart(
        self,
        handle: int,
        is_closed: bool,  # noqa: FBT001 - hypothesis names it
        limit: int | None,
    ) -> None:
        """Begin again, as another process would: what was kept is not fetched."""
        place = self._segments[0]
        self._get(place, handle)
        old = self._caches[handle]
        if is_closed:
            old.close()
            expect_error(
                lambda: old.get(place.metadata),
                ClosedError,
                "a closed cache says so: get",
            )
        self._reopen(handle, limit)
        for segment in self._segments:
            if segment in self._entries().whole:
                self._get(segment, handle)

    @precondition(_has_ttl)
    @rule(share=st.sampled_from([0.01, 0.3, 1.01]), places=SOME_PLACES, handle=HANDLES)
    def wait(self, share: float, places: Sequence[int], handle: int) -> None:
        """Let a part of the time pass that an entry lives without use."""
        self._says(f"waiting for {share} of the time that entries live")
        self._clock.now += share * (self.setup.ttl or 0)
        self.get(places, handle)

    # What happens to the directory.

    @rule(
        places=TWO_PLACES,
        handle=HANDLES,
        damages=st.lists(st.sampled_from(DAMAGE), min_size=1, max_size=3, unique=True),
        reopened=st.sampled_from(["before", "after", "never"]),
        is_full=st.booleans(),
    )
    def damage(
        self,
        places: Sequence[int],
        handle: int,
        damages: Sequence[Callable[[Path], None]],
        reopened: Literal["before", "after", "never"],
        is_full: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Damage an entry, the ledger or the directory, and get what was there."""
        segment, beside = (self._segments[place] for place in places)
        others = [one for one in self._segments if one not in (segment, beside)]
        # From the smallest on: there seems to be room if too little is counted.
        others.sort(key=lambda one: one.metadata.start_offset)
        limit = self.model.largest_limit
        for damage in damages:
            for one in (segment, beside):
                self._get(one, handle)
            if not {segment, beside} <= self._files().keys():
                return  # there is no room for both
            if reopened == "before":
                self._reopen(self._handle(segment, handle), None)
            if is_full:
                self._fill(others, handle)
            self._damage(segment, damage)
            if reopened == "after":
                self._reopen(self._handle(segment, handle), self.model.largest_limit)
            for one in (segment, segment, beside):
                self._get(one, handle)
                self._get(one, 1 - handle)
            for one in others:
                self._get(one, handle)
            self._resize(handle, limit)

    @rule(place=PLACES, handle=HANDLES, permille=PERMILLE, bit=st.integers(0, 7))
    def change_a_byte(self, place: int, handle: int, permille: int, bit: int) -> None:
        """Invert a bit of an entry, which is seen when it is next opened."""
        segment = self._segments[place]
        self._get(segment, handle)
        self._reopen(self._handle(segment, handle), None)
        self._get(segment, handle)
        if not self._change_byte(segment, permille, 1 << bit):
            return  # there was no room for it
        self._reopen(self._handle(segment, handle), None)
        cache = self._cache(segment, handle)
        corruptions = cache.stats.corruptions
        self._get(segment, handle)
        require(
            cache.stats.corruptions == corruptions + 1 or self.setup.ttl is not None,
            "the counters are true: an entry with another bit is not among the "
            "corruptions",
        )

    @rule(handle=st.integers(0, OTHER_HANDLE), places=SOME_PLACES)
    def crash(self, handle: int, places: Sequence[int]) -> None:
        """Leave what a killed process leaves, and begin again."""
        self.get(places, 0)
        if not self._directory.exists():
            return
        self._says("a crash while an entry is written")
        self._unfinished.add(crash(self._directory))
        self.get(places, 1)
        self._reopen(handle, None)
        left = sorted(path.name for path in self._unfinished if path.exists())
        require(
            not left,
            "a new handle removes what a crash has left: after opening the cache "
            f"again there is {left}",
        )
        self._unfinished.clear()

    # What happens in the store.

    @rule(place=PLACES, handle=HANDLES, fault=st.sampled_from(sorted(FAULTS)))
    def fail(self, place: int, handle: int, fault: str) -> None:
        """Let the storage fail, and then work again: the failure is not kept."""
        segment = self._segments[place]
        self._remove([segment])
        storage, cache = self._storages[segment.store], self._cache(segment, handle)
        said = self._says(f"get({segment}), whose storage fails ({fault}),")
        before, failure = self._entries(), FAULTS[fault]
        wanted = type(failure) if isinstance(failure, Exception) else CorruptIndexError
        for _ in range(2):
            storage.fault, operations = failure, storage.operations
            found: CachedIndexes | None = None
            raised: Exception | None = None
            try:
                found = cache.get(segment.metadata)
            except Exception as error:  # noqa: BLE001 - any but one is wrong
                raised = error
            storage.fault = None
            self._check_asked(said, storage.operations - operations, raised)
            require(
                isinstance(raised, wanted),
                f"a failure of the storage is raised, each time: {said} raised "
                f"{raised!r} and returned {found!r}, not {wanted.__name__}",
            )
            self.model.check_entries(said, before, self._entries())
        self._get(segment, handle)

    @rule(place=PLACES, handle=HANDLES)
    def find_nothing(self, place: int, handle: int) -> None:
        """Get a segment while it has no index, as one that is being deleted."""
        segment = self._segments[place]
        self._remove([segment])
        storage, cache = self._storages[segment.store], self._cache(segment, handle)
        said = self._says(f"get({segment}), of which the storage has no index,")
        before, operations = self._entries(), storage.operations
        storage.fault = SegmentIndexes()
        found = cache.get(segment.metadata)
        storage.fault = None
        self._check_asked(said, storage.operations - operations, None)
        require(
            not found.indexes,
            f"no index is made up: {said} returned {sorted(found.indexes)}",
        )
        self.model.check_entries(said, before, self._entries())
        self._get(segment, handle)

    @rule(
        place=PLACES,
        handle=HANDLES,
        new=st.sampled_from(["id", "version", "custom_metadata"]),
        is_removed=st.booleans(),
    )
    def copy_again(
        self,
        place: int,
        handle: int,
        new: str,
        is_removed: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Delete a segment and copy another one with its offsets."""
        old = self._segments[place]
        self._get(old, handle)
        self._copies += 1
        number, copies = _PLACES[place][1], self._copies
        metadata = {
            "id": made_segment(number, copy=copies),
            "version": made_segment(number, version=f"v{copies}"),
            "custom_metadata": made_segment(number, custom_metadata=b"%d" % copies),
        }[new]
        self._says(f"copying {old} again with a new {new}")
        if is_removed:
            self._remove_by(self._handle(old, handle), [old])
        del self._storages[old.store].stored[old.metadata]
        segment = self._copied(CachedSegment(old.store, metadata))
        self._segments[place] = segment
        for one in (handle, 1 - handle):
            self._get(segment, one)

    # What has to be so.

    @invariant()
    def what_is_held_stays(self) -> None:
        """Compare again what was returned by earlier steps."""
        for said, segment, found in self._held:
            earlier = f"what {said} had returned, looked at after {self._last},"
            self.stored.check_indexes(earlier, segment, found.indexes)

    @invariant()
    def the_directory_has_nothing_else(self) -> None:
        """Look at the files that are not entries, the limit and the counted size."""
        if not self._caches:
            return  # it is not open yet
        lost = sorted(path.name for path in self._foreign if not path.exists())
        require(
            not lost,
            f"files of other programs stay: after {self._last} there is no {lost}",
        )
        found = {*self._directory.glob("*.tmp")} - self._unfinished
        require(
            not found,
            f"nothing unfinished is left: after {self._last} there is "
            f"{sorted(path.name for path in found)}",
        )
        self._check_limits()
        size = self._entries().size
        for handle, cache in self._caches.items():
            require(
                cache.stats.size == size,
                f"the counters are true: after {self._last} handle {handle} says that "
                f"the entries have {cache.stats.size} bytes, not {size}",
            )

    @staticmethod
    def _check_asked(said: str, fetches: int, raised: Exception | None) -> None:
        """Require that a segment that was removed is fetched, in one operation."""
        broken = "what was removed or has expired is not served"
        if raised is not None:
            broken = "a failure is not kept"
        require(fetches > 0, f"{broken}: {said} sent no operation to the storage")
        require(
            fetches == 1,
            "all indexes are fetched in one operation, by one of concurrent callers: "
            f"{said} sent {fetches} operations to the storage",
        )

    def _check_limits(self) -> None:
        """Require that all handles have one limit."""
        limit = self.model.limit
        for handle, cache in self._caches.items():
            require(
                cache.max_bytes == limit or limit is None,
                f"a limit is that of all handles: after {self._last} handle {handle} "
                f"has {cache.max_bytes} bytes, not {limit}",
            )

    def _get(self, segment: CachedSegment, handle: int) -> None:
        """Get a segment through a handle on its store."""
        handle = self._handle(segment, handle)
        cache, before = self._caches[handle], self._entries()
        counted = cache.stats
        said = self._says(f"get({segment}) by handle {handle}")
        found, fetches = self._counted(segment, lambda: cache.get(segment.metadata))
        now = self._clock()
        self._hold(said, segment, found)
        self.model.check_fetches(said, [handle], segment, before, now, fetches)
        self.model.use(handle, segment, now)
        after = self._entries()
        self.model.check_entries(
            said, before, after, fetched=[segment] if fetches else []
        )
        gone = {*before.whole, *before.damaged} - {*after.whole, *after.damaged}
        self.model.check_stats(
            said,
            counted,
            cache.stats,
            fetches=fetches,
            evictions=len(gone - {segment}),
            is_damaged=segment in before.damaged,
        )

    def _looked_up(
        self, segment: CachedSegment, handle: int, call: Callable[[], _T]
    ) -> _T:
        """Look something up in a segment that was just got."""
        before = self._entries()
        found, fetches = self._counted(segment, call)
        handles, now = [self._handle(segment, handle)], self._clock()
        self.model.check_fetches(self._last, handles, segment, before, now, fetches)
        self.model.check_entries(
            self._last,
            before,
            self._entries(),
            fetched=[segment] if fetches else [],
        )
        return found

    def _counted(
        self, segment: CachedSegment, call: Callable[[], _T]
    ) -> tuple[_T, int]:
        """Make a call, and count the operations that reach the segment's storage."""
        storage = self._storages[segment.store]
        operations = storage.operations
        found = call()
        return found, storage.operations - operations

    def _hold(self, said: str, segment: CachedSegment, found: CachedIndexes) -> None:
        """Check what was returned, and keep it for a while."""
        self.stored.check_indexes(said, segment, found.indexes)
        self._held = [*self._held[-7:], (said, segment, found)]

    def _remove(self, segments: Collection[CachedSegment]) -> None:
        """Remove segments of one store through each of its handles."""
        for handle in self._handles(next(iter(segments))):
            self._remove_by(handle, segments)

    def _remove_by(self, handle: int, segments: Collection[CachedSegment]) -> None:
        said = self._says(f"remove({[*map(str, segments)]}) by handle {handle}")
        before = self._entries()
        self._caches[handle].remove(one.metadata for one in segments)
        self.model.remove(handle, segments)
        self.model.check_entries(said, before, self._entries(), removed=segments)

    def _resize(self, handle: int, limit: int) -> None:
        """Set the limit, which is immediately that of all handles."""
        said = self._says(f"resize({limit}) by handle {handle}")
        before = self._entries()
        self._caches[handle].resize(limit)
        self.model.resize(handle, limit)
        self._check_limits()
        self.model.check_entries(said, before, self._entries())

    def _reopen(self, handle: int, limit: int | None) -> None:
        """Open a handle that has nothing in memory."""
        storage = self._storages[handle // OTHER_HANDLE]
        if limit is None and self.model.limit is None:
            limit = self.model.largest_limit
        said = self._says(f"opening handle {handle} with max_bytes={limit}")
        before = self._entries()
        open_cache, ttl = self.setup.open_cache, self.setup.ttl
        if ttl is not None:
            open_cache = partial(open_cache, ttl=ttl, clock=self._clock)
        if handle in self._caches:
            self._caches.pop(handle)
        self._caches[handle] = open_cache(storage, self._directory, max_bytes=limit)
        self.model.open(handle, limit)
        self.model.check_entries(said, before, self._entries())

    def _copied(self, segment: CachedSegment) -> CachedSegment:
        """Store a segment; some lack an index that is optional, some have a layout."""
        metadata = segment.metadata
        number = (metadata.start_offset - made_segment(0).start_offset) // OFFSETS
        content = content_of(metadata, 5 + 12 * number, segment.store)
        if number % 2:
            del content[IndexType.TRANSACTION]
        indexes = SegmentIndexes(
            {kind: memoryview(data) for kind, data in content.items()},
            b"" if number % 3 else f"layout of {segment}".encode(),
        )
        self._storages[segment.store].stored[metadata] = indexes
        self.stored.indexes[segment] = indexes
        return segment

    def _fill(self, others: Collection[CachedSegment], handle: int) -> None:
        """Remove some segments, and leave no room for anything else."""
        for one in others:
            self._remove([one])
        self._resize(handle, self._entries().size)

    def _damage(self, segment: CachedSegment, damage: Callable[[Path], None]) -> None:
        """Damage the entry of a segment, and maybe what is beside it."""
        path = self._files()[segment]
        self._says(f"damage {damage.__name__!r} of the entry of {segment}")
        damage(path)
        self._note_damage(path, segment)
        if damage in LEDGER_DAMAGE:
            self.model.lose_limit()

    def _change_byte(self, segment: CachedSegment, permille: int, bits: int) -> bool:
        """Change a byte of a segment's entry; return whether there is one."""
        files = self._files()
        if segment in files:
            self._says(f"a changed byte in the entry of {segment}")
            change_byte(files[segment], permille, bits)
            self._note_damage(files[segment], segment)
        return segment in files

    def _note_damage(self, path: Path, segment: CachedSegment) -> None:
        if not path.parent.exists():
            self._foreign = []
            self._unfinished = set()
            self._damaged = {}
        elif path in entry_files(self._directory):
            self._damaged[path] = segment, _content(path)

    def _entries(self) -> Entries:
        """Look at the entries, and require that each file is one."""
        whole: dict[CachedSegment, int] = {}
        damaged: dict[CachedSegment, int] = {}
        for path in entry_files(self._directory):
            size, content = path.lstat().st_size, _content(path)
            if path in self._damaged and self._damaged[path][1] == content:
                damaged[self._damaged[path][0]] = size
                continue
            self._damaged.pop(path, None)
            owner = None if content is None else self.stored.owner(content)
            if owner is None or owner in whole:
                raise AssertionError(
                    "only what was fetched whole is kept: after "
                    f"{self._last} {path.name} has not all indexes of a segment"
                )
            whole[owner] = size
        return Entries(whole, damaged)

    def _files(self) -> dict[CachedSegment, Path]:
        """Return the file of each entry that is not damaged."""
        found: dict[CachedSegment, Path] = {}
        for path in entry_files(self._directory):
            content = _content(path)
            if path in self._damaged or content is None:
                continue
            owner = self.stored.owner(content)
            if owner is not None:
                found[owner] = path
        return found

    def _handle(self, segment: CachedSegment, handle: int) -> int:
        """Return a handle on a segment's store."""
        return OTHER_HANDLE if segment.store else handle

    def _handles(self, segment: CachedSegment) -> list[int]:
        return [OTHER_HANDLE] if segment.store else [0, 1]

    def _cache(self, segment: CachedSegment, handle: int) -> RemoteIndexCache:
        return self._caches[self._handle(segment, handle)]

    def _says(self, step: str) -> str:
        """Take note of the last step."""
        self._last = step
        return step


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None for what is not one."""
    return path.read_bytes() if path.is_file() else None
