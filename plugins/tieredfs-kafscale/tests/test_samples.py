"""What a broker of KafScale has written is read as a consumer reads it."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pyarrow as pa
import pytest

from support.samples import CASES, PARTITIONS, expected, opened, read, rows
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    CorruptObjectError,
    IndexType,
    ObjectStore,
    RequestCounter,
    Tier,
    TopicIdPartition,
)
from tieredfs.storage import inspect_copy, log_in_memory
from tieredfs_kafscale import KafScale

REBUILT = {"deleted-middle-index": range(4, 8), "orphan-middle-kfs": range(12, 17)}
"""Offsets whose index is missing before a later segment: KafScale's broker does not
open such a partition, or has a gap there."""


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_every_record_is_the_one_that_a_consumer_got(
    partition: TopicIdPartition,
) -> None:
    found = rows(read(opened(), partition))
    besides = REBUILT.get(partition.topic, ())
    assert [row for row in found if row["offset"] not in besides] == expected(partition)
    assert {row["offset"] for row in found}.issuperset(besides)


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_a_read_from_any_offset_gives_the_rest(partition: TopicIdPartition) -> None:
    storage = opened()
    topic = Tier(storage).topic(partition.topic)
    offsets = read(storage, partition)["offset"].to_pylist()
    for start in offsets[:: max(len(offsets) // 20, 1)]:
        scan = topic.scan([partition.partition], start=start, on_gap="skip")
        found = scan.to_table()["offset"].to_pylist()
        assert found == [offset for offset in offsets if offset >= start]


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_indexes_are_those_of_the_log(partition: TopicIdPartition) -> None:
    storage = opened()
    for segment in storage.list_segments(partition):
        described = storage.describe(segment)
        assert described.is_described
        log = storage.fetch_log_segment(segment)
        assert b"".join(storage.stream_log(segment)) == log
        source = log_in_memory(log, str(segment))
        indexes = storage.fetch_all_indexes(segment)
        found = inspect_copy(source, lambda _: None, described, indexes)
        assert found.last_offset == described.end_offset
        assert found.facts.max_timestamp_ms == described.max_timestamp_ms
        assert found.facts.epochs == described.leader_epochs
        assert IndexType.TRANSACTION not in indexes
        assert storage.is_txn_index_empty(segment)


def test_a_scan_by_time_asks_for_times_and_not_for_logs() -> None:
    store = opened().store
    counter = RequestCounter()
    storage = KafScale(store).with_observer(counter)
    topic = Tier(storage).topic("events")
    stamps = topic.scan().to_table()["timestamp"].cast(pa.int64()).to_pylist()
    middle = stamps[len(stamps) // 2]
    start = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=middle)
    found = topic.scan(start=start).to_table()["timestamp"].cast(pa.int64())
    assert min(found.to_pylist()) == middle


def test_a_footer_is_read_once() -> None:
    counter = RequestCounter()
    storage = opened().with_observer(counter)
    (partition,) = [one for one in PARTITIONS if str(one) == "index-interval-0"]
    segments = storage.list_segments(partition)
    first = counter.counts
    assert storage.list_segments(partition) == segments
    assert dict(counter.counts.verbs)["list"] == 2
    assert dict(counter.counts.verbs)["get_range"] == dict(first.verbs)["get_range"]


def test_a_storage_can_be_pickled() -> None:
    storage = pickle.loads(pickle.dumps(opened()))  # noqa: S301 - our own
    assert storage.list_partitions() == opened().list_partitions()


def test_a_tier_is_recognised_and_foreign_objects_are_left_out() -> None:
    storage = opened()
    keys = [entry.key for entry in storage.store.list()]
    assert KafScale.recognises(keys) > 0.9
    assert not any(topic.startswith("__") for topic in Tier(storage).topics())


class TestDamaged:
    """27 stores that were damaged by hand, each a topic of three segments."""

    SERVED: ClassVar[dict[str, list[int]]] = {
        # An index is rebuilt, where a broker leaves the segment out or fails.
        "c03-index-short-tail": list(range(12)),
        "c04-index-magic-middle": list(range(12)),
        "c05-index-version-middle": list(range(12)),
        "c06-index-count-tail": list(range(12)),
        "c08-index-empty-tail": list(range(12)),
        "c22-index-position-off": list(range(12)),
        # A broker does not open the partition.
        "c10-footer-magic-tail": list(range(8)),
        # What is cut off is left out, as a segment that is missing.
        "c27-kfs-body-cut-middle": [*range(4), *range(8, 12)],
        # A broker does not look at the footer again.
        "c21-footer-last-too-small-middle": list(range(4)),
    }
    FAILS = ("c21", "c23")

    @pytest.mark.parametrize("case", CASES)
    def test_what_can_be_read_is_read_and_the_rest_is_said(self, case: str) -> None:
        topic = Tier(opened("restore-cases/store")).topic(case)
        found: list[int] = []

        def collect() -> None:
            for batch in topic.scan(on_gap="skip"):
                found.extend(batch["offset"].to_pylist())

        if case.startswith(self.FAILS):
            with pytest.raises(CorruptBatchError, match=case):
                collect()
        else:
            collect()
        answered = CASES[case]["next_offset_absent"]["offsets"]
        assert found == self.SERVED.get(case, answered)

    @pytest.mark.parametrize("case", CASES)
    def test_every_offset_is_read_alone_as_in_a_scan(self, case: str) -> None:
        topic = Tier(opened("restore-cases/store")).topic(case)
        if case.startswith(self.FAILS):
            return
        offsets = topic.scan(on_gap="skip").to_table()["offset"].to_pylist()
        for offset in offsets:
            found = topic.read(0, offset, 1)["offset"].to_pylist()
            assert found[0] == offset

    @pytest.mark.parametrize(
        "case", ["c20-footer-last-too-big-tail", "c27-kfs-body-cut-middle"]
    )
    def test_a_log_that_is_cut_is_an_error_unless_gaps_are_skipped(
        self, case: str
    ) -> None:
        topic = Tier(opened("restore-cases/store")).topic(case)
        with pytest.raises(CorruptBatchError, match=case):
            topic.scan().to_table()

    @pytest.mark.parametrize("last", [8, 11, 2**31 + 4, 2**62, 2**63 - 1])
    def test_a_footer_that_claims_too_much_hides_no_other_segment(
        self, memory: ObjectStore, last: int
    ) -> None:
        case = "c01-clean"
        source = opened("restore-cases/store").store
        for entry in source.list(f"default/{case}/"):
            memory.put(entry.key, source.get(entry.key), overwrite=True)
        key = f"default/{case}/0/segment-{4:020d}.kfs"
        data = bytearray(memory.get(key))
        data[-12:-4] = last.to_bytes(8)
        memory.put(key, bytes(data), overwrite=True)
        topic = Tier(KafScale(memory)).topic(case)
        found = topic.scan(on_gap="skip").to_table()["offset"].to_pylist()
        assert found == [*range(4), *range(8, 12)]
        with pytest.raises(CorruptDataError, match="4 to 7"):
            topic.scan().to_table()

    @pytest.mark.parametrize(
        ("case", "said"),
        [
            ("c10-footer-magic-tail", "it ends with b'XXXX'"),
            ("c11-kfs-15-bytes-tail", "15 bytes are not a segment"),
            ("c13-kfs-footer-only-tail", "16 bytes are not a segment"),
        ],
    )
    def test_a_log_without_its_footer_is_reported(self, case: str, said: str) -> None:
        storage = opened("restore-cases/store")
        found = list(storage.survey(TopicIdPartition(case, 0)))
        (error,) = [one for one in found if isinstance(one, CorruptObjectError)]
        assert said in str(error)

    @pytest.mark.parametrize(
        "case", ["c14-footer-crc-middle", "c15-header-magic-middle"]
    )
    def test_what_a_broker_does_not_check_is_found_by_reading_the_whole_log(
        self, case: str
    ) -> None:
        storage = opened("restore-cases/store")
        segment = storage.list_segments(TopicIdPartition(case, 0))[1]
        with pytest.raises(CorruptObjectError, match=case):
            list(storage.stream_log(segment))


def test_an_orphan_is_a_leftover_until_a_segment_follows_it() -> None:
    storage = opened()

    def left(topic: str) -> list[str]:
        found = storage.scrub(TopicIdPartition(topic, 0))
        return [leftover.key.rpartition("/")[2] for leftover in found]

    assert left("orphan-tail-kfs") == ["segment-00000000000000000012.kfs"]
    assert left("orphan-tail-index") == ["segment-00000000000000000012.index"]
    assert left("orphan-middle-index") == ["segment-00000000000000000012.index"]
    assert left("orphan-middle-kfs") == left("orphan-healed") == []


def test_a_namespace_is_the_first_part_of_each_key() -> None:
    store = ObjectStore(opened().store.url)
    assert KafScale(store, namespace="other").list_partitions() == []
    assert KafScale(store, namespace="default").list_partitions()
