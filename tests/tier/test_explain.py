"""``Scan.explain`` and ``Scan.stats``: what reading asks of the store, and has asked.

That the two agree, whatever is read, is in ``tests/proofs/proof_requests.py``.
"""

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

import tieredfs
from servers import Bucket
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import push_all, source_of, topic_of, write_log
from support.stores import open_store
from support.wire import WireRecord, encode_batch
from tier.large_logs import pushed, write_large
from tier.unreliable import Fault, Place, Trouble
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RequestCounts,
    Scan,
    ScanStats,
    Topic,
)
from tieredfs.cache import with_index_cache
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

_MIB = 1 << 20


def read(scan: Scan) -> ScanStats:
    """Read a scan, and return its figures."""
    for _ in scan:
        pass
    return scan.stats


_THERE = """
import pickle, sys
scan = pickle.load(sys.stdin.buffer)
before = scan.stats
scan.explain()
for _ in scan:
    pass
sys.stdout.buffer.write(pickle.dumps((before, scan.stats)))
"""
"""What another process does with a scan."""


class TestRecorded:
    """A topic as a broker tiered it: 21 segments of three partitions."""

    @pytest.fixture
    def topic(self) -> Topic:
        """Open it."""
        storage = KafkaLocal(ObjectStore(str(KAFKA / "two-partitions" / REMOTE)))
        return topic_of(storage, "two-partitions")

    def test_an_explanation_counts_segments_requests_and_bytes(
        self, topic: Topic
    ) -> None:
        scan = topic.scan()
        explained = scan.explain()
        assert explained.is_exact
        assert explained.segments == scan.plan.segments == 21
        assert explained.log_bytes == scan.plan.size
        assert explained.reading.by_verb == {"get_range": 21}
        assert explained.reading.size == scan.plan.size
        assert explained.expected == explained.reading

    def test_explaining_it_asks_for_nothing(self, topic: Topic) -> None:
        assert topic.scan().explain().explaining == RequestCounts()

    def test_the_figures_of_an_iteration_stand_beside_those_planned(
        self, topic: Topic
    ) -> None:
        scan = topic.scan()
        assert scan.stats == ScanStats()
        explained = scan.explain()
        assert scan.stats == ScanStats()
        assert read(scan) == ScanStats(explained, explained.reading, retries=0)

    def test_an_iteration_that_was_not_explained_has_no_plan(
        self, topic: Topic
    ) -> None:
        scan = topic.scan()
        scan.explain()
        first = read(scan)
        assert read(scan) == replace(first, planned=None)

    def test_figures_grow_with_an_iteration(self, topic: Topic) -> None:
        scan = topic.scan()
        batches = iter(scan)
        assert scan.stats.requests.requests == 0
        next(batches)
        begun = scan.stats.requests.requests
        assert 0 < begun < 21
        for _ in batches:
            pass
        assert scan.stats.requests.requests == 21

    def test_a_scan_without_records_sends_nothing(self, topic: Topic) -> None:
        scan = topic.scan([0], 255)
        assert scan.explain().reading == RequestCounts()
        assert read(scan).requests == RequestCounts()

    def test_a_part_of_a_scan_has_figures_of_its_own(self, topic: Topic) -> None:
        scan = topic.scan()
        parts = scan.split(scan.plan.size // 3)
        explained = [part.explain() for part in parts]
        assert [read(part).requests for part in parts] == [
            each.reading for each in explained
        ]
        assert sum(each.segments for each in explained) == 21
        assert scan.stats == ScanStats()

    def test_a_pickled_scan_counts_in_its_own_process(self, topic: Topic) -> None:
        scan = topic.scan()
        scan.explain()
        read(scan)
        done = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-c", _THERE],
            input=pickle.dumps(scan),
            capture_output=True,
            check=True,
        )
        there = pickle.loads(done.stdout)  # noqa: S301 - ours
        assert there == (ScanStats(), scan.stats)

    @pytest.mark.parametrize("records", [-1, 1.5, "1"])
    def test_a_number_of_records_that_is_none_is_refused(
        self, topic: Topic, records: object
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="records"):
            topic.scan().explain(records)  # type: ignore[arg-type] # that is the point

    def test_a_segment_that_is_gone_is_found_when_it_is_read(
        self, tmp_path: Path
    ) -> None:
        shutil.copytree(KAFKA / "epochs" / LOCAL, tmp_path, dirs_exist_ok=True)
        scan = topic_of(source_of(tmp_path), "epochs").scan()
        shutil.rmtree(tmp_path / "epochs-0")
        with pytest.raises(NotFoundError):
            scan.explain()


