"""What the cache saves before a real S3 server that is 30 ms away."""

from pathlib import Path

import fsspec.asyn
import pytest

from cache.made import bytes_of, files_in
from servers import Bucket, ProxiedBucket
from support.golden import rows_of
from support.log_directories import native, push_all, recorded, source_of
from tieredfs import SegmentMetadata, Tier, UnsupportedOperationError, open_tier
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache
from tieredfs.testing.cache_machine.damage import DAMAGE

LATENCY = 0.030


@pytest.fixture
def remote(s3_proxied: ProxiedBucket, tmp_path: Path) -> ProxiedBucket:
    """A topic with transactions, in the native layout."""
    source = source_of(recorded("txn", tmp_path / "broker"))
    push_all(source, native(place_of(s3_proxied)))
    s3_proxied.proxy.latency = LATENCY
    return s3_proxied


@pytest.fixture
def segments(remote: ProxiedBucket) -> list[SegmentMetadata]:
    """Its segments."""
    storage = native(place_of(remote))
    (partition,) = storage.list_partitions()
    return storage.list_segments(partition)


def place_of(remote: ProxiedBucket) -> Bucket:
    return Bucket(remote.url, remote.storage_options)


class Requests:
    """Counts the requests that reached the proxy since it was last asked."""

    def __init__(self, remote: ProxiedBucket) -> None:
        self._proxy = remote.proxy
        self._before = len(self._proxy.requests())

    def new(self) -> int:
        now = len(self._proxy.requests())
        since, self._before = now - self._before, now
        return since


def opened(remote: ProxiedBucket, tmp_path: Path) -> RemoteIndexCache:
    return RemoteIndexCache(native(place_of(remote)), tmp_path / "cache")


def cache_of(tier: Tier) -> RemoteIndexCache:
    assert isinstance(tier.storage, IndexCachedStorage)
    return tier.storage.cache


def test_a_cold_read_on_the_loop_that_the_client_needs_is_refused_immediately(
    remote: ProxiedBucket, segments: list[SegmentMetadata], tmp_path: Path
) -> None:
    cache = opened(remote, tmp_path)
    seen = Requests(remote)

    async def coroutine() -> object:
        return cache.get(segments[0])

    with pytest.raises(UnsupportedOperationError, match="by asyncio"):
        fsspec.asyn.sync(fsspec.asyn.get_loop(), coroutine, timeout=60)
    assert seen.new() == 0
    kept = bytes_of(cache.get(segments[0]).indexes)
    assert seen.new() == 1

    async def another() -> object:
        return bytes_of(cache.get(segments[0]).indexes)

    assert fsspec.asyn.sync(fsspec.asyn.get_loop(), another, timeout=60) == kept


def test_all_indexes_are_one_request_when_cold_and_none_when_warm_or_after_a_restart(
    remote: ProxiedBucket, segments: list[SegmentMetadata], tmp_path: Path
) -> None:
    plain = native(place_of(remote))
    true = [bytes_of(plain.fetch_all_indexes(segment)) for segment in segments]
    cache = opened(remote, tmp_path)
    seen = Requests(remote)
    for segment, expected in zip(segments, true, strict=True):
        assert bytes_of(cache.get(segment).indexes) == expected
        assert seen.new() == 1
    for segment in segments:
        cache.get(segment)
        cache.lookup_offset(segment, segment.start_offset + 1)
        cache.aborted_transactions(segment, 0, 1 << 40)
    assert seen.new() == 0
    cache.close()
    again = opened(remote, tmp_path)
    for segment, expected in zip(segments, true, strict=True):
        assert bytes_of(again.get(segment).indexes) == expected
    assert seen.new() == 0


def test_any_single_corruption_is_one_request(
    remote: ProxiedBucket, segments: list[SegmentMetadata], tmp_path: Path
) -> None:
    first, second, *_ = segments
    for damage in DAMAGE:
        folder = tmp_path / damage.__name__
        cache = opened(remote, folder)
        true = bytes_of(cache.get(first).indexes)
        (file,) = files_in(cache.directory)
        cache.get(second)
        cache.close()
        damage(file)
        again = opened(remote, folder)
        seen = Requests(remote)
        for _ in range(2):
            assert bytes_of(again.get(first).indexes) == true
        assert seen.new() == 1, damage


def test_a_second_read_asks_for_no_index_and_neither_does_another_process(
    remote: ProxiedBucket, segments: list[SegmentMetadata], tmp_path: Path
) -> None:
    options = remote.storage_options
    offset = segments[-1].start_offset + 3

    def read(tier: Tier) -> list[object]:
        topic = tier.topic("txn")
        found = topic.read(0, offset)
        scanned = topic.scan(start=offset).to_table()
        return [rows_of(found.records), rows_of(scanned)]

    tier = open_tier(remote.url, storage_options=options, cache_dir=tmp_path / "cache")
    seen = Requests(remote)
    expected = read(tier)
    cold, loads = seen.new(), cache_of(tier).stats.loads
    assert loads > 0
    assert read(tier) == expected
    warm = seen.new()
    assert cache_of(tier).stats.loads == loads
    assert warm <= cold - loads
    again = open_tier(remote.url, storage_options=options, cache_dir=tmp_path / "cache")
    seen.new()
    assert read(again) == expected
    assert seen.new() == cold - loads
    assert cache_of(again).stats.loads == 0
    for none in (None, ""):
        without = open_tier(remote.url, storage_options=options, cache_dir=none)
        assert not isinstance(without.storage, IndexCachedStorage)
    assert read(without) == expected


def test_a_view_under_another_policy_asks_for_nothing_again(
    remote: ProxiedBucket, segments: list[SegmentMetadata], tmp_path: Path
) -> None:
    tier = open_tier(
        remote.url, storage_options=remote.storage_options, cache_dir=tmp_path / "cache"
    )
    tier.storage.fetch_all_indexes(segments[0])
    seen = Requests(remote)
    view = tier.with_policy(tier.storage.store.policy)
    view.storage.fetch_all_indexes(segments[0])
    assert seen.new() == 0


def test_the_setting_names_the_directory_and_an_empty_one_disables_the_cache(
    remote: ProxiedBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = remote.storage_options
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "set"))
    tier = open_tier(remote.url, storage_options=options)
    assert cache_of(tier).directory == tmp_path / "set"
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", "")
    tier = open_tier(remote.url, storage_options=options)
    assert not isinstance(tier.storage, IndexCachedStorage)
    monkeypatch.delenv("TIEREDFS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    tier = open_tier(remote.url, storage_options=options)
    assert cache_of(tier).directory == tmp_path / "home" / "tieredfs" / "indexes"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_on_this_machine_is_not_kept_twice(tmp_path: Path, scheme: str) -> None:
    source = source_of(recorded("txn", tmp_path / "broker"))
    place = Bucket(str(tmp_path / "tier"), {})
    push_all(source, native(place))
    tier = open_tier(f"{scheme}{place.url}", cache_dir=tmp_path / "cache")
    assert not isinstance(tier.storage, IndexCachedStorage)
    assert not (tmp_path / "cache").exists()
