"""What a plan asks S3 for, counted by a proxy."""

import itertools
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pytest

from servers import FaultProxy, Hold, ProxiedBucket, Request
from tieredfs import ObjectStore, SegmentId, Tier, Topic, TopicIdPartition, open_storage
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.native_keys import NativeKeys

KEYS = NativeKeys()
_WRITERS = 16


def put_all(place: ProxiedBucket, objects: Mapping[str, bytes]) -> None:
    """Store objects, several at a time, and forget the requests for that."""
    with (
        ObjectStore(place.url, place.storage_options) as store,
        ThreadPoolExecutor(_WRITERS) as pool,
    ):
        put = partial(store.put, overwrite=True)
        list(pool.map(put, objects.keys(), objects.values()))
    place.proxy.clear()


def names(topic: str, count: int) -> Iterable[str]:
    """Return the keys of segments of ten offsets each, which hold one byte."""
    partition = TopicIdPartition(topic, 0)
    for number in range(count):
        start = number * 10
        identity = SegmentId.from_bytes((number + 1).to_bytes(16))
        key = SegmentKey(start + 9, start, 0, 0, 1, 0, SegmentFlag(0), identity)
        yield KEYS.object_key(partition, KEYS.stem(key))


def tier_of(place: ProxiedBucket) -> Tier:
    """Open the tier through the proxy."""
    store = ObjectStore(place.url, place.storage_options)
    return Tier(open_storage(store, "single-object"))


def listings(proxy: FaultProxy) -> int:
    """Return how many listings were asked for, of all requests."""
    found = proxy.requests("GET", r"list-type=2")
    assert len(found) == len(proxy.requests())
    return len(found)


def hold_until_together(proxy: FaultProxy, count: int, path: str, ranged: str) -> None:
    """Answer requests of one kind only when so many of them are under way."""
    hold, numbers = Hold(), itertools.count(1)

    def is_one(request: Request) -> bool:
        if not re.match(ranged, request.range):
            return False
        if next(numbers) == count:
            hold.release.set()
        return True

    proxy.add("GET", path, when=is_one, hold=hold)


def test_one_of_400_topics_is_opened_by_three_listings_at_most(
    s3_proxied: ProxiedBucket,
) -> None:
    keys = [next(iter(names(f"topic-{number}", 1))) for number in range(400)]
    put_all(s3_proxied, dict.fromkeys(keys, b"-"))
    assert tier_of(s3_proxied).topic("topic-7").partitions == (0,)
    assert listings(s3_proxied.proxy) <= 3


def test_the_beginning_of_a_long_log_is_one_listing_and_its_end_few(
    s3_proxied: ProxiedBucket,
) -> None:
    put_all(s3_proxied, dict.fromkeys(names("orders", 2_500), b"-"))  # three pages
    first, second = (tier_of(s3_proxied).topic("orders") for _ in range(2))
    s3_proxied.proxy.clear()
    assert first.beginning_offsets() == {0: 0}
    assert listings(s3_proxied.proxy) == 1
    s3_proxied.proxy.clear()
    assert second.end_offsets() == {0: 25_000}
    assert listings(s3_proxied.proxy) <= 20


@pytest.fixture
def wide_topic(s3_proxied: ProxiedBucket) -> Topic:
    """A topic of twenty partitions, each with two segments of five records."""
    made = tier_of(s3_proxied).create_topic("wide", partitions=20)
    times = [1_700_000_000_000 + n for n in range(5)]
    stamps = pa.array(times, pa.timestamp("ms", "UTC"))
    rows = pa.table({"value": [b"one"] * 5, "timestamp": stamps})
    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in range(2):
            list(pool.map(partial(made.append, rows), made.partitions))
    topic = tier_of(s3_proxied).topic("wide")
    s3_proxied.proxy.clear()
    return topic


def test_a_plan_by_time_of_twenty_partitions_is_three_round_trips(
    wide_topic: Topic, s3_proxied: ProxiedBucket
) -> None:
    proxy = s3_proxied.proxy
    for path, ranged in (
        ("list-type=2", "$"),
        ("/wide/", "bytes=[1-9]"),
        ("/wide/", "bytes=0-"),
    ):
        hold_until_together(proxy, 20, path, ranged)
    scan = wide_topic.scan(start="2023-11-14T22:13:20.002Z")
    assert scan.plan.segments == 40
    assert len(proxy.requests()) == 3 * 20


def test_a_read_at_an_offset_is_a_listing_and_its_ranges(
    wide_topic: Topic, s3_proxied: ProxiedBucket
) -> None:
    found = wide_topic.read(0, 7, max_bytes=1)
    assert found.next_offset > 7
    assert len(s3_proxied.proxy.requests("GET", "list-type=2")) == 1
    assert len(s3_proxied.proxy.requests()) <= 4
    s3_proxied.proxy.clear()
    wide_topic.read(0, 7, max_bytes=1)
    assert len(s3_proxied.proxy.requests("GET", "list-type=2")) == 1
    assert len(s3_proxied.proxy.requests()) <= 3
