"""What the index cache saves of the requests that this layout takes."""

from pathlib import Path

import pytest
import s3fs

from support.distant_s3 import DistantS3
from support.samples import DATA, KEYS, fill, sample
from tieredfs import ObjectStore, RequestCounter, RequestEvent, Tier
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache, with_index_cache
from tieredfs_aiven import Aiven


class Suffixes(list[str]):
    """How the keys of requests end."""

    def on_request(self, event: RequestEvent) -> None:
        """Keep it."""
        self.append(event.key.rpartition("/")[2].rpartition(".")[2])


VARIANTS = ["plain", "zstd", "encrypted", "zstd-encrypted"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_indexes_and_layout_are_asked_for_once_across_restarts(
    variant: str, tmp_path: Path
) -> None:
    one = sample(variant, "txn")
    segment = one.metadata
    prefix = one.stem[: one.stem.index("txn")]

    def opened() -> tuple[IndexCachedStorage, RequestCounter]:
        counter = RequestCounter()
        store = ObjectStore(str(one.folder / "objects"), observer=counter)
        aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        return IndexCachedStorage(aiven, RemoteIndexCache(aiven, tmp_path)), counter

    storage, counter = opened()
    expected = dict(storage.inner.fetch_all_indexes(segment))
    whole = bytes(storage.inner.fetch_log_segment(segment, 0, 1000))
    asked = counter.requests
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests - asked == 2  # cold: the manifest, and one range
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests - asked == 2  # warm
    assert storage.fetch_log_segment(segment, 0, 1000) == whole
    assert counter.requests - asked == 3  # no manifest any more

    storage, counter = opened()  # a restart
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests == 0
    assert storage.fetch_log_segment(segment, 0, 1000) == whole
    assert counter.requests == 1

    (entry,) = tmp_path.glob("*.indexes")
    entry.write_bytes(entry.read_bytes()[:-1])
    storage, counter = opened()
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests == 2  # repaired in one operation


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_topic_is_described_by_what_is_kept(variant: str, tmp_path: Path) -> None:
    one = sample(variant, "txn")
    prefix = one.stem[: one.stem.index("txn")]

    def asked() -> tuple[list[str], dict[int, int], dict[int, int]]:
        counter = Suffixes()
        store = ObjectStore(str(one.folder / "objects"), observer=counter)
        aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        with Tier(with_index_cache(aiven, tmp_path)) as tier:
            topic = tier.topic("plain")
            counter.clear()
            found = topic.beginning_offsets(), topic.end_offsets()
        return [suffix for suffix in counter if suffix], *found

    cold, *expected = asked()
    assert {"rsm-manifest", "indexes"} <= set(cold)
    warm, *found = asked()
    assert found == expected
    assert warm == []  # nor an end, which was seen in the log


def test_two_tiers_of_the_same_segments_in_one_store_are_not_mixed_up(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(DATA / "txn-index" / "objects"))
    plain, encrypted = (
        Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        for prefix in ("", "encrypted/")
    )
    (partition,) = encrypted.list_partitions()
    segment = encrypted.list_segments(partition)[0]
    for storage in (plain, encrypted):
        kept = with_index_cache(storage, tmp_path)
        assert isinstance(kept, IndexCachedStorage)
        assert dict(kept.fetch_all_indexes(segment)) == dict(
            storage.fetch_all_indexes(segment)
        )
        assert kept.fetch_log_segment(segment) == storage.fetch_log_segment(segment)
        assert kept.cache.stats.loads == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_bucket_30_ms_away_is_asked_twice_when_cold_and_never_when_warm(
    variant: str, tmp_path: Path
) -> None:
    one = sample(variant, "txn")
    with DistantS3() as server:
        bucket = f"s3://{variant}"
        s3fs.S3FileSystem(skip_instance_cache=True, **server.options).mkdir(variant)
        keys = {f"{one.stem}.{suffix}": data for suffix, data in one.objects.items()}
        fill(ObjectStore(bucket, server.options), keys)
        prefix = one.stem[: one.stem.index("txn")]
        server.latency = 0.03

        def asked(cache: RemoteIndexCache) -> list[str]:
            server.requests.clear()
            cache.lookup_offset(one.metadata, one.metadata.start_offset + 1)
            return [request.rpartition(".")[2] for request in server.requests]

        def opened() -> RemoteIndexCache:
            store = ObjectStore(bucket, server.options)
            aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
            return RemoteIndexCache(aiven, tmp_path)

        cache = opened()
        assert asked(cache) == ["rsm-manifest", "indexes"]
        assert asked(cache) == []
        cache.close()
        assert asked(opened()) == []
        (entry,) = tmp_path.glob("*.indexes")
        entry.write_bytes(entry.read_bytes()[:-1])
        assert asked(opened()) == ["rsm-manifest", "indexes"]
