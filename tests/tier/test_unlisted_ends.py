"""Of a long log whose listing says little, only what an answer needs is described."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import Bucket, ProxiedBucket
from support.events import Events
from support.segments import records, segment
from support.stores import fill, open_store
from support.wire import encode_batch
from tieredfs import (
    CorruptDataError,
    IndexType,
    ObjectStore,
    OffsetOutOfRangeError,
    SegmentId,
    SegmentMetadata,
    Tier,
    Topic,
    TopicIdPartition,
    open_storage,
)
from tieredfs.cache import with_index_cache
from tieredfs.epochs import LeaderEpochs
from tieredfs.format.index.leader_epochs import format_leader_epochs
from tieredfs.log.planning.tiles import log_end
from tieredfs.log.planning.unlisted_ends import describe_from, describe_last

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FOLDER = f"orders-0-{TOPIC_ID}"
COUNT = 300
LENGTH = 5


def put(
    store: ObjectStore,
    *spans: tuple[int, int],
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    name: str = "",
    value: str = "v",
) -> None:
    """Store segments of the offsets ``[from, to)``, each with a batch for each five.

    Batches are the same in whatever segment they are, as those of replicas are.
    """
    epoch = epochs[-1][0]
    files: dict[str, bytes] = {}
    for start, end in spans:
        log = b"".join(
            encode_batch(
                records(at, min(LENGTH, end - at), value=value), leader_epoch=epoch
            )
            for at in range(start, end, LENGTH)
        )
        files |= segment(FOLDER, start, log, epochs=epochs, name=name)
    fill(store, files)


def tiles(count: int = COUNT) -> Iterator[tuple[int, int]]:
    return ((at, at + LENGTH) for at in range(0, count * LENGTH, LENGTH))


def topic_of(
    place: ObjectStore | Bucket, events: Events, cache: Path | None = None
) -> Topic:
    """Open the topic as another process would; what was requested so far is gone."""
    options = place.storage_options if isinstance(place, Bucket) else None
    observed = ObjectStore(place.url, options, observer=events)
    storage = open_storage(observed, "kafka-local")
    topic = Tier(with_index_cache(storage, cache) if cache else storage).topic("orders")
    events.clear()
    return topic


def described(events: Events) -> int:
    """Return how many segments have been described: each of them by its snapshot."""
    return sum(event.key.endswith("snapshot") for event in events)


def compared(events: Events) -> int:
    """Return how many checkpoints have been read."""
    return sum(event.key.endswith("checkpoint") for event in events)


@pytest.fixture
def events() -> Events:
    return Events()


class TestALongLogOnS3:
    def test_an_end_is_few_requests_when_cold_and_its_listing_when_warm(
        self, s3_proxied: ProxiedBucket, tmp_path: Path
    ) -> None:
        place = Bucket(s3_proxied.url, s3_proxied.storage_options)
        put(open_store(place), *tiles())
        wanted = {0: COUNT * LENGTH}
        for cache in (None, tmp_path):
            topic = topic_of(place, Events(), cache)
            s3_proxied.proxy.log.clear()
            assert topic.end_offsets() == wanted
            assert len(s3_proxied.proxy.requests()) <= 8
        topic = topic_of(place, Events(), tmp_path)
        s3_proxied.proxy.log.clear()
        assert topic.end_offsets() == wanted
        requests = s3_proxied.proxy.requests()
        assert 0 < len(requests) == len(s3_proxied.proxy.requests("GET", "list-type="))

    def test_a_warm_read_is_its_listing_and_its_ranges(
        self, s3_proxied: ProxiedBucket, tmp_path: Path
    ) -> None:
        place = Bucket(s3_proxied.url, s3_proxied.storage_options)
        put(open_store(place), *tiles())
        expected = list(range(701, 705))
        for _ in range(2):
            topic = topic_of(place, Events(), tmp_path)
            s3_proxied.proxy.log.clear()
            assert topic.read(0, 701, 1)["offset"].to_pylist() == expected
        requests = s3_proxied.proxy.requests()
        listings = s3_proxied.proxy.requests("GET", "list-type=")
        logs = s3_proxied.proxy.requests("GET", r"\.log")
        assert (len(logs), len(requests)) == (1, len(listings) + 1)

    def test_a_warm_plan_is_its_listing(
        self, s3_proxied: ProxiedBucket, tmp_path: Path
    ) -> None:
        place = Bucket(s3_proxied.url, s3_proxied.storage_options)
        put(open_store(place), *tiles(40))
        plans = []
        for _ in range(2):
            topic = topic_of(place, Events(), tmp_path)
            s3_proxied.proxy.log.clear()
            plans.append(topic.scan().plan.slices)
        assert plans[0] == plans[1]
        assert len(plans[0]) == 40
        requests = s3_proxied.proxy.requests()
        assert len(requests) == len(s3_proxied.proxy.requests("GET", "list-type="))


class TestTheEndOfALongLog:
    @pytest.fixture
    def store(self, memory: ObjectStore) -> ObjectStore:
        put(memory, *tiles())
        return memory

    def test_it_is_that_of_the_last_segment(
        self, store: ObjectStore, events: Events
    ) -> None:
        assert topic_of(store, events).end_offsets() == {0: COUNT * LENGTH}
        assert described(events) == 1
        assert events.by_verb()["list"] == 1

    @pytest.mark.parametrize("start", [0, 700, (COUNT - 1) * LENGTH - 5])
    def test_a_segment_that_begins_early_may_end_last(
        self, store: ObjectStore, events: Events, start: int
    ) -> None:
        end = COUNT * LENGTH + 3
        put(store, (start, end), name="long")
        assert topic_of(store, events).end_offsets() == {0: end}
        assert described(events) <= 3

    def test_a_leader_that_lost_the_end_decides_it(
        self, store: ObjectStore, events: Events
    ) -> None:
        put(store, (600, 603), epochs=[(0, 0), (1, 600)], name="unclean")
        topic = topic_of(store, events)
        assert topic.end_offsets() == {0: 603}
        assert topic.scan().to_table().num_rows == 603
        assert topic.read(0, 600).num_rows == 3
        with pytest.raises(OffsetOutOfRangeError):
            topic.read(0, 604)

    def test_a_smaller_last_segment_has_the_one_before_it_described(
        self, store: ObjectStore, events: Events
    ) -> None:
        end = COUNT * LENGTH
        put(store, (end, end + 1))
        assert topic_of(store, events).end_offsets() == {0: end + 1}
        assert described(events) == 2

    def test_an_election_without_loss_is_seen_from_few_segments(
        self, store: ObjectStore, events: Events
    ) -> None:
        end = COUNT * LENGTH
        more = [(end + at, end + at + LENGTH) for at in range(0, 200, LENGTH)]
        put(store, *more, epochs=[(0, 0), (1, end)])
        assert topic_of(store, events).end_offsets() == {0: end + 200}
        assert described(events) == 1
        assert compared(events) == 40  # those of the segments that have seen it

    def test_an_election_that_lost_the_segment_that_begins_last_is_seen(
        self, store: ObjectStore, events: Events
    ) -> None:
        end = COUNT * LENGTH
        for epoch, more in ((1, 200), (2, 100)):  # checkpoints of one size
            spans = [(end + at, end + at + LENGTH) for at in range(0, more, LENGTH)]
            epochs = [(0, 0), (epoch, end)]
            put(store, *spans, epochs=epochs, name=str(epoch), value=str(epoch))
        topic = topic_of(store, events)
        assert topic.end_offsets() == {0: end + 100}
        found = topic.read(0, end + 1, 1)
        assert found["value"].to_pylist()[0] == f"2{end + 1}".encode()
        with pytest.raises(OffsetOutOfRangeError):
            topic.read(0, end + 150, 1)


def test_a_short_log_shows_a_leader_that_lost_the_end_whatever_its_checkpoint(
    memory: ObjectStore, events: Events
) -> None:
    """Both histories have an epoch of one digit from one offset on."""
    put(memory, *tiles(10))
    put(memory, (50, 55), (55, 60), epochs=[(0, 0), (1, 50)], name="lost")
    put(memory, (50, 53), epochs=[(0, 0), (2, 50)], name="unclean")
    topic = topic_of(memory, events)
    assert topic.end_offsets() == {0: 53}
    assert topic.read(0, 50)["offset"].to_pylist() == [50, 51, 52]


class TestReadingALongLog:
    def test_it_describes_what_is_read_and_what_decides_the_history(
        self, memory: ObjectStore, events: Events
    ) -> None:
        put(memory, *tiles())
        topic = topic_of(memory, events)
        found = topic.read(0, 703, 1)
        assert found["offset"].to_pylist() == [703, 704]
        assert described(events) == 3
        assert events.by_verb()["list"] == 1
        found = topic.read(0, found.next_offset, 1)
        assert found["offset"].to_pylist() == list(range(705, 710))

    def test_it_stops_at_a_gap_which_is_an_error_then(
        self, memory: ObjectStore, events: Events
    ) -> None:
        put(memory, *(span for span in tiles() if span[0] != 705))
        topic = topic_of(memory, events)
        assert topic.read(0, 695).next_offset == 705
        with pytest.raises(CorruptDataError, match="the offsets 705 to 709"):
            topic.read(0, 705)

    def test_another_copy_of_the_offsets_changes_nothing(
        self, memory: ObjectStore, events: Events
    ) -> None:
        put(memory, *tiles())
        put(memory, (600, 800), (700, 720), (705, 712), name="again")
        topic = topic_of(memory, events)
        offset, found = 590, []
        while offset < 820:
            fetched = topic.read(0, offset, 1)
            found += fetched["offset"].to_pylist()
            offset = fetched.next_offset
        assert found == list(range(590, offset))

    def test_records_that_a_later_leader_wrote_anew_are_read(
        self, memory: ObjectStore, events: Events
    ) -> None:
        put(memory, *tiles(), value="lost")
        more = ((at, at + LENGTH) for at in range(700, 1600, LENGTH))
        put(memory, *more, epochs=[(0, 0), (1, 700)], name="new", value="true")
        topic = topic_of(memory, events)
        for offset in range(695, 760, LENGTH):
            values = topic.read(0, offset, 1)["value"].to_pylist()
            said = b"true" if offset >= 700 else b"lost"
            assert values == [said + b"%d" % at for at in range(offset, offset + 5)]


def listed(
    *spans: tuple[int, int], epochs: Sequence[tuple[int, int]] = ((0, 0),)
) -> list[SegmentMetadata]:
    """Return segments, described, whose logs have a byte for each offset."""
    known = LeaderEpochs.of(epochs)
    return [
        SegmentMetadata(
            TopicIdPartition("t", 0),
            SegmentId.from_bytes(bytes([epochs[-1][0]]) * 8 + end.to_bytes(8)),
            start,
            end - 1,
            max_timestamp_ms=0,
            leader_epochs=known.entries,
            size=end - start,
            index_sizes={IndexType.LEADER_EPOCH: len(format_leader_epochs(known))},
        )
        for start, end in spans
    ]


def histories(segments: Sequence[SegmentMetadata]) -> list[LeaderEpochs]:
    """Return the checkpoints of described segments."""
    return [LeaderEpochs(one.leader_epochs or ()) for one in segments]


def ends_described(segments: Sequence[SegmentMetadata]) -> list[int] | None:
    """Return the ends of the segments that decide where a log ends."""
    ordered = sorted(segments, key=lambda one: one.start_offset)
    found = describe_last(ordered, list, histories)
    return None if found is None else [(one.end_offset or 0) + 1 for one in found]


LOST = [(0, 0), (1, 300)]
TRUE = [(0, 0), (2, 300)]


class TestSizes:
    TILES = tuple((at, at + 10) for at in range(0, 400, 10))

    def test_segments_that_follow_one_another_add_up(self) -> None:
        # Only a log of more than 9 + 2 bytes can have those of both.
        assert ends_described(listed(*self.TILES, (400, 409), (409, 411))) == [409, 411]

    def test_segments_that_overlap_do_not(self) -> None:
        longer = [(300, 400), (290, 405)]
        assert ends_described(listed(*self.TILES, *longer)) == [405, 400, 400]

    def test_several_histories_are_described_whole(self) -> None:
        old = listed(*self.TILES)
        same_start = listed((390, 395), epochs=[(0, 0), (1, 350)])
        assert ends_described([*old, *same_start]) is None
        earlier = listed((380, 385), epochs=[(0, 0), (1, 350)])
        assert ends_described([*old, *earlier]) is None

    def test_histories_whose_checkpoints_have_one_size_are_described_whole(
        self,
    ) -> None:
        common = listed(*((at, at + 10) for at in range(0, 300, 10)))
        lost = listed(*((at, at + 10) for at in range(300, 600, 10)), epochs=LOST)
        true = listed(*((at, at + 10) for at in range(300, 400, 10)), epochs=TRUE)
        assert ends_described([*common, *lost, *true]) is None
        assert ends_described([*common, *lost]) == [600]

    def test_a_listing_without_sizes_is_described_whole(self) -> None:
        found = listed(*self.TILES)
        assert ends_described(found) == [400]
        unknown = replace(found[3], size=None)
        assert ends_described([*found[:3], unknown, *found[4:]]) is None
        unknown = replace(found[3], index_sizes={})
        assert ends_described([*found[:3], unknown, *found[4:]]) is None


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[SegmentMetadata], list[SegmentMetadata]]:
    """Draw segments of one history as they are listed, and as they are described.

    Bytes are those of offsets, so that copies have the same; elections lose nothing.
    """
    sizes = draw(st.lists(st.integers(1, 9), min_size=70, max_size=70))
    cuts = sorted(draw(st.sets(st.integers(1, 69), min_size=33)))
    turns = sorted(draw(st.sets(st.integers(1, 69), max_size=3)))
    history = [(epoch, at) for epoch, at in enumerate([0, *turns])]
    spans = list(pairwise([0, *cuts, 70]))
    end = draw(st.integers(len(spans) - 5, len(spans)))
    inside = st.tuples(st.integers(0, 69), st.integers(1, 70))
    copies = [(min(pair), max(pair)) for pair in draw(st.lists(inside, max_size=6))]
    spans = spans[:end] + [(a, b) for a, b in copies if a < b]
    found = []
    for number, (start, stop) in enumerate(sorted(spans), 1):
        known = LeaderEpochs.of(one for one in history if one[1] < stop)
        found.append(
            SegmentMetadata(
                TopicIdPartition("t", 0),
                SegmentId.from_bytes(number.to_bytes(16)),
                start,
                stop - 1,
                max_timestamp_ms=0,
                leader_epochs=known.entries,
                size=sum(sizes[start:stop]),
                index_sizes={IndexType.LEADER_EPOCH: len(format_leader_epochs(known))},
            )
        )
    listed = [
        replace(one, end_offset=None, max_timestamp_ms=None, leader_epochs=None)
        for one in found
    ]
    return listed, found


@given(logs(), st.integers(0, 69), st.integers(0, 100))
def test_the_answer_is_that_of_all_segments_and_few_are_described(
    log: tuple[list[SegmentMetadata], list[SegmentMetadata]], offset: int, size: int
) -> None:
    listed, known = log
    by_id = {one.id: one for one in known}

    def describe(some: Sequence[SegmentMetadata]) -> list[SegmentMetadata]:
        return [by_id[one.id] for one in some]

    def read(some: Sequence[SegmentMetadata]) -> list[LeaderEpochs]:
        return histories(describe(some))

    last = describe_last(listed, describe, read)
    assert (last is None) == (len(listed) <= 32)
    if last is None:
        return
    assert log_end(last) == log_end(known)
    near = describe_from(listed, offset, size, describe, read)
    if near is not None:
        assert near[0].start_offset <= offset <= (near[0].end_offset or 0)
        for one, following in pairwise(near):
            assert one.end_offset == following.start_offset - 1
