"""What the native layout costs, counted by the store and before a real S3 server."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import s3fs

from servers import Bucket, FaultProxy, ProxiedBucket, SeaweedS3
from support.segments import empty_snapshot, records
from support.wire import encode_batch
from tieredfs import (
    IndexType,
    LogSegmentData,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    RequestPolicy,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TieredFSError,
    TopicIdPartition,
    Uuid,
    open_storage,
)
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.native_keys import NativeKeys

PARTITION = TopicIdPartition("t", 0, Uuid("dao62lTOQsGBPyjJLrpQKw"))
KEYS = NativeKeys()
MANY = 2500
"""Segments on the server: two and a half pages."""

REAL = (0, 1234, MANY - 1)
"""Those that are more than a name."""

INDEXES = {
    IndexType.OFFSET: b"",
    IndexType.TIMESTAMP: b"",
    IndexType.PRODUCER_SNAPSHOT: empty_snapshot(),
    IndexType.LEADER_EPOCH: b"0\n1\n0 0\n",
    IndexType.TRANSACTION: b"",
}


def segment_of(number: int, partition: TopicIdPartition = PARTITION) -> SegmentMetadata:
    """Say of the segment of ten offsets that it is the so manyth."""
    made = SegmentId.from_bytes((number + 1).to_bytes(16, "big"))
    return SegmentMetadata(partition, made, number * 10, number * 10 + 9)


def log_of(number: int) -> bytes:
    """Make its log, of ten batches."""
    first = number * 10
    return b"".join(encode_batch(records(first + n, 1)) for n in range(10))


def name_of(number: int, size: int) -> str:
    """Name an object that has nothing but the right size."""
    segment = segment_of(number)
    key = SegmentKey(
        number * 10 + 9, number * 10, 1, 0, size - 9, 9, SegmentFlag(0), segment.id
    )
    return KEYS.object_key(PARTITION, KEYS.stem(key))


def copy_real(storage: RemoteStorageManager, number: int) -> SegmentMetadata:
    segment = segment_of(number)
    data = LogSegmentData(log_of(number), INDEXES)
    return replace(segment, custom_metadata=storage.copy_log_segment(segment, data))


@dataclass
class Watched:
    """A storage that nobody has used, and what counts its requests."""

    storage: RemoteStorageManager
    counter: RequestCounter
    proxy: FaultProxy

    def spent(self) -> list[str]:
        """Return the requests since the last time, which both count alike."""
        seen = [f"{r.method} {_kind(r.target)}" for r in self.proxy.requests()]
        assert len(seen) == self.counter.requests - self._before, seen
        self.proxy.clear()
        self._before = self.counter.requests
        return seen

    _before: int = 0


def _kind(target: str) -> str:
    return "LIST" if "list-type=2" in target else "object"


def watch(place: Bucket | ProxiedBucket, proxy: FaultProxy) -> Watched:
    options = dict(place.storage_options, endpoint_url=proxy.url)
    counter = RequestCounter()
    policy = RequestPolicy(attempts=1)
    store = ObjectStore(place.url, options, observer=counter, policy=policy)
    proxy.clear()
    return Watched(open_storage(store, "single-object"), counter, proxy)


@pytest.fixture(scope="module")
def large(s3_server: SeaweedS3) -> Iterator[Bucket]:
    """A partition of many segments on a real server; made once, for it takes long."""
    options = s3_server.storage_options()
    filesystem = s3fs.S3FileSystem(skip_instance_cache=True, **options)
    bucket = f"large{os.getpid()}"
    filesystem.mkdir(bucket)
    place = Bucket(f"s3://{bucket}/root", options)
    names = (name_of(number, 30) for number in range(MANY) if number not in REAL)
    filesystem.pipe(
        {f"{bucket}/root/{name}": bytes(30) for name in names}, batch_size=32
    )
    storage = open_storage(ObjectStore(place.url, options), "single-object")
    for number in REAL:
        copy_real(storage, number)
    yield place
    filesystem.invalidate_cache()
    filesystem.rm(bucket, recursive=True)


@pytest.fixture
def watched(large: Bucket, s3_server: SeaweedS3) -> Iterator[Watched]:
    """A storage of that partition, behind a proxy."""
    with FaultProxy(s3_server.port) as proxy:
        yield watch(large, proxy)


@pytest.fixture
def empty(s3_proxied: ProxiedBucket) -> Watched:
    """A storage of nothing yet, behind a proxy."""
    return watch(s3_proxied, s3_proxied.proxy)


class TestOneSegment:
    @pytest.mark.parametrize("compression", [None, "zstd"])
    def test_a_copy_is_one_put(
        self, s3_proxied: ProxiedBucket, compression: str | None
    ) -> None:
        empty = watch(s3_proxied, s3_proxied.proxy)
        options = {"compression": compression}
        storage = open_storage(empty.storage.store, "single-object", options)
        copy_real(storage, 0)
        assert empty.spent() == ["PUT object"]

    def test_a_second_copy_is_no_put(self, empty: Watched) -> None:
        first = copy_real(empty.storage, 0)
        empty.spent()
        assert copy_real(empty.storage, 0) == first
        assert empty.spent() == ["HEAD object"]

    def test_all_indexes_of_a_cold_segment_are_one_request(
        self, empty: Watched, s3_proxied: ProxiedBucket
    ) -> None:
        segment = copy_real(empty.storage, 0)
        cold = watch(s3_proxied, s3_proxied.proxy)
        assert dict(cold.storage.fetch_all_indexes(segment)) == INDEXES
        assert cold.spent() == ["GET object"]
        cold.storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
        assert cold.spent() == ["GET object"]

    def test_a_whole_log_is_one_request_and_a_part_is_one_when_its_manifest_is_known(
        self, empty: Watched, s3_proxied: ProxiedBucket
    ) -> None:
        segment = copy_real(empty.storage, 0)
        layout = empty.storage.fetch_all_indexes(segment).layout
        whole = log_of(0)
        for start, end, known, requests in (
            (0, len(whole), b"", 1),
            (50, len(whole), b"", 1),
            (50, 90, layout, 1),
            (50, 90, b"", 2),
        ):
            cold = watch(s3_proxied, s3_proxied.proxy)
            found = cold.storage.fetch_log_segment(segment, start, end, layout=known)
            assert found == whole[start:end]
            assert cold.spent() == ["GET object"] * requests
            assert cold.storage.fetch_log_segment(segment, 9, 80) == whole[9:80]
            assert cold.spent() == ["GET object"]

    def test_a_delete_lists_the_segment_and_what_appends_left_of_it(
        self, empty: Watched
    ) -> None:
        copy_real(empty.storage, 0)
        (listed,) = empty.storage.list_segments(PARTITION)
        empty.spent()
        empty.storage.delete_log_segment(listed)
        assert empty.spent() == ["GET LIST", "GET LIST", "DELETE object"]

    def test_a_put_that_fails_leaves_nothing(self, s3_proxied: ProxiedBucket) -> None:
        once = watch(s3_proxied, s3_proxied.proxy)
        s3_proxied.proxy.add("PUT", cut_before=True, times=1)
        with pytest.raises(StorageUnavailableError):
            copy_real(once.storage, 0)
        s3_proxied.proxy.clear()
        fresh = watch(s3_proxied, s3_proxied.proxy).storage
        assert fresh.list_partitions() == []
        segment = copy_real(once.storage, 0)
        assert len(fresh.list_segments(PARTITION)) == 1
        assert fresh.fetch_log_segment(segment) == log_of(0)

    def test_a_put_whose_reply_is_lost_is_done(self, s3_proxied: ProxiedBucket) -> None:
        once = watch(s3_proxied, s3_proxied.proxy)
        s3_proxied.proxy.add("PUT", lose_reply=True, times=1)
        segment = copy_real(once.storage, 0)
        fresh = watch(s3_proxied, s3_proxied.proxy).storage
        assert len(fresh.list_segments(PARTITION)) == 1
        assert fresh.fetch_log_segment(segment) == log_of(0)


@pytest.mark.xdist_group("large listing")  # so that it is made once
class TestManySegments:
    def test_a_listing_takes_a_request_for_each_thousand(
        self, watched: Watched
    ) -> None:
        found = watched.storage.list_segments(PARTITION)
        assert [s.start_offset for s in found] == [n * 10 for n in range(MANY)]
        assert watched.spent() == ["GET LIST"] * 3
        assert len(watched.storage.list_segments(PARTITION, 10 * (MANY - 1000))) == 1000
        assert watched.spent() == ["GET LIST"]

    @pytest.mark.parametrize(
        "offset", [0, 1, 9, 10, 9_989, 9_990, 9_999, 10_000, 10 * MANY - 1]
    )
    def test_a_seek_is_one_request(self, watched: Watched, offset: int) -> None:
        first = watched.storage.seek(PARTITION, offset)[0]
        assert watched.spent() == ["GET LIST"]
        assert first.start_offset == offset // 10 * 10

    @pytest.mark.parametrize("number", REAL)
    @pytest.mark.parametrize("within", [0, 7])
    def test_reading_from_an_offset_on_is_one_listing_and_two_gets(
        self, watched: Watched, number: int, within: int
    ) -> None:
        """Once it has been seen, by listing all, that nothing overlaps."""
        topic = Tier(watched.storage).topic("t")
        watched.spent()
        offset = number * 10 + within
        topic.read(0, offset, max_bytes=200)
        assert watched.spent().count("GET LIST") == -(-MANY // 1000)
        found = topic.read(0, offset, max_bytes=200)
        assert found["offset"][0].as_py() == offset
        assert found["value"][0].as_py() == f"v{offset}".encode()
        spent = watched.spent()
        assert spent[0] == "GET LIST"
        assert spent[1:] in (["GET object"], ["GET object"] * 2)


def test_a_topic_of_ten_thousand_segments_is_sought_with_one_listing(
    tmp_path: Path,
) -> None:
    """A local disk: its listing has pages of a thousand too, and is quickly filled."""
    store = ObjectStore(str(tmp_path))
    writer = open_storage(store, "single-object")
    copy_real(writer, 6_543)
    for number in range(10_000):
        if number != 6_543:
            with (tmp_path / name_of(number, 5_000)).open("wb") as file:
                file.truncate(5_000)
    counter = RequestCounter()
    storage = open_storage(
        ObjectStore(str(tmp_path), observer=counter), "single-object"
    )
    assert len(storage.list_segments(PARTITION)) == 10_000
    assert counter.by_verb() == {"list": 10}
    for offset in (0, 65_434, 99_999):
        before = counter.requests
        assert storage.seek(PARTITION, offset)[0].start_offset == offset // 10 * 10
        assert counter.requests == before + 1
    topic = Tier(storage).topic("t")
    topic.read(0, 65_434, max_bytes=200)
    before = counter.by_verb()["list"]
    found = topic.read(0, 65_434, max_bytes=200)
    assert found["offset"].to_pylist() == [65_434, 65_435]
    assert counter.by_verb()["list"] == before + 1


def test_what_overlaps_the_end_of_a_page_is_not_left_unseen(tmp_path: Path) -> None:
    """The page ends between two segments that hold the same offsets."""
    store = ObjectStore(str(tmp_path))
    storage = open_storage(store, "single-object")
    copy_real(storage, 0)
    for number in range(1, 1_000):
        (tmp_path / name_of(number, 100)).write_bytes(bytes(100))
    behind = SegmentKey(10_500, 9_980, 1, 1, 50, 50, SegmentFlag(0), segment_of(9).id)
    path = tmp_path / KEYS.object_key(PARTITION, KEYS.stem(behind))
    path.write_bytes(bytes(100))
    for offset in range(0, 10_000, 370):
        found = storage.seek(PARTITION, offset)
        assert found[0].start_offset <= offset
        seen = behind.end_offset in {s.end_offset for s in found}
        assert seen or all((s.end_offset or 0) < 9_980 for s in found)
    with pytest.raises(TieredFSError):
        Tier(storage).topic("t").read(0, 9_985, 100)
