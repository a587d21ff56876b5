"""A write that was given up, repeated, and done by the server long afterwards."""

import pytest

from servers import Hold, ProxiedBucket
from support.log_directories import ID
from tieredfs import ObjectStore, RequestPolicy, TopicIdPartition
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import sample

PARTITION = TopicIdPartition("t", 0, ID)
QUICK = RequestPolicy(deadline=2.5, backoff=0.001)


@pytest.fixture
def store(s3_proxied: ProxiedBucket) -> ObjectStore:
    """A store that has found out what it can, and gives an attempt a second."""
    store = ObjectStore(s3_proxied.url, s3_proxied.storage_options, policy=QUICK)
    assert store.probe_capabilities()
    return store


@pytest.mark.parametrize("step", ["aside", "claims", "copy"])
def test_an_appended_segment_that_was_deleted_does_not_come_back(
    s3_proxied: ProxiedBucket, store: ObjectStore, step: str
) -> None:
    hold = Hold()
    path = r"\.segment" if step == "copy" else f"/{step}/"
    held = s3_proxied.proxy.add("PUT", path, hold=hold, times=1)
    one, other = sample(PARTITION, 0), sample(PARTITION, 0, "other")
    storage = SingleObject(store)
    storage.append_log_segment(one.metadata, one.data)
    assert held.hits == 1
    (listed,) = storage.list_segments(PARTITION)
    storage.delete_log_segment(listed)
    hold.land()
    assert list(store.list("t/")) == []
    SingleObject(store).append_log_segment(other.metadata, other.data)
    (listed,) = SingleObject(store).list_segments(PARTITION)
    assert listed.id == other.metadata.id
