"""Topics of before Kafka 2.8 have no ids: their segments are still no other topic's."""

from pathlib import Path

import pytest

from servers import Bucket
from support.log_directories import (
    log_of,
    native,
    partition_of,
    push_all,
    source_of,
    write_log,
)
from support.stores import files_of
from tieredfs import ObjectStore, RemoteStorageManager, Tier, TopicIdPartition
from tieredfs.cache import with_index_cache
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage.segment_log.content_id import ContentId

TOPICS = ("orders", "payments")
"""Of one log, so that nothing but the name tells their segments apart."""


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """The log directory of an old broker."""
    root = tmp_path / "broker"
    for topic in TOPICS:
        logs = {0: log_of(0, 600), 600: log_of(600), 610: b""}
        folder = write_log(root, logs, partition=f"{topic}-0")
        (folder / "partition.metadata").unlink()
    return root


def ids_of(storage: RemoteStorageManager) -> set[tuple[str, int]]:
    partitions = storage.list_partitions()
    assert partitions == [TopicIdPartition(topic, 0) for topic in TOPICS]
    listed = [one for each in partitions for one in storage.list_segments(each)]
    return {(one.id, one.start_offset) for one in listed}


def values(tier: Tier, topic: str, offset: int) -> list[int]:
    found = tier.topic(topic).read(0, offset, max_bytes=1)
    offsets: list[int] = found["offset"].to_pylist()
    return offsets


def test_no_two_segments_have_one_id_and_all_are_read_pushed_verified_and_pulled(
    logdir: Path, tmp_path: Path
) -> None:
    source = source_of(logdir)
    assert len(ids_of(source)) == 6
    archive = native(Bucket(str(tmp_path / "archive"), {}))
    assert push_all(source, archive).count(PushOutcome.COPIED) == 4
    assert push_all(source, archive).count(PushOutcome.PRESENT) == 4
    assert len(ids_of(archive)) == 4
    for storage in (source, archive):
        kept = with_index_cache(storage, tmp_path / "cache")
        for tier in (Tier(kept), Tier(kept)):
            for topic in TOPICS:
                assert values(tier, topic, 303) == [303, 304]
    reports = verify(archive, archive.list_partitions(), Depth.EVERYTHING)
    assert [report.problems for report in reports] == [(), ()]
    pull(archive, ObjectStore(str(tmp_path / "back")), archive.list_partitions())
    back = files_of(tmp_path / "back")
    for key, content in files_of(logdir).items():
        if key.endswith(".log") and content:
            assert back[key] == content


def test_a_topic_s_name_counts_only_where_its_id_is_not_known() -> None:
    known = partition_of()
    renamed = TopicIdPartition("renamed", known.partition, known.topic_id)
    assert ContentId(known, 7).finish() == ContentId(renamed, 7).finish()
    unknown = [TopicIdPartition(t, 0) for t in TOPICS]
    assert len({ContentId(one, 7).finish() for one in unknown}) == 2
