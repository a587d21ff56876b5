"""What has expired does not come back with the segments of another replica.

Replicas roll their segments at offsets of their own, so a segment may begin among the
offsets that have expired in the tier, and end among those that it has.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_directories import log_of, outcomes, push_all, source_of, write_log
from tieredfs import IndexType, ObjectStore, Tier
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.push.outcome import PushOutcome
from tieredfs.log.retention.expire import expire
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.kafka_files import CLEANER_CHECKPOINT
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import scratch_store

LOG_START = 20
CUTS = st.sets(st.integers(1, 39), min_size=2).map(lambda cuts: [0, *sorted(cuts)])
"""Where a replica's segments begin; the last one is the active."""


@pytest.fixture
def tier(tmp_path: Path, memory: ObjectStore) -> SingleObject:
    """A tier of offsets 20 to 29; those before have expired."""
    target = SingleObject(memory)
    push_all(replica(tmp_path / "first", [0, 10, 20, 30]), target)
    (partition,) = target.list_partitions()
    (expired,) = expire(
        target, [partition], Retention(start_offset=LOG_START), owner="test"
    )
    assert (expired.log_start, first_offset(target)) == (LOG_START, LOG_START)
    return target


def replica(
    root: Path,
    starts: Sequence[int],
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    cleaned: Collection[int] = (),
) -> KafkaLog:
    """Write the log of a replica, in batches of one record.

    Its last segment, of ten records, is the active one.

    Args:
        root: The log directory.
        starts: Where its segments begin.
        epochs: The entries of its checkpoint.
        cleaned: Offsets that a cleaner has removed.
    """
    ends = [*starts[1:], starts[-1] + 10]
    logs = {
        start: b"".join(
            log_of(offset, 1, epoch=epochs[-1][0] if epochs else 0)
            for offset in range(start, end)
            if offset not in cleaned
        )
        for start, end in zip(starts, ends, strict=True)
    }
    write_log(root, logs, epochs=epochs)
    if cleaned:
        (root / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 35\n")
    return source_of(root)


def first_offset(storage: SingleObject) -> int:
    (first,) = Tier(storage).topic("t").beginning_offsets().values()
    return first


def offsets(storage: SingleObject) -> list[int]:
    found: list[int] = Tier(storage).topic("t").scan().to_table()["offset"].to_pylist()
    return found


def test_a_segment_whose_rest_is_stored_is_not_pushed(
    tier: SingleObject, tmp_path: Path
) -> None:
    other = replica(tmp_path / "other", [0, 10, 25, 35])
    for outcome in (PushOutcome.COPIED, PushOutcome.PRESENT):
        report = push_all(other, tier)
        assert outcomes(report) == [(10, PushOutcome.PRESENT), (25, outcome)]
        assert offsets(tier) == list(range(LOG_START, 35))


def test_a_segment_whose_rest_is_not_stored_is_pushed_whole(
    tier: SingleObject, tmp_path: Path
) -> None:
    report = push_all(replica(tmp_path / "other", [0, 10, 31, 35]), tier)
    assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}
    assert offsets(tier) == list(range(10, 35))


def test_a_segment_that_another_leader_has_written_is_pushed_whole(
    tier: SingleObject, tmp_path: Path
) -> None:
    other = replica(tmp_path / "other", [0, 10, 25, 35], [(0, 0), (1, 5)])
    report = push_all(other, tier)
    assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}


def test_a_segment_that_a_cleaner_may_have_changed_is_pushed_whole(
    tier: SingleObject, tmp_path: Path
) -> None:
    other = replica(tmp_path / "other", [0, 10, 25, 35], cleaned=[12])
    report = push_all(other, tier)
    assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}


def test_a_segment_without_known_epochs_is_pushed_whole(
    tier: SingleObject, tmp_path: Path
) -> None:
    report = push_all(replica(tmp_path / "other", [0, 10, 25, 35], []), tier)
    assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}


def test_the_segment_after_it_knows_the_producers_before_it(
    tier: SingleObject, tmp_path: Path
) -> None:
    other = replica(tmp_path / "other", [0, 10, 25, 35])
    producer = ProducerState(7, 1, 4, 9, 4, 5, 2, -1)
    snapshot = ProducerSnapshot((producer,)).encode()
    (tmp_path / "other" / "t-0" / f"{25:020d}.snapshot").write_bytes(snapshot)
    push_all(other, tier)
    last = Tier(tier).topic("t").reader(0).segments()[-1]
    kept = tier.fetch_index(last, IndexType.PRODUCER_SNAPSHOT)
    assert ProducerSnapshot.parse(kept).producers == (producer,)


@pytest.mark.parametrize(
    ("starts", "first"),
    [([0, 10, 25, 35], LOG_START), ([0, 10, 31, 35], 10)],
    ids=["rest stored", "rest missing"],
)
def test_migrate_leaves_it_out_as_well(
    tier: SingleObject,
    tmp_path: Path,
    starts: list[int],
    first: int,
) -> None:
    source = SingleObject(ObjectStore(str(tmp_path / "source")))
    push_all(replica(tmp_path / "other", starts), source)
    for _ in range(2):
        report = migrate(source, tier, source.list_partitions())
        assert not report.errors
        assert offsets(tier) == list(range(first, 35))


def test_migrate_copies_it_whole_if_a_cleaner_has_changed_it(
    tier: SingleObject, tmp_path: Path
) -> None:
    source = SingleObject(ObjectStore(str(tmp_path / "source")))
    push_all(replica(tmp_path / "other", [0, 10, 25, 35], cleaned=[12]), source)
    report = migrate(source, tier, source.list_partitions())
    assert [one.segment.start_offset for one in report.segments] == [10, 25]
    assert first_offset(tier) == 10


@given(first=CUTS, second=CUTS, chosen=st.integers(0, 99))
def test_wherever_replicas_roll_what_expired_stays_away_if_its_rest_is_stored(
    first: list[int], second: list[int], chosen: int
) -> None:
    with TemporaryDirectory() as folder, scratch_store() as store:
        target = SingleObject(store)
        push_all(replica(Path(folder, "first"), first), target)
        log_start = first[1 + chosen % (len(first) - 2)]
        (partition,) = target.list_partitions()
        expire(target, [partition], Retention(start_offset=log_start), owner="test")
        push_all(replica(Path(folder, "second"), second), target)
        whole = [
            begin
            for begin, end in pairwise(second)
            if begin < log_start < end and end > first[-1]
        ]
        begin, end = min([log_start, *whole]), max(first[-1], second[-1])
        assert offsets(target) == list(range(begin, end))
