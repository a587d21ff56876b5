"""The end of a long log is found in few listings."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import (
    ObjectStore,
    RequestCounter,
    SegmentId,
    SegmentMetadata,
    Tier,
    TieredFSError,
    Topic,
    TopicIdPartition,
    open_storage,
)
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.last_segments import (
    MAX_LISTINGS,
    last_page,
    last_segments,
)
from tieredfs.objects import MAX_PAGE_KEYS

PARTITION = TopicIdPartition("orders", 0)
ID = SegmentId("A" * 21 + "Q")
KEYS = NativeKeys()


class Log:
    """Segments one behind the other, listed a page of some segments at a time."""

    def __init__(self, ends: Sequence[int], page: int) -> None:
        self.listings = 0
        self._ends = ends
        self._page = page

    def seek(self, offset: int) -> list[SegmentMetadata]:
        self.listings += 1
        first = bisect_left(self._ends, offset)
        return [self._segment(n) for n in range(first, len(self._ends))[: self._page]]

    def last(self) -> int | None:
        """Return the last offset; None where the search gives up."""
        found = last_segments(self.seek, self.seek(0))
        return None if found is None else found[-1].end_offset

    def _segment(self, number: int) -> SegmentMetadata:
        start = self._ends[number - 1] + 1 if number else 0
        return SegmentMetadata(PARTITION, ID, start, self._ends[number], size=1)


class PagedLog(Log):
    """The same, listed as the native layout lists it: half of each full page."""

    def __init__(self, ends: Sequence[int]) -> None:
        super().__init__(ends, MAX_PAGE_KEYS)

    def seek(self, offset: int) -> list[SegmentMetadata]:
        found = super().seek(offset)
        if not offset or len(found) < MAX_PAGE_KEYS:
            return found
        return found[: MAX_PAGE_KEYS // 2 + 1]


class TestALongLog:
    COUNT = 2_500

    @pytest.fixture
    def counter(self) -> RequestCounter:
        return RequestCounter()

    @pytest.fixture
    def topic(self, memory: ObjectStore, counter: RequestCounter) -> Topic:
        """The names of segments, ten offsets each: no more is needed."""
        for number in range(self.COUNT):
            self._put(memory, number * 10, number * 10 + 9)
        store = ObjectStore(memory.url, observer=counter)
        return Tier(open_storage(store, "single-object")).topic("orders")

    def test_its_beginning_takes_one_listing(
        self, topic: Topic, counter: RequestCounter
    ) -> None:
        opened = counter.requests
        assert topic.beginning_offsets() == {0: 0}
        assert counter.requests - opened == 1

    def test_its_end_takes_few_listings(
        self, topic: Topic, counter: RequestCounter
    ) -> None:
        opened = counter.requests
        assert topic.end_offsets() == {0: self.COUNT * 10}
        assert counter.by_verb().keys() == {"list"}
        assert counter.requests - opened <= 20

    def test_where_its_first_segments_overlap_the_beginning_is_that_of_all(
        self, topic: Topic, memory: ObjectStore
    ) -> None:
        end = self.COUNT * 10 - 1
        memory.delete([entry.key for entry in memory.list() if _start(entry.key) < 50])
        self._put(memory, 50, 64, epoch=3)  # on the first page, with 50 to 59
        self._put(memory, 20, end, epoch=3)  # on the last one
        assert topic.beginning_offsets() == {0: 20}

    def test_where_its_last_segments_overlap_all_are_listed(
        self, topic: Topic, memory: ObjectStore
    ) -> None:
        self._put(memory, self.COUNT * 10 - 15, self.COUNT * 10 - 1, epoch=3)
        with pytest.raises(TieredFSError):  # they have no content to compare
            topic.end_offsets()

    def test_where_a_page_on_the_way_shows_a_later_leader_all_are_listed(
        self, topic: Topic, memory: ObjectStore
    ) -> None:
        assert topic.end_offsets() == {0: self.COUNT * 10}
        self._put(memory, 50, 54, epoch=3)  # far before the last page
        with pytest.raises(TieredFSError):  # they have no content to compare
            topic.end_offsets()

    @pytest.mark.parametrize("count", [1, 2, 3, 7])
    def test_an_election_shortly_before_the_end_is_seen_whatever_the_length(
        self, topic: Topic, memory: ObjectStore, count: int
    ) -> None:
        # The search may end on a page that shows one segment, and none beside it.
        end = (2_000 + count) * 10
        keys = [one.key for one in memory.list() if _start(one.key) >= end]
        memory.delete(keys)
        assert topic.end_offsets() == {0: end}
        self._put(memory, end - 25, end - 21, epoch=1)
        with pytest.raises(TieredFSError):  # they have no content to compare
            topic.end_offsets()

    def _put(self, store: ObjectStore, start: int, end: int, epoch: int = 0) -> None:
        identity = SegmentId.from_bytes((start + 1).to_bytes(16))
        key = SegmentKey(end, start, 0, epoch, 1, 0, SegmentFlag(0), identity)
        name = KEYS.object_key(PARTITION, KEYS.stem(key))
        store.put(name, b"-", overwrite=True)


def _start(name: str) -> int:
    key = KEYS.parse_stem(name.rsplit("/", 1)[1].removesuffix(KEYS.suffix))
    assert key is not None
    return key.start_offset


@given(
    lengths=st.lists(st.integers(1, 1 << 40) | st.integers(1, 3), min_size=1),
    page=st.integers(1, 7),
)
def test_it_is_the_last_one_whatever_the_lengths(lengths: list[int], page: int) -> None:
    ends = [sum(lengths[: n + 1]) - 1 for n in range(len(lengths))]
    log = Log(ends, page)
    last = log.last()
    assert last == ends[-1] or (last is None and log.listings == MAX_LISTINGS + 1)


@given(
    runs=st.lists(
        st.tuples(st.integers(1, 20_000), st.integers(0, 9)), min_size=1, max_size=5
    )
)
def test_the_listings_are_bounded_whatever_the_lengths(
    runs: list[tuple[int, int]],
) -> None:
    """Runs of equal segments, which are each up to 10^9 times as long as the others."""
    lengths = [10**power for count, power in runs for _ in range(count)]
    ends = [end - 1 for end in accumulate(lengths)]
    log = PagedLog(ends)
    assert log.last() in {ends[-1], None}
    assert log.listings <= MAX_LISTINGS + 1


@pytest.mark.parametrize(
    ("count", "length", "more", "shorter"),
    [
        (1_000, 10**6, 200, 100),
        (50_000, 10**6, 50_000, 100),
        (50_000, 10**9, 50_000, 1),
        (50_000, 1, 50_000, 10**9),
        (99_000, 10**9, 1_000, 1),
    ],
)
def test_a_long_log_of_unequal_segments_takes_few_listings(
    count: int, length: int, more: int, shorter: int
) -> None:
    middle, end = count * length, count * length + more * shorter
    ends = [
        *range(length - 1, middle, length),
        *range(middle + shorter - 1, end, shorter),
    ]
    log = PagedLog(ends)
    assert log.last() == end - 1
    assert log.listings <= 20


@pytest.mark.parametrize("count", [1_001, 1_200, 1_999])
def test_a_log_of_two_pages_takes_four_listings(count: int) -> None:
    log = PagedLog(range(9, count * 10, 10))
    assert log.last() == count * 10 - 1
    assert log.listings <= 4


def test_pages_that_are_never_full_do_not_double_the_listings() -> None:
    """A page shows fewer segments where each is stored as several objects."""
    log = Log(range(9, 10**6, 10), 250)
    assert log.last() == 10**6 - 1
    assert log.listings <= 20


def test_the_largest_offsets_are_found() -> None:
    ends = [0, 1, MAX_INT64 - 3, MAX_INT64 - 2]
    assert Log(ends, 1).last() == MAX_INT64 - 2


@pytest.mark.parametrize("count", [1, 500, 501, 5_000, 100_000, 1_000_000])
@pytest.mark.parametrize("length", [1, 1_000, 10**9])
def test_a_long_log_takes_few_listings(count: int, length: int) -> None:
    log = Log(range(length - 1, count * length, length), 500)
    assert log.last() == count * length - 1
    assert log.listings <= 20


@given(
    st.integers(0, 1 << 32).map(Random),
    st.sampled_from((1, 10, 10**6)),
    st.integers(1, MAX_PAGE_KEYS // 2),
)
def test_what_decides_is_half_a_page_or_the_whole_log(
    drawn: Random, longest: int, shown: int
) -> None:
    # Drawn one by one, a page of lengths would take seconds.
    lengths = [drawn.randint(1, longest) for _ in range(MAX_PAGE_KEYS + 100)]
    ends = [end - 1 for end in accumulate(lengths)]
    log, whole = PagedLog(ends), Log(ends, len(ends)).seek(0)
    found = last_page(log.seek, whole[-shown:])
    assert list(found) == whole[-len(found) :]
    assert len(found) >= min(MAX_PAGE_KEYS // 2, len(whole))
