"""A storage with a cache in front is the same storage that asks less."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import filelock
import fsspec
import pytest

from cache.made import (
    Made,
    bytes_of,
    content_of,
    files_in,
    made_segment,
    open_cache,
)
from support.events import Events
from support.log_directories import small, source_of
from tieredfs import (
    ClosedError,
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    IndexType,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    Tier,
    Topic,
)
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache, with_index_cache
from tieredfs.errors import TieredFSWarning
from tieredfs.storage import LogSource, StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

SEGMENT = made_segment(0)
CONTENT = content_of(SEGMENT)


def open_cached(tmp_path: Path) -> tuple[Made, IndexCachedStorage]:
    made, cache = open_cache(tmp_path)
    return made, IndexCachedStorage(made, cache)


def test_all_ways_to_ask_for_indexes_ask_once(tmp_path: Path) -> None:
    made, storage = open_cached(tmp_path)
    assert storage.fetch_index(SEGMENT, IndexType.OFFSET) == CONTENT[IndexType.OFFSET]
    some = [IndexType.TRANSACTION, IndexType.LEADER_EPOCH]
    found = storage.fetch_indexes(SEGMENT, some)
    assert bytes_of(found) == {kind: CONTENT[kind] for kind in some}
    assert bytes_of(storage.fetch_all_indexes(SEGMENT)) == CONTENT
    assert made.fetches == 1


def test_a_description_is_kept_with_the_indexes_across_a_restart(
    tmp_path: Path, data: Path
) -> None:
    events = Events()
    folder = data / "kafka" / "two-partitions" / "kafka-tiered-storage"

    def described() -> list[SegmentMetadata]:
        store = ObjectStore(str(folder), observer=events)
        cached = with_index_cache(KafkaLocal(store), tmp_path)
        with cached:
            partition = cached.list_partitions()[0]
            listed = cached.list_segments(partition)
            events.clear()
            found = [cached.describe(segment) for segment in listed]
            assert [cached.describe(segment) for segment in found] == found
            return found

    cold = described()
    assert all(segment.is_described for segment in cold)
    listed = [sizes for one in cold if (sizes := one.index_sizes) is not None]
    filled = sum(size > 0 for sizes in listed for size in sizes.values())
    count = len(cold)
    assert events.by_verb() == {"get": filled, "head": count, "get_range": count}
    assert described() == cold  # after a restart
    assert events.by_verb() == {}
    plain = KafkaLocal(ObjectStore(str(folder)))
    assert cold == [
        plain.describe(segment)
        for segment in plain.list_segments(plain.list_partitions()[0])
    ]


def test_a_damaged_index_is_described_as_without_a_cache(
    tmp_path: Path, data: Path
) -> None:
    folder = tmp_path / "tier"
    shutil.copytree(data / "kafka" / "plain" / "kafka-tiered-storage", folder)
    index = min(folder.glob("*/*.timeindex"))
    index.write_bytes(index.read_bytes() + b"x")
    plain = KafkaLocal(ObjectStore(str(folder)))
    segment = plain.list_segments(plain.list_partitions()[0])[0]
    cached = with_index_cache(plain, tmp_path / "cache")
    said = []
    for storage in (plain, cached):
        with pytest.raises(CorruptIndexError) as caught:
            storage.describe(segment)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_damage_after_the_description_is_noticed_when_it_is_read(
    tmp_path: Path, data: Path
) -> None:
    folder = tmp_path / "tier"
    shutil.copytree(data / "kafka" / "plain" / "kafka-tiered-storage", folder)

    def topic() -> Topic:
        plain = KafkaLocal(ObjectStore(str(folder)))
        return Tier(with_index_cache(plain, tmp_path / "cache")).topic("plain")

    ends = topic().end_offsets()
    log = max(folder.glob("plain-0-*/*.log"))
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert topic().end_offsets() == ends
    with pytest.raises(CorruptBatchError):
        topic().scan().to_table()
    log.write_bytes(content[:-1])  # which its listing shows
    with pytest.raises(CorruptDataError):
        topic().end_offsets()


def test_an_index_that_is_not_there_is_not_found_and_not_asked_for_again(
    tmp_path: Path,
) -> None:
    made, storage = open_cached(tmp_path)
    made.damage[IndexType.TRANSACTION] = None
    for _ in range(2):
        with pytest.raises(NotFoundError, match=f"{SEGMENT.id}.*TRANSACTION"):
            storage.fetch_index(SEGMENT, IndexType.TRANSACTION)
        assert IndexType.TRANSACTION not in storage.fetch_indexes(SEGMENT, IndexType)
    assert made.fetches == 1


def test_a_segment_without_any_index_is_not_kept(tmp_path: Path) -> None:
    """It was deleted, which most layouts cannot tell, and may be copied again."""
    made, cache = open_cache(tmp_path)
    made.damage = dict.fromkeys(IndexType)
    assert not cache.get(made_segment(0)).indexes
    assert files_in(cache.directory) == []
    made.damage = {}
    assert bytes_of(cache.get(made_segment(0)).indexes) == content_of(made_segment(0))


def test_a_damaged_index_does_not_keep_the_others_from_being_read(
    tmp_path: Path,
) -> None:
    made, storage = open_cached(tmp_path)
    made.damage[IndexType.TIMESTAMP] = b"damaged"
    assert storage.fetch_index(SEGMENT, IndexType.OFFSET) == CONTENT[IndexType.OFFSET]
    assert storage.fetch_index(SEGMENT, IndexType.TIMESTAMP) == b"damaged"
    assert bytes_of(storage.fetch_all_indexes(SEGMENT))[IndexType.TIMESTAMP] == (
        b"damaged"
    )
    assert files_in(storage.cache.directory) == []
    with pytest.raises(CorruptIndexError):
        storage.cache.get(SEGMENT)


def test_the_layout_comes_back_with_each_range_of_the_log_after_a_restart_too(
    tmp_path: Path,
) -> None:
    made, storage = open_cached(tmp_path)
    made.layout = b"manifest"
    storage.fetch_log_segment(SEGMENT, 0, 1)
    assert storage.fetch_indexes(SEGMENT, [IndexType.OFFSET]).layout == b"manifest"
    storage.fetch_log_segment(SEGMENT, 0, 1)
    storage.fetch_log_segment(SEGMENT, 0, 1, layout=b"newer")
    assert made.seen_layouts == [b"", b"manifest", b"newer"]
    again, after = open_cached(tmp_path)
    after.fetch_log_segment(SEGMENT, 0, 1)
    assert again.seen_layouts == [b"manifest"]
    assert made.fetches == 1


def test_the_layout_is_read_from_disk_once(tmp_path: Path) -> None:
    made, storage = open_cached(tmp_path)
    made.layout = b"manifest"
    storage.fetch_all_indexes(SEGMENT)
    again, after = open_cached(tmp_path)
    for _ in range(2):
        after.fetch_log_segment(SEGMENT, 0, 1)
        for file in files_in(after.cache.directory):
            file.unlink()
    assert again.seen_layouts == [b"manifest"] * 2
    assert made.fetches == 1


def test_two_objects_of_one_id_and_other_ends_are_kept_apart(tmp_path: Path) -> None:
    one = sample(PARTITIONS[0], 0)
    store = ObjectStore(str(tmp_path / "store"))
    ends = (19, 24)
    for end in ends:  # the cleaner can move the end of a log and change no byte of it
        SingleObject(store).copy_log_segment(
            replace(one.metadata, end_offset=end), one.data
        )
    storage = with_index_cache(SingleObject(store), tmp_path / "cache")
    for _ in range(2):
        listed = storage.list_segments(PARTITIONS[0])
        assert [segment.end_offset for segment in listed] == list(ends)
        for segment in listed:
            assert bytes_of(storage.fetch_all_indexes(segment)) == one.data.indexes
            assert storage.fetch_log_segment(segment, 0, 9) == one.log[:9]


def test_what_is_deleted_is_not_kept(tmp_path: Path) -> None:
    made, storage = open_cached(tmp_path)
    storage.fetch_all_indexes(SEGMENT)
    storage.delete_log_segment(SEGMENT)
    assert files_in(storage.cache.directory) == []
    storage.fetch_all_indexes(SEGMENT)
    assert made.fetches == 2


def test_what_a_broker_is_writing_is_not_kept(tmp_path: Path) -> None:
    small(tmp_path / "log")
    source = source_of(tmp_path / "log")
    cache = RemoteIndexCache(source, tmp_path / "cache")
    storage = IndexCachedStorage(source, cache)
    (partition,) = storage.list_partitions()
    segments = storage.list_segments(partition)
    for segment in segments:
        found = storage.fetch_all_indexes(segment)
        assert bytes_of(found) == bytes_of(source.fetch_all_indexes(segment))
    assert len(files_in(cache.directory)) == len(segments) - 1
    assert cache.stats.loads == len(segments) - 1


def test_a_view_under_another_policy_asks_by_it_and_shares_the_cache(
    tmp_path: Path,
) -> None:
    made, storage = open_cached(tmp_path)
    view = storage.with_policy(RequestPolicy(attempts=1))
    assert view.store.policy.attempts == 1
    assert view.cache.storage.store.policy.attempts == 1
    assert storage.cache.storage.store.policy.attempts != 1
    view.fetch_all_indexes(SEGMENT)
    storage.fetch_all_indexes(SEGMENT)
    assert made.fetches == 1
    assert storage.cache.stats.hits == 1


def test_closing_a_view_leaves_the_storage_and_its_cache_open(tmp_path: Path) -> None:
    class Own(IndexCachedStorage):
        """One with more than its own arguments say."""

    made, plain = open_cached(tmp_path)
    storage = Own(plain.inner, plain.cache)
    with storage.with_policy(RequestPolicy(attempts=1)) as view:
        assert type(view) is Own
        view.fetch_all_indexes(SEGMENT)
    storage.fetch_all_indexes(SEGMENT)
    assert made.fetches == 1
    storage.close()
    with pytest.raises(ClosedError):
        storage.fetch_all_indexes(SEGMENT)


def test_closing_the_storage_closes_the_cache_and_leaves_the_files(
    tmp_path: Path,
) -> None:
    _, storage = open_cached(tmp_path)
    with storage:
        storage.fetch_all_indexes(SEGMENT)
    assert len(files_in(storage.cache.directory)) == 1


def test_a_directory_that_cannot_be_is_a_warning_and_no_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1")
    made = Made(tmp_path / "asked")
    with pytest.warns(TieredFSWarning, match="indexes are not cached: .*file"):
        storage = with_index_cache(made, file / "cache")
    assert storage is made


def test_a_disk_without_locks_is_a_warning_and_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acquire(*_: object, **__: object) -> None:
        raise NotImplementedError  # as filelock does

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    made = Made(tmp_path / "asked")
    with pytest.warns(TieredFSWarning, match="indexes are not cached"):
        assert with_index_cache(made, tmp_path / "cache") is made


OTHERS: dict[str, dict[str, object]] = {
    "endpoint": {"endpoint_url": "http://127.0.0.1:2"},
    "nested endpoint": {"client_kwargs": {"endpoint_url": "http://127.0.0.1:2"}},
    "none": {},
}
HERE = {"endpoint_url": "http://127.0.0.1:1", "key": "AKIAX", "secret": "hush-hush"}


def cache_of(store: ObjectStore, directory: Path) -> RemoteIndexCache:
    made = Made(directory.parent / "asked")
    made.store = store
    return RemoteIndexCache(made, directory)


@pytest.mark.parametrize("other", OTHERS)
def test_the_same_url_at_another_endpoint_is_another_store(
    tmp_path: Path, other: str
) -> None:
    here = cache_of(ObjectStore("s3://bucket", HERE), tmp_path / "cache")
    there = cache_of(ObjectStore("s3://bucket", OTHERS[other]), tmp_path / "cache")
    here.get(SEGMENT)
    there.get(SEGMENT)
    assert there.stats.loads == 1
    assert len(files_in(tmp_path / "cache")) == 2


def test_other_credentials_reach_the_same_store_and_none_is_in_its_name(
    tmp_path: Path,
) -> None:
    store = ObjectStore("s3://bucket", HERE)
    here = cache_of(store, tmp_path / "cache")
    here.get(SEGMENT)
    other = ObjectStore("s3://bucket", {**HERE, "key": "AKIAY", "secret": "other"})
    there = cache_of(other, tmp_path / "cache")
    there.get(SEGMENT)
    assert there.stats.loads == 0
    assert store.identity == other.identity
    assert "hush" not in store.identity
    (file,) = files_in(tmp_path / "cache")
    assert b"hush" not in file.read_bytes()
    signed = ObjectStore("https://alice:hush@127.0.0.1/a?sig=hush-hush")
    assert "hush" not in signed.identity
    azure = {"connection_string": "AccountName=a;AccountKey=hush;BlobEndpoint=http://b"}
    assert "hush" not in ObjectStore("abfs://a", azure).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            ("abfs://a@account.dfs.core.windows.net/t",),
            ("abfs://b@account.dfs.core.windows.net/t",),
        ),
        (("https://127.0.0.1/get?key=tier-a",), ("https://127.0.0.1/get?key=tier-b",)),
        (("sftp://alice@127.0.0.1/t",), ("sftp://bob@127.0.0.1/t",)),
        (("github://p", {"repo": "a"}), ("github://p", {"repo": "b"})),
        (("s3://b", {"kms": ["a"]}), ("s3://b", {"kms": ["b"]})),
        (("zip://t", {"fo": Path("a.zip")}), ("zip://t", {"fo": Path("b.zip")})),
    ],
    ids=lambda place: place[0],
)
def test_whatever_may_lead_elsewhere_makes_another_store(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    assert ObjectStore(*one).identity == ObjectStore(*one).identity
    assert ObjectStore(*one).identity != ObjectStore(*other).identity


def test_a_store_is_the_same_in_another_process() -> None:
    place = "abfs://a@account/t"
    options = {"connection_string": "AccountName=a;AccountKey=hush;BlobEndpoint=b;X=y"}
    program = (
        f"import tieredfs; print(tieredfs.ObjectStore({place!r}, {options!r}).identity)"
    )
    found = {
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{ObjectStore(place, options).identity}\n"}


def test_the_environments_endpoint_makes_another_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    before = ObjectStore("s3://bucket").identity
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert ObjectStore("s3://bucket").identity != before


def test_the_environments_azure_account_is_another_store_and_its_key_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = set()
    for account in ("here", "there"):
        connection = f"AccountName={account};AccountKey=hush-hush"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        found.add(ObjectStore("abfs://a").identity)
    assert len(found) == 2
    assert "hush" not in "".join(found)


def test_an_endpoint_in_fsspecs_configuration_makes_another_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ObjectStore("s3://bucket").identity
    found = {"endpoint_url": "http://127.0.0.1:1", "secret": "hush-hush"}
    monkeypatch.setitem(fsspec.config.conf, "s3", found)
    after = ObjectStore("s3://bucket").identity
    assert after != before
    assert "hush" not in after


def test_layouts_at_one_url_do_not_share_and_wrappers_do(tmp_path: Path) -> None:
    store = ObjectStore("memory://index-cache-layouts")
    layouts = [KafkaLocal(store), KafkaLog(store), SingleObject(store)]
    places = {RemoteIndexCache(one, tmp_path)._identity for one in layouts}
    assert len(places) == 3
    wrapped = StorageWrapper(StorageWrapper(layouts[0]))
    assert RemoteIndexCache(wrapped, tmp_path)._identity in places


def test_a_version_that_is_not_valid_text_works_like_any_other(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    strange = replace(SEGMENT, version="\ud800\0")
    assert bytes_of(cache.get(strange).indexes) == content_of(strange)


class Replaceable(Made):
    """A storage whose segments can be replaced, under their own names."""

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Replace nothing, as a test of what is cached needs nothing else."""
        del metadata, log, indexes
        return b""


