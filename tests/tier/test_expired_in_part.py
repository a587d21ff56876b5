"""What has expired does not come back with the segments of another replica.

Replicas roll their segments at offsets of their own, so a segment may begin among the
offsets that have expired in the tier, and end among those that it has.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.log_directories import log_of, outcomes, push_all, source_of, write_log
from tieredfs import ObjectStore, Tier
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.push.outcome import PushOutcome
from tieredfs.log.retention.expire import expire
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

LOG_START = 20


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
    root: Path, starts: Sequence[int], epochs: Sequence[tuple[int, int]] = ((0, 0),)
) -> KafkaLog:
    """Write the log of a replica; its last segment, of ten records, is the active."""
    ends = [*starts[1:], starts[-1] + 10]
    logs = {
        start: log_of(start, end - start, epoch=epochs[-1][0])
        for start, end in zip(starts, ends, strict=True)
    }
    write_log(root, logs, epochs=epochs)
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
    other = replica(tmp_path / "other", [0, 10, 25, 35])
    (tmp_path / "other" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 35\n")
    report = push_all(other, tier)
    assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}


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
