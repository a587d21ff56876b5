"""How much a compressed batch may decompress to, and how it may be more."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch, encode_wrapper
from tieredfs import (
    CorruptBatchError,
    ObjectStore,
    Options,
    RequestPolicy,
    Tier,
    Topic,
    open_storage,
    open_tier,
)

_MIB = 1 << 20
_LIMIT = 4 * _MIB
_NAMED = (
    r"decompresses to more than 4194304 bytes: raise the option max_decompressed_bytes "
)


@pytest.fixture
def legal(memory: ObjectStore) -> ObjectStore:
    """One batch of 5 MiB of records, compressed."""
    log = encode_batch(records(0, 50, value="v" * (_MIB // 10)), codec="gzip")
    fill(memory, segment("t-0-AAAAAAAAAAAAAAAAAAAAAQ", 0, log))
    return memory


def _topic(store: ObjectStore, limit: int) -> Topic:
    limited = ObjectStore(store.url, options=Options(max_decompressed_bytes=limit))
    return Tier(open_storage(limited, "kafka-local")).topic("t")


_READS: dict[str, Callable[[Topic], Any]] = {
    "scan": lambda topic: topic.scan().to_table().num_rows,
    "fair": lambda topic: topic.scan(start=7, order="fair").to_table().num_rows,
    "part": lambda topic: topic.scan(on_gap="skip").split(1)[0].to_table().num_rows,
    "read": lambda topic: topic.read(0, 0).num_rows,
    "read the last": lambda topic: topic.read(0, 49).num_rows,
    "times": lambda topic: topic.offsets_for_times({0: 1_700_000_000_003}),
    "pickled": lambda topic: _again(topic).scan().to_table(),
    "pickled scan": lambda topic: _again(topic.scan()).to_table(),
}


def _again(value: Any) -> Any:  # noqa: ANN401 - whatever it is
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


@pytest.mark.parametrize("read", list(_READS))
def test_a_legal_batch_above_the_limit_is_read_with_a_larger_one_that_the_error_names(
    legal: ObjectStore, read: str
) -> None:
    ask = _READS[read]
    with pytest.raises(CorruptBatchError, match=_NAMED):
        ask(_topic(legal, _LIMIT))
    assert ask(_topic(legal, 2 * _LIMIT)) == ask(_topic(legal, 256 * _MIB))


def test_a_tier_keeps_the_limit_through_pickling_and_another_policy(
    legal: ObjectStore,
) -> None:
    options = Options(max_decompressed_bytes=_LIMIT)
    tier = open_tier(legal.url, plugin="kafka-local", options=options)
    for same in (
        tier,
        _again(tier),
        tier.with_policy(RequestPolicy()),
    ):
        assert same.storage.store.options == options
        with pytest.raises(CorruptBatchError, match=_NAMED):
            same.topic("t").scan().to_table()


@pytest.mark.parametrize("magic", [0, 1])
def test_a_limit_holds_for_batches_of_old_message_formats_as_well(
    magic: int, memory: ObjectStore
) -> None:
    rows = records(0, 50, value="v" * (_MIB // 10))
    log = encode_wrapper(rows, magic=magic, codec="gzip")
    fill(memory, segment("t-0-AAAAAAAAAAAAAAAAAAAAAQ", 0, log))
    with pytest.raises(CorruptBatchError, match=_NAMED):
        _topic(memory, _LIMIT).scan().to_table()
    assert _topic(memory, 2 * _LIMIT).scan().to_table().num_rows == 50
