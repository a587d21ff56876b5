"""A process forks while a thread of it writes: the child does not wait for that thread.

Only the thread that forks lives on in the child, and no other one lets go of a lock.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from typing_extensions import override

from objects.forking import forked
from servers import Bucket
from support.log_directories import topic_of
from tier.large_logs import write_large
from tieredfs import ObjectInfo, ObjectStore, Tier
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

RECORDS = pa.table({"value": [b"one"]})


class SlowStore(ObjectStore):
    """A disk that is slow to list, for all threads but the one that forks."""

    def __init__(self, url: str) -> None:
        """Describe it; no thread lists yet."""
        super().__init__(url)
        self.listing, self.go_on = threading.Event(), threading.Event()

    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        if threading.current_thread() is not threading.main_thread():
            self.listing.set()
            assert self.go_on.wait(90)
        yield from super().list(prefix, start_after=start_after, delimiter=delimiter)


@contextmanager
def writing(store: SlowStore) -> Iterator[ThreadPoolExecutor]:
    """Have a thread for writing, which goes on when the block ends."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool
        finally:
            store.go_on.set()


def copy_one(store: ObjectStore) -> bytes:
    """Write a segment, and return what its topic is called."""
    one = sample(PARTITIONS[0], 0)
    SingleObject(store).copy_log_segment(one.metadata, one.data)
    return one.metadata.partition.topic.encode()


def test_a_child_writes_a_segment_while_a_thread_of_its_parent_begins_a_topic(
    tmp_path: Path,
) -> None:
    store = SlowStore(str(tmp_path / "parent"))
    with writing(store) as pool:
        slow = pool.submit(copy_one, store)
        assert store.listing.wait(30)
        copied = forked(lambda: copy_one(ObjectStore(str(tmp_path / "child"))))
        store.go_on.set()
        assert copied == slow.result(30)


def test_a_child_reads_on_where_its_parent_has_begun(s3_bucket: Bucket) -> None:
    write_large(ObjectStore(s3_bucket.url, s3_bucket.storage_options))
    store = ObjectStore(s3_bucket.url, s3_bucket.storage_options)
    batches = iter(topic_of(SingleObject(store)).scan())
    begun = next(batches).num_rows
    rest = forked(lambda: str(sum(one.num_rows for one in batches)).encode())
    assert begun + int(rest) == 280
    assert begun + sum(one.num_rows for one in batches) == 280


def test_a_child_appends_to_a_partition_while_a_thread_of_its_parent_does(
    tmp_path: Path,
) -> None:
    store = SlowStore(str(tmp_path))
    topic = Tier(SingleObject(store)).create_topic("orders")
    with writing(store) as pool:
        slow = pool.submit(topic.append, RECORDS)
        assert store.listing.wait(30)
        assert forked(lambda: repr(topic.append(RECORDS)).encode()) == b"range(0, 1)"
        store.go_on.set()
        assert slow.result(30) == range(1, 2)
