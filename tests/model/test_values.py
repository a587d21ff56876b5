"""The values everything speaks of: what they accept, and that they cannot change."""

import base64
import dataclasses
import pickle
import uuid
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs import (
    ByteRange,
    EpochEntry,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    OffsetAndTimestamp,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.model import check_topic_name

_PARTITION = TopicIdPartition("orders", 3)
_ID = SegmentId("tRgyoxIITOCPSqt7UtCjSQ")
_METADATA = SegmentMetadata(
    _PARTITION, _ID, 10, 19, 1000, (EpochEntry(0, 0), EpochEntry(2, 15)), 512, "v", b"c"
)
_VALUES = [
    _PARTITION,
    _ID,
    Uuid("mhZJR703QbqSZ4JRt2jTSA"),
    _METADATA,
    ByteRange(0, 10),
    EpochEntry(1, 5),
    OffsetAndTimestamp(5, 1000, 2),
    IndexType.OFFSET,
]


@pytest.mark.parametrize(
    "topic", ["orders", "a", "a.b_c-d", "...", "-", "__consumer_offsets", "x" * 249]
)
def test_a_name_that_kafka_accepts_is_a_topic(topic: str) -> None:
    assert check_topic_name(topic) == topic
    assert str(TopicIdPartition(topic, 0)) == f"{topic}-0"


@pytest.mark.parametrize(
    "topic",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "a\\b",
        "a b",
        "a\n",
        "\n",
        "a\0",
        "orders:1",
        "tópico",
        "٣",
        "x" * 250,
    ],
)
def test_a_name_that_kafka_refuses_is_not_a_topic(topic: str) -> None:
    with pytest.raises(InvalidArgumentError, match="invalid topic name"):
        check_topic_name(topic)
    with pytest.raises(InvalidArgumentError, match="invalid topic name"):
        TopicIdPartition(topic, 0)


@pytest.mark.parametrize("partition", [-1, -(1 << 31), 1 << 31])
def test_a_partition_number_outside_its_range_is_refused(partition: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{partition} of topic 'orders'"):
        TopicIdPartition("orders", partition)


@pytest.mark.parametrize("partition", [0, (1 << 31) - 1])
def test_a_partition_number_inside_its_range_is_kept(partition: int) -> None:
    assert TopicIdPartition("orders", partition).partition == partition


def test_an_unknown_topic_id_is_all_a() -> None:
    assert TopicIdPartition("orders", 0).topic_id == "A" * 22


def test_partitions_are_sorted_by_topic_then_number() -> None:
    pairs = [("b", 0), ("a", 10), ("a", 9)]
    found = sorted(TopicIdPartition(*pair) for pair in pairs)
    assert [str(partition) for partition in found] == ["a-9", "a-10", "b-0"]


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_the_base64url_of_its_bytes(raw: bytes) -> None:
    text = base64.urlsafe_b64encode(raw).decode()[:22]
    assert Uuid.from_bytes(raw) == text
    assert Uuid(text) == text
    assert type(SegmentId.from_bytes(raw)) is SegmentId


@given(st.text(max_size=24) | st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True))
def test_only_the_canonical_text_of_16_bytes_is_a_uuid(text: str) -> None:
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        canonical = (
            len(raw) == 16 and base64.urlsafe_b64encode(raw)[:22] == text.encode()
        )
    except ValueError:
        canonical = False
    if canonical:
        assert Uuid(text) == text
    else:
        with pytest.raises(InvalidArgumentError, match="not a Kafka UUID"):
            Uuid(text)


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "A" * 22 + "\n"]
)
def test_what_is_not_a_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a Kafka UUID"):
        Uuid(text)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_uuid_has_16_bytes(size: int) -> None:
    with pytest.raises(InvalidArgumentError):
        Uuid.from_bytes(bytes(size))


def test_a_random_uuid_is_accepted() -> None:
    raw = uuid.uuid4().bytes
    assert base64.urlsafe_b64decode(Uuid.from_bytes(raw) + "==") == raw


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (0, (1 << 63) - 1)])
def test_a_byte_range_is_half_open(start: int, end: int) -> None:
    assert len(ByteRange(start, end)) == end - start


@pytest.mark.parametrize(("start", "end"), [(1, 0), (-1, 5), (-2, -1), (0, 1 << 63)])
def test_a_byte_range_that_no_object_has_is_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"invalid byte range \["):
        ByteRange(start, end)


def _metadata(**fields: Any) -> SegmentMetadata:  # noqa: ANN401 - any field
    every: dict[str, Any] = {"partition": _PARTITION, "id": _ID, "start_offset": 5}
    return SegmentMetadata(**(every | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"start_offset": 0},
        {"end_offset": 5},
        {"end_offset": 4},  # a segment that has just begun
        {"start_offset": 0, "end_offset": -1},
        {"start_offset": (1 << 63) - 2, "end_offset": (1 << 63) - 2},
        {"size": 0},
        {"size": 1 << 40},
        {"custom_metadata": bytes(128)},
    ],
)
def test_what_a_segment_can_have_is_accepted(fields: dict[str, Any]) -> None:
    metadata = _metadata(**fields)
    assert all(getattr(metadata, name) == value for name, value in fields.items())


@pytest.mark.parametrize(
    "fields",
    [
        {"start_offset": -1},
        {"end_offset": 3},
        {"start_offset": 0, "end_offset": -2},
        {"start_offset": 1 << 63},
        {"end_offset": 1 << 63},
        {"size": -1},
        {"custom_metadata": bytes(129)},
    ],
)
def test_what_no_segment_can_have_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^orders-3/"):
        _metadata(**fields)


def test_a_segment_is_named_as_kafka_names_its_files() -> None:
    assert str(_METADATA) == "orders-3/00000000000000000010-tRgyoxIITOCPSqt7UtCjSQ"


def test_what_a_listing_does_not_give_is_none() -> None:
    metadata = _metadata()
    unknown = ("end_offset", "max_timestamp_ms", "leader_epochs", "size")
    assert all(getattr(metadata, name) is None for name in unknown)
    assert (metadata.version, metadata.custom_metadata) == ("", b"")


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_hashable_and_survives_pickling(value: object) -> None:
    back = pickle.loads(pickle.dumps(value))  # noqa: S301 - ours
    assert back == value
    assert type(back) is type(value)
    assert {value: 1}[back] == 1


@pytest.mark.parametrize(
    "value",
    [
        _PARTITION,
        _METADATA,
        ByteRange(0, 1),
        OffsetAndTimestamp(0, 0),
        LogSegmentData(Path("x"), {}),
        SegmentIndexes(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_cannot_be_changed(value: Any) -> None:  # noqa: ANN401 - any value
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)
    assert not hasattr(value, "__dict__")


def test_segment_indexes_are_a_mapping_of_what_there_is() -> None:
    indexes = SegmentIndexes({IndexType.OFFSET: memoryview(b"12345678")}, b"manifest")
    assert dict(indexes) == {IndexType.OFFSET: b"12345678"}
    assert len(indexes) == 1
    assert indexes.layout == b"manifest"
    assert IndexType.TRANSACTION not in indexes
    with pytest.raises(KeyError):
        indexes[IndexType.TRANSACTION]


def test_index_types_are_kafkas_words() -> None:
    words = {"OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "LEADER_EPOCH", "TRANSACTION"}
    assert set(IndexType) == words
