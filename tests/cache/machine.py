"""Anything that can be done to a cache, in any order, against a model of it."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cache.made import (
    Clock,
    Made,
    bytes_of,
    content_of,
    entry_size,
    files_in,
    made_segment,
)
from support.damage import flipped
from tieredfs import ClosedError
from tieredfs.cache import CachedIndexes, RemoteIndexCache
from tieredfs.cache.entry import entry_name

__all__ = ["Machine"]

NUMBERS = st.integers(0, 4)
_LARGEST = 5
BOUNDS = st.sampled_from([0, 1, 3, *[_LARGEST] * 4])
TTL = 100.0


@dataclass
class Model:
    """What has to be so.

    Attributes:
        whole: Segments whose file is there as it was written.
        spoilt: Those whose file is there and is not.
        mapped: Those that the cache has in memory.
        used: When each was used last.
        noted: When its use was last recorded in the directory.
    """

    whole: set[int] = field(default_factory=set)
    spoilt: set[int] = field(default_factory=set)
    mapped: set[int] = field(default_factory=set)
    used: dict[int, float] = field(default_factory=dict)
    noted: dict[int, float] = field(default_factory=dict)


class Machine(RuleBasedStateMachine):
    """One cache with a clock that a test moves, and all that may happen to it."""

    def __init__(self) -> None:
        """Begin with an empty directory."""
        super().__init__()
        self.root = Path(mkdtemp(prefix="tieredfs-cache-model-"))
        self.clock = Clock()
        self.made = Made(self.root / "asked")
        self.model = Model()
        self.held: list[tuple[int, CachedIndexes]] = []
        self.fetches = self.evictions = 0

    def teardown(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.root)

    @initialize(bound=BOUNDS)
    def open(self, bound: int) -> None:
        """Open a cache on the directory."""
        self.bound = bound * entry_size()
        self.cache = RemoteIndexCache(
            self.made,
            self.root / "cache",
            max_bytes=self.bound,
            ttl=TTL,
            clock=self.clock,
        )
        self.model.mapped.clear()
        self.hits = self.misses = self.loads = self.corruptions = 0
        self._see_what_went(counted=False)

    @rule(number=NUMBERS)
    def get(self, number: int) -> None:
        """Get a segment: each byte is right, and it was fetched if it had to be."""
        model, now = self.model, self.clock.now
        is_fresh = now - model.used.get(number, 0) <= TTL
        is_noted = now - model.noted.get(number, 0) <= TTL
        is_hit = (number in model.mapped and is_fresh) or (
            number in model.whole and is_noted
        )
        corrupt = not is_hit and number in model.spoilt and is_noted
        found = self.cache.get(made_segment(number))
        assert bytes_of(found.indexes) == content_of(made_segment(number))
        self.held = [*self.held[-5:], (number, found)]
        self.fetches += not is_hit
        self.hits += is_hit
        self.misses += not is_hit
        self.loads += not is_hit
        self.corruptions += corrupt
        if is_hit:
            model.mapped.add(number)
        else:
            model.spoilt.discard(number)
            model.whole.discard(number)
            model.mapped.discard(number)
            if self._file(number).exists():
                model.whole.add(number)
                model.mapped.add(number)
        model.used[number] = now
        self._note(number)
        self._see_what_went(counted=True)

    @rule(numbers=st.lists(NUMBERS, max_size=3))
    def remove(self, numbers: list[int]) -> None:
        """Remove segments."""
        self.cache.remove([made_segment(number) for number in numbers])
        for kept in (self.model.whole, self.model.spoilt, self.model.mapped):
            kept -= set(numbers)

    @rule(bound=BOUNDS)
    def resize(self, bound: int) -> None:
        """Give the directory another bound."""
        self.bound = bound * entry_size()
        self.cache.resize(self.bound)
        self._see_what_went(counted=True)

    @rule()
    def clear(self) -> None:
        """Remove all."""
        self.cache.clear()
        for kept in (self.model.whole, self.model.spoilt, self.model.mapped):
            kept.clear()

    @rule(bound=BOUNDS)
    def close_and_open(self, bound: int) -> None:
        """Begin anew, as another process would."""
        self.cache.close()
        with pytest.raises(ClosedError):
            self.cache.get(made_segment(0))
        self.open(bound)

    @precondition(lambda self: self.model.whole)
    @rule(data=st.data())
    def flip_a_bit(self, data: st.DataObject) -> None:
        """Damage a file."""
        self._spoil(data, data.draw(st.sampled_from(sorted(self.model.whole))))

    @precondition(lambda self: self.model.whole)
    @rule(data=st.data())
    def flip_a_bit_of_each_and_open(self, data: st.DataObject) -> None:
        """Damage all files while none is mapped."""
        self.cache.close()
        for number in sorted(self.model.whole):
            self._spoil(data, number)
        self.open(_LARGEST)

    @precondition(lambda self: self.model.whole)
    @rule(data=st.data())
    def lose_a_file(self, data: st.DataObject) -> None:
        """Remove a file behind the cache's back."""
        number = data.draw(st.sampled_from(sorted(self.model.whole)))
        self._file(number).unlink()
        self.model.whole.discard(number)

    @rule(seconds=st.sampled_from([1.0, 20.0, 60.0, 101.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds

    @invariant()
    def the_files_are_those_of_the_model_and_within_the_bound(self) -> None:
        """Look at the directory."""
        names = {file.name for file in files_in(self.root / "cache")}
        there = self.model.whole | self.model.spoilt
        assert names == {self._file(number).name for number in there}
        assert self.cache.stats.size == len(names) * entry_size() <= self.bound

    @invariant()
    def the_counters_are_right(self) -> None:
        """Look at the counters."""
        stats = self.cache.stats
        found = (stats.hits, stats.misses, stats.loads, stats.corruptions)
        assert found == (self.hits, self.misses, self.loads, self.corruptions)
        assert self.made.fetches == self.fetches

    @invariant()
    def what_is_held_stays_what_it_was(self) -> None:
        """Look at what was handed out."""
        for number, found in self.held:
            assert bytes_of(found.indexes) == content_of(made_segment(number))

    def _note(self, number: int) -> None:
        """Take over what the file says of its last use."""
        used = self.cache._directory.used(self._file(number).stem)
        if used is not None:
            self.model.noted[number] = used

    def _see_what_went(self, *, counted: bool) -> None:
        """Take over which files had to go: which ones is for the tests of eviction."""
        model = self.model
        there = {n for n in model.whole | model.spoilt if self._file(n).exists()}
        went = (model.whole | model.spoilt) - there
        model.whole &= there
        model.spoilt &= there
        model.mapped -= went
        self.evictions = self.evictions + len(went) if counted else 0
        assert self.cache.stats.evictions == self.evictions

    def _file(self, number: int) -> Path:
        name = entry_name(self.cache._identity, made_segment(number)).name
        return self.root / "cache" / f"{name}.indexes"

    def _spoil(self, data: st.DataObject, number: int) -> None:
        """Flip a bit of a file as disks do: existing mappings do not change."""
        file, scratch = self._file(number), self.root / "scratch"
        whole = file.read_bytes()
        position = data.draw(st.integers(0, len(whole) - 1))
        scratch.write_bytes(flipped(whole, position))
        shutil.copystat(file, scratch)
        scratch.replace(file)
        self.model.whole.discard(number)
        self.model.spoilt.add(number)
