"""A topic that was deleted, on a server that goes on listing its empty folders."""

import warnings

import pyarrow as pa
import pytest

from servers import Bucket
from support.stores import open_store
from tieredfs import NotFoundError, Tier, open_tier
from tieredfs.log.partitions import select_partitions, without_deleted
from tieredfs.model import TopicIdPartition, Uuid
from tieredfs.storage.layouts.single_object.layout import SingleObject

_DELETED = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.fixture
def tier(s3_bucket: Bucket) -> Tier:
    """A tier in which a topic of two partitions, t, was deleted."""
    found = Tier(SingleObject(open_store(s3_bucket)))
    topic = found.create_topic("t", partitions=2, topic_id=_DELETED)
    for partition in (0, 1):
        topic.append(_values("deleted"), partition=partition)
    found.delete_topic("t")
    # Otherwise these tests would show nothing.
    assert {one.topic_id for one in found.storage.list_partitions("t")} == {_DELETED}
    return found


def _values(*texts: str) -> pa.Table:
    return pa.table({"value": pa.array([text.encode() for text in texts], pa.binary())})


def _read(tier: Tier) -> list[bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that there are several of the name
        topic = tier.topic("t")
    found: list[bytes] = topic.scan(columns=["value"]).to_table()["value"].to_pylist()
    return found


def test_a_topic_of_its_name_can_be_created_read_and_deleted(
    tier: Tier, s3_bucket: Bucket
) -> None:
    tier.create_topic("t").append(_values("new"))
    again = open_tier(s3_bucket.url, storage_options=s3_bucket.storage_options)
    assert _read(again) == [b"new"]
    (partition,) = select_partitions(again.storage, ["t"])
    assert partition.topic_id != _DELETED
    assert select_partitions(again.storage) == [partition]
    again.delete_topic("t")
    with pytest.raises(NotFoundError, match="'t'"):
        tier.topic("t", topic_id=str(partition.topic_id))


def test_two_deleted_topics_of_a_name_are_not_found(tier: Tier) -> None:
    tier.create_topic("t").append(_values("new"))
    tier.delete_topic("t")
    assert len({one.topic_id for one in tier.storage.list_partitions("t")}) == 2
    with pytest.raises(NotFoundError, match="'t'"):
        tier.topic("t")
    with pytest.raises(NotFoundError, match="'t'"):
        tier.delete_topic("t")


def test_a_partition_without_segments_stays_with_the_others_of_its_topic(
    tier: Tier,
) -> None:
    topic = tier.create_topic("t", partitions=2)
    topic.append(_values("new"), partition=1)
    partitions = [
        TopicIdPartition("t", number, topic_id)
        for topic_id in (_DELETED, Uuid(topic.topic_id))
        for number in (0, 1)
    ]
    assert without_deleted(tier.storage, partitions) == partitions[2:]
