"""What nobody should write: typed errors that name the object, and no path outside."""

import tracemalloc
from pathlib import Path

import pytest

from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    NotFoundError,
    ObjectStore,
    RequestEvent,
    Tier,
    Topic,
    UnsupportedFormatError,
    open_storage,
    open_tier,
)

ID = "dao62lTOQsGBPyjJLrpQKw"
FOLDER = f"t-0-{ID}"
GOOD = encode_batch(records(0, 5))


def topic_of(store: ObjectStore) -> Topic:
    return Tier(open_storage(store, "kafka-local")).topic("t")


@pytest.mark.parametrize(
    "log",
    [
        bytes(8) + b"\x7f\xff\xff\xff",
        bytes(8) + b"\x7f\xff\xff\xff" + GOOD[12:],
        GOOD + (5).to_bytes(8, "big") + b"\x7f\xff\xff\xff" + GOOD[12:40],
        encode_batch(records(0, 5), count=(1 << 31) - 1, last_offset=(1 << 31) - 2),
        encode_batch(
            records(0, 5), codec="zstd", count=(1 << 31) - 1, last_offset=(1 << 31) - 2
        ),
        encode_batch(payload=b"\xfe\xff\xff\xff\x0f" + bytes(40), count=1),
    ],
    ids=["length", "header", "second", "count", "compressed count", "record"],
)
def test_a_few_bytes_that_claim_gigabytes_cost_none(
    memory: ObjectStore, log: bytes
) -> None:
    fill(memory, segment(FOLDER, 0, log))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError) as caught:
            topic_of(memory).scan().to_table()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"{memory.url}/{FOLDER}/{0:020d}-" in str(caught.value)
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "suffix", ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"]
)
@pytest.mark.parametrize("size", [24, 240])
def test_an_index_of_zeros_is_named(
    memory: ObjectStore, suffix: str, size: int
) -> None:
    files = segment(FOLDER, 0, GOOD)
    (key,) = [key for key in files if key.endswith(f".{suffix}")]
    fill(memory, files | {key: bytes(size)})
    # A snapshot of zeros says that it is of version 0, which no broker writes.
    expected = UnsupportedFormatError if suffix == "snapshot" else CorruptIndexError
    with pytest.raises(expected) as caught:
        topic_of(memory).scan().to_table()
    assert f"{memory.url}/{key}" in str(caught.value)


def test_a_log_of_zeros_is_named(memory: ObjectStore) -> None:
    fill(memory, segment(FOLDER, 0, bytes(4096)))
    with pytest.raises(CorruptDataError) as caught:
        topic_of(memory).scan().to_table()
    assert f"{memory.url}/{FOLDER}/{0:020d}-" in str(caught.value)


@pytest.mark.parametrize("plugin", ["kafka-local", "kafka-log"])
def test_a_directory_of_strangers_is_no_tier(tmp_path: Path, plugin: str) -> None:
    for name in ("notes.txt", "photos/1.jpg", "t-0/readme", f"{FOLDER}x/a.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(UnsupportedFormatError, match=str(tmp_path)):
        open_tier(str(tmp_path))
    tier = open_tier(str(tmp_path), plugin=plugin)
    for name in tier.topics():  # a folder that is named as a partition's
        assert tier.topic(name).end_offsets() == {0: 0}
    with pytest.raises(NotFoundError, match=str(tmp_path)):
        tier.topic("orders")


def test_no_path_leaves_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / f"x-0-{ID}"
    files = {
        key.partition("/")[2]: data for key, data in segment(FOLDER, 0, GOOD).items()
    }
    for folder in (root / FOLDER, root / f"..-0-{ID}", outside):
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    seen = _Keys()
    store = ObjectStore(str(root), observer=seen)
    tier = Tier(open_storage(store, "kafka-local"))
    assert tier.topics() == ["t"]
    assert tier.topic("t").scan().to_table().num_rows == 5
    assert seen.keys
    assert all(".." not in key and not key.startswith("/") for key in seen.keys)


class _Keys:
    """Keep the keys that were asked for."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def on_request(self, event: RequestEvent) -> None:
        self.keys.append(event.key)