def test_a_broker_that_replaces_logs_is_asked_after_each(tmp_path: Path) -> None:
    shutil.copytree(KAFKA / "compacted" / LOCAL, tmp_path, dirs_exist_ok=True)
    scan = topic_of(source_of(tmp_path), "compacted").scan()
    explained = scan.explain()
    assert explained.is_exact
    assert explained.reading.by_verb["head"] == explained.segments - 1
    assert read(scan).requests == explained.reading


def test_of_a_brokers_log_only_what_is_read_to_its_end_is_looked_at(
    tmp_path: Path,
) -> None:
    shutil.copytree(KAFKA / "compacted" / LOCAL, tmp_path, dirs_exist_ok=True)
    topic = topic_of(source_of(tmp_path), "compacted")
    assert topic.scan([0], 0, 3).explain().explaining.by_verb == {"head": 1}


def test_a_log_whose_end_was_cleaned_is_searched_for_holes(tmp_path: Path) -> None:
    def log(start: int, stop: int) -> bytes:
        found = (WireRecord(n, 1, None, b"v") for n in range(start, stop))
        return b"".join(encode_batch([record]) for record in found)

    # The end of the first segment is missing, and no checkpoint says that it may be.
    logs = {0: log(0, 20) + log(30, 40), 50: log(50, 60), 60: b""}
    scan = topic_of(source_of(write_log(tmp_path, logs).parent)).scan()
    explained = scan.explain()
    assert explained.reading.by_verb["get_range"] == explained.segments + 1
    assert read(scan).requests == explained.reading


@pytest.mark.parametrize(
    ("compression", "is_cached", "requests"),
    [(None, False, 4), (None, True, 3), ("zstd", False, 4), ("zstd", True, 2)],
)
def test_manifests_count_unless_they_are_cached(
    memory: ObjectStore,
    tmp_path: Path,
    compression: Literal["zstd"] | None,
    is_cached: bool,
    requests: int,
) -> None:
    write_large(memory, compression)

    def scan() -> Scan:
        storage = SingleObject(ObjectStore(memory.url))
        cached = with_index_cache(storage, tmp_path) if is_cached else storage
        return replace_fetch_size(topic_of(cached).scan([0]), 5 * _MIB)

    topic_of(scan().storage).scan([0], 100)  # asks for the index
    explained = scan().explain()
    assert explained.is_exact
    assert explained.reading.by_verb == {"get_range": requests}
    assert read(scan()).requests == explained.reading


def replace_fetch_size(scan: Scan, size: int) -> Scan:
    """Return the same scan with requests of another size."""
    return replace(scan, plan=replace(scan.plan, fetch_size=size))


def test_a_segment_that_is_read_in_two_slices_is_verified_once(
    memory: ObjectStore,
) -> None:
    push_all(
        tieredfs.open_tier(str(KAFKA / "leader-changes" / REMOTE)).storage,
        SingleObject(memory),
    )
    topic = topic_of(SingleObject(ObjectStore(memory.url)), "leader-changes")
    scan = topic.scan()
    (first, *others) = scan.plan.slices
    middle = (first.start_offset + first.end_offset) // 2
    cut = [
        replace(first, end_offset=middle),
        replace(first, start_offset=middle),
        *others,
    ]
    twice = replace(scan, plan=replace(scan.plan, partitions=(cut,)))
    explained = twice.explain()
    assert read(twice).requests == explained.reading


@pytest.mark.parametrize(("partitions", "is_exact"), [(4, True), (5, False)])
def test_turns_are_exact_while_what_is_left_of_them_is_kept(
    memory: ObjectStore,
    partitions: int,
    is_exact: bool,
) -> None:
    write_large(memory, partitions=partitions)
    scan = topic_of(SingleObject(ObjectStore(memory.url))).scan(order="fair")
    explained = scan.explain()
    assert explained.is_exact == is_exact
    stats = read(scan)
    assert stats.requests <= explained.reading
    assert (stats.requests == explained.reading) or not is_exact


