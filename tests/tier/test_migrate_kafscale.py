"""Tiers of Kafka's are moved to KafScale's layout and back."""

from dataclasses import replace

import pyarrow as pa
import pytest

from support.kafka_data import KAFKA, REMOTE
from support.kafscale import kafscale
from tieredfs import (
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    Tier,
)
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.push.outcome import PushOutcome, PushReport
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

TOPICS = sorted(place.parent.name for place in KAFKA.glob(f"*/{REMOTE}"))


def move(source: RemoteStorageManager, target: RemoteStorageManager) -> PushReport:
    return migrate(source, target, source.list_partitions())


def logs(storage: RemoteStorageManager) -> dict[tuple[str, int], bytes]:
    found = {}
    for partition in storage.list_partitions():
        for segment in storage.list_segments(partition):
            log = bytes(storage.fetch_log_segment(segment))
            found[str(partition), segment.start_offset] = log
    return found


def records(storage: RemoteStorageManager, topic: str, *, committed: bool) -> pa.Table:
    isolation = "read_committed" if committed else "read_uncommitted"
    try:
        found = Tier(storage).topic(topic)
    except NotFoundError:
        return None
    return found.scan(isolation=isolation, on_gap="skip").to_table()  # type: ignore[arg-type] # one of both


@pytest.mark.parametrize("topic", TOPICS)
def test_a_brokers_tier_has_the_same_logs_and_records_there_and_back(
    topic: str, memory: ObjectStore
) -> None:
    source = KafkaLocal(ObjectStore(str(KAFKA / topic / REMOTE)))
    there = kafscale(ObjectStore(f"{memory.url}/there"))
    back = SingleObject(ObjectStore(f"{memory.url}/back"))
    for report in (move(source, there), move(there, back)):
        assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}
        assert report.partitions == ()
    for target in (there, back):
        assert logs(target) == logs(source)
        for committed in (False, True):
            found = records(target, topic, committed=committed)
            assert found == records(source, topic, committed=committed)


def test_a_migration_that_is_repeated_neither_reads_nor_changes_anything(
    memory: ObjectStore,
) -> None:
    source = KafkaLocal(ObjectStore(str(KAFKA / "txn" / REMOTE)))
    store = ObjectStore(f"{memory.url}/there")
    move(source, kafscale(store))
    before = {entry.key: entry.version for entry in store.list()}
    counter = RequestCounter()
    report = move(source.with_observer(counter), kafscale(store))
    assert {one.outcome for one in report.segments} == {PushOutcome.PRESENT}
    assert set(counter.counts.by_verb) == {"list"}
    assert {entry.key: entry.version for entry in store.list()} == before


def test_of_uploads_that_begin_at_one_offset_the_longest_is_kept(
    memory: ObjectStore,
) -> None:
    segments = [sample(PARTITIONS[0], 0), sample(PARTITIONS[0], 0, "short")]
    source = SingleObject(ObjectStore(f"{memory.url}/source"))
    short, whole = segments[1], segments[0]
    batch = len(whole.log) // 4
    end = 4  # of the first of four batches of five records
    cut = replace(short.metadata, end_offset=end, size=None)
    source.copy_log_segment(cut, LogSegmentData(whole.log[:batch], {}))
    source.copy_log_segment(whole.metadata, whole.data)
    there = kafscale(ObjectStore(f"{memory.url}/there"))
    report = move(source, there)
    failed = [one for one in report.segments if one.outcome is PushOutcome.FAILED]
    assert [one.segment.end_offset for one in failed] == [end]
    assert "another segment begins there" in str(failed[0].error)
    (kept,) = there.list_segments(there.list_partitions()[0])
    assert there.fetch_log_segment(kept) == whole.log