def test_what_was_cached_of_a_damaged_segment_is_gone_when_it_is_replaced(
    tmp_path: Path,
) -> None:
    made, segment = Replaceable(tmp_path / "asked"), made_segment(0)
    storage = with_index_cache(made, tmp_path / "cache")
    storage.fetch_all_indexes(segment)
    storage.fetch_all_indexes(segment)
    assert made.fetches == 1
    storage.replace_log_segment(segment, memoryview(b""), {})  # type: ignore[arg-type] # no log is read
    storage.fetch_all_indexes(segment)
    assert made.fetches == 2


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("number", [0, 1], ids=["without aborts", "with aborts"])
def test_what_is_copied_is_cached_without_a_fetch(
    tmp_path: Path, compression: Literal["zstd"] | None, number: int
) -> None:
    events = Events()
    store = ObjectStore(f"memory://given-{tmp_path.name}", observer=events)
    inner = SingleObject(store, compression=compression)
    copied = sample(PARTITIONS[0], number)
    with with_index_cache(inner, tmp_path / "cache") as storage:
        custom = storage.copy_log_segment(copied.metadata, copied.data)
        (segment,) = storage.list_segments(PARTITIONS[0])
        assert custom == segment.custom_metadata
        events.clear()
        found = storage.fetch_all_indexes(segment)
        assert events == []
        stored = inner.fetch_all_indexes(segment)
        assert (found.layout, bytes_of(found)) == (stored.layout, bytes_of(stored))
        events.clear()
        assert storage.fetch_log_segment(segment) == copied.log
        assert events.by_verb() == {"get_range": 1}
    with with_index_cache(inner, tmp_path / "cache") as storage:  # after a restart
        events.clear()
        assert bytes_of(storage.fetch_all_indexes(segment)) == bytes_of(stored)
        assert events == []


def test_a_copy_that_cannot_be_cached_is_stored(tmp_path: Path) -> None:
    inner = SingleObject(ObjectStore(f"memory://given-{tmp_path.name}"))
    storage = with_index_cache(inner, tmp_path / "cache")
    storage.close()
    copied = sample(PARTITIONS[0], 0)
    storage.copy_log_segment(copied.metadata, copied.data)
    (segment,) = inner.list_segments(PARTITIONS[0])
    assert inner.fetch_log_segment(segment) == copied.log


def test_indexes_that_no_broker_can_have_written_are_not_kept(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    with pytest.raises(CorruptIndexError):
        cache.put(SEGMENT, SegmentIndexes({IndexType.OFFSET: memoryview(b"abc")}))
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 1
    cache.put(SEGMENT, SegmentIndexes())
    cache.put(SEGMENT, cache.get(SEGMENT).indexes)
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 1
