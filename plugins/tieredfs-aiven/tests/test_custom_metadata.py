import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import KEYS, fill
from support.written_segments import Written, encode_custom_metadata
from tieredfs import InvalidArgumentError, NotFoundError, ObjectStore, SegmentMetadata
from tieredfs_aiven import Aiven
from tieredfs_aiven.custom_metadata import CustomMetadata, parse_custom_metadata

SEGMENT = Written(b"0123456789" * 30, prefix="old/")


def told(**fields: str) -> SegmentMetadata:
    tags = {"prefix": 1, "main_path": 2}
    data = encode_custom_metadata({tags[name]: text for name, text in fields.items()})
    plain = SEGMENT.metadata
    return SegmentMetadata(
        plain.partition, plain.id, plain.start_offset, custom_metadata=data
    )


def test_the_example_of_the_format_is_read() -> None:
    data = bytes.fromhex("020002c80102040466 6f6f")
    assert parse_custom_metadata(data) == CustomMetadata(None, "foo")


def test_none_at_all_say_nothing() -> None:
    assert parse_custom_metadata(b"") == CustomMetadata()
    assert parse_custom_metadata(b"\0") == CustomMetadata()


@given(
    st.none() | st.text(max_size=200),
    st.none() | st.text(min_size=1, max_size=200),
    st.dictionaries(st.integers(3, 1 << 40), st.binary(max_size=20)),
)
def test_what_is_written_is_read(
    prefix: str | None, main_path: str | None, others: dict[int, bytes]
) -> None:
    fields: dict[int, bytes | str] = {0: b"\xc8\x01", **others}
    if prefix is not None:
        fields[1] = prefix
    if main_path is not None:
        fields[2] = main_path
    found = parse_custom_metadata(encode_custom_metadata(fields))
    assert found == CustomMetadata(prefix, main_path)


@given(st.binary(max_size=128))
def test_hostile_bytes_are_read_or_a_typed_error(data: bytes) -> None:
    try:
        parse_custom_metadata(data)
    except InvalidArgumentError:
        return
    assert data in (b"", b"\0") or len(data) >= data[0] * 2


@pytest.mark.parametrize("data", [b"\1", b"\1\1", b"\1\1\5a", b"\0\0", b"\1\1\1\0"])
def test_what_was_cut_or_grew_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="Aiven"):
        parse_custom_metadata(data)


def test_the_prefix_of_the_copy_wins_over_that_of_today(memory: ObjectStore) -> None:
    fill(memory, SEGMENT.objects())
    storage = Aiven(memory, key_prefix="new/", encryption_keys=KEYS)
    with pytest.raises(NotFoundError):
        storage.fetch_log_segment(SEGMENT.metadata)
    segment = told(prefix="old/")
    assert storage.fetch_log_segment(segment) == SEGMENT.log
    assert len(storage.fetch_all_indexes(segment)) == 4
    assert storage.describe(segment).custom_metadata == segment.custom_metadata
    assert "old/orders" in storage.name_of(segment)


def test_the_whole_key_of_the_copy_wins(memory: ObjectStore) -> None:
    moved = {
        key.replace(SEGMENT.stem, "old/elsewhere/segment"): data
        for key, data in SEGMENT.objects().items()
    }
    fill(memory, moved)
    segment = told(prefix="old/", main_path="elsewhere/segment")
    assert Aiven(memory).fetch_log_segment(segment) == SEGMENT.log


def test_a_key_that_leaves_the_store_is_refused(memory: ObjectStore) -> None:
    fill(memory, SEGMENT.objects())
    with pytest.raises(InvalidArgumentError):
        Aiven(memory).fetch_log_segment(told(prefix="../", main_path="x"))