def test_a_last_request_that_may_be_spared_makes_it_at_most(
    tmp_path: Path, memory: ObjectStore
) -> None:
    topic = pushed(tmp_path, memory, [1000] * 1500)
    (part,) = topic.scan([0], 0, 1201).plan.slices
    spared = 0
    for cut in range(1, 9000, 500):
        scan = replace_fetch_size(topic.scan([0], 0, 1201), part.end_position - cut)
        explained = scan.explain()
        stats = read(scan)
        assert stats.requests <= explained.reading
        assert stats.requests == explained.reading or not explained.is_exact
        spared += stats.requests != explained.reading
    assert spared


def test_batches_larger_than_requests_take_no_byte_more_than_the_most(
    tmp_path: Path, memory: ObjectStore
) -> None:
    topic = pushed(tmp_path, memory, [30_000, 200_000] * 10)
    larger = 0
    for end in range(1, 20):
        for size in (1000, 50_000, 70_000):
            scan = replace_fetch_size(topic.scan([0], 0, end), size)
            explained = scan.explain()
            stats = read(scan)
            assert stats.requests <= explained.reading
            larger += stats.requests.size > scan.plan.size
    assert larger


def test_requests_that_were_repeated_are_counted_apart() -> None:
    store, connection = Place("repeated").open()
    write_large(store, partitions=2)
    scan = topic_of(SingleObject(store)).scan()
    explained = scan.explain()
    connection.expect(Fault(1, Trouble.LOST_REQUEST), lambda: None)
    stats = read(scan)
    assert connection.has_failed
    assert stats.retries == 1
    assert stats.planned == explained
    assert stats.requests.requests == explained.reading.requests + 1


def test_an_observer_of_the_store_sees_the_requests_of_a_scan(
    memory: ObjectStore,
) -> None:
    write_large(memory)
    counter = tieredfs.RequestCounter()
    topic = topic_of(SingleObject(ObjectStore(memory.url, observer=counter)))
    scan = topic.scan()
    before = counter.requests
    stats = read(scan)
    assert counter.requests - before == stats.requests.requests


class TestCounts:
    """``RequestCounts``."""

    ONE = RequestCounts.of({"get": 2, "list": 1}, 2_000_000)

    def test_a_time_is_the_latency_of_each_and_the_bytes_over_the_bandwidth(
        self,
    ) -> None:
        assert self.ONE.seconds(0.1, 1e6) == pytest.approx(2.3)

    @pytest.mark.parametrize(
        ("wrong", "name"),
        [
            ((-1, 1), "latency"),
            ((float("nan"), 1), "latency"),
            ((float("inf"), 1), "latency"),
            ((0, 0), "bytes_per_second"),
            ((0, float("nan")), "bytes_per_second"),
        ],
    )
    def test_a_speed_that_is_none_is_refused(
        self, wrong: tuple[float, float], name: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=name):
            self.ONE.seconds(*wrong)

    def test_are_compared_verb_by_verb(self) -> None:
        assert self.ONE <= self.ONE
        assert RequestCounts.of({"get": 2, "list": 2}, 2_000_000) >= self.ONE
        assert not RequestCounts.of({"get": 9}, 2_000_000) >= self.ONE
        assert not RequestCounts.of({"get": 2, "list": 1}, 1) >= self.ONE

    def test_leave_out_verbs_without_a_request(self) -> None:
        assert RequestCounts.of({"get": 0}, 0) == RequestCounts()
        assert (RequestCounts() + self.ONE) * 2 == self.ONE + self.ONE


class TestDistant:
    """A topic of two partitions, each in a segment of 14 MB, on a server."""

    @pytest.mark.parametrize("compression", [None, "zstd"])
    @pytest.mark.parametrize("order", ["partition", "fair"])
    def test_the_first_request_is_small_and_is_planned(
        self,
        s3_bucket: Bucket,
        compression: Literal["zstd"] | None,
        order: Literal["partition", "fair"],
    ) -> None:
        store = open_store(s3_bucket)
        write_large(store, compression, partitions=2)
        scan = topic_of(SingleObject(store, compression=compression)).scan(order=order)
        explained = scan.explain()
        assert explained.is_exact
        found = list(scan)
        stats = scan.stats
        assert stats.requests == explained.reading
        assert stats.retries == 0
        assert sum(records.num_rows for records in found) == 2 * 280
        if order == "partition" and compression is None:
            assert found[0].num_rows < 20  # of an Arrow batch of several MiB
            assert stats.requests.requests == 2 * (5 + 1)  # and the indexes
