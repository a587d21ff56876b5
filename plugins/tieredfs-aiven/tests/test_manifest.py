import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import sample, samples
from support.written_segments import Written
from tieredfs import (
    CorruptObjectError,
    IndexType,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs_aiven.manifest import Manifest, parse_manifest

NAME = "s3://bucket/x.rsm-manifest"
PLAIN = Written(b"0123456789" * 30)
SEALED = PLAIN.with_(is_compressed=True, is_encrypted=True)
Fields = dict[str, Any]


def parsed(fields: object) -> Manifest:
    return parse_manifest(json.dumps(fields).encode(), NAME)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner)
    ),
    max_leaves=5,
)


def paths(fields: object, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return where a manifest has a value."""
    if not isinstance(fields, dict):
        return [at]
    below = [path for key, value in fields.items() for path in paths(value, (*at, key))]
    return [at, *below] if at else below


@given(st.sampled_from([PLAIN, SEALED]), values, st.data())
def test_any_value_anywhere_is_a_manifest_or_a_typed_error(
    segment: Written, value: object, data: st.DataObject
) -> None:
    fields = segment.manifest()
    path = data.draw(st.sampled_from(paths(fields)))
    place = fields
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    found, wrong = None, ""
    try:
        found = parsed(fields)
    except TieredFSError as error:
        wrong = str(error)
    if found is None:
        assert wrong.startswith(NAME)
        assert len(wrong) < 300
        return
    assert found.chunks.size <= (1 << 31) - 1
    assert all(place.end <= 5 * ((1 << 31) - 1) for place in found.indexes.values())


@given(st.sampled_from([PLAIN, SEALED]), st.data())
def test_a_field_that_is_left_out_is_an_error_or_never_needed(
    segment: Written, data: st.DataObject
) -> None:
    fields = segment.manifest()
    path = data.draw(st.sampled_from(paths(fields)))
    place = fields
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    free = {"brokerId", "eventTimestampMs", "segmentLeaderEpochs", "3"}
    if path[-1] in free | {"encryption"} or path == ("remoteLogSegmentMetadata",):
        parsed(fields)
    else:
        with pytest.raises(CorruptObjectError, match=path[-1]):
            parsed(fields)


@given(st.binary(max_size=200))
def test_hostile_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptObjectError, match=NAME):
        parse_manifest(data, NAME)


@given(st.sampled_from(samples()), st.data())
def test_a_manifest_that_was_cut_is_damaged(one: Any, data: st.DataObject) -> None:  # noqa: ANN401 - a sample
    text = one.objects["rsm-manifest"]
    with pytest.raises(CorruptObjectError):
        parse_manifest(text[: data.draw(st.integers(0, len(text) - 1))], NAME)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"version":' + b"9" * 10_000 + b"}",
        b"\xff\xfe{}",
        b"null",
        b"[]",
        b'"1"',
        b"{}",
        b"PFA1",
        b'{"version":"1","chunkIndex":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"version":"1","chunkIndex":{"type":[' + b"9," * 1_000_000 + b"9]}}",
    ],
    ids=lambda text: repr(text[:9] + text[-3:]),
)
def test_what_is_no_manifest_is_damaged(text: bytes) -> None:
    with pytest.raises(CorruptObjectError, match=NAME) as caught:
        parse_manifest(text, NAME)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "version", ["2", "1.0", "", " 1", 2, 0, 1.0, True, None, []], ids=repr
)
def test_another_version_is_not_supported(version: object) -> None:
    fields = {**PLAIN.manifest(), "version": version}
    with pytest.raises(UnsupportedFormatError, match=f"{NAME}.*version"):
        parsed(fields)


def set_chunks(**values: object) -> Callable[[Fields], object]:
    return lambda fields: fields["chunkIndex"].update(values)


def set_offset(**values: object) -> Callable[[Fields], object]:
    return lambda fields: fields["segmentIndexes"]["offset"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_chunks(originalChunkSize=0), "originalChunkSize cannot be 0"),
        (set_chunks(originalChunkSize=-1), "originalChunkSize cannot be -1"),
        (set_chunks(originalFileSize=1 << 31), "originalFileSize cannot be 2147"),
        (set_chunks(originalFileSize="300"), "originalFileSize cannot be '300'"),
        (set_chunks(transformedChunkSize=True), "transformedChunkSize cannot be True"),
        (set_chunks(transformedChunkSize=9999), "stored in more than"),
        (
            set_chunks(finalTransformedChunkSize=9998),
            "cannot be stored in more than 1125",
        ),
        (set_offset(position=1), "position cannot be 1"),
        (set_offset(size=9), "timestamp: position cannot be 8"),
        (set_offset(size=-1), "size cannot be -1"),
    ],
)
def test_sizes_that_cannot_be_are_damage(
    change: Callable[[Fields], object], message: str
) -> None:
    fields = PLAIN.manifest()
    change(fields)
    with pytest.raises(CorruptObjectError, match=message):
        parsed(fields)


@pytest.mark.parametrize("data_key", ["", ":", "k1", ":AAAA", " :AAAA", "k1:é", "k1:A"])
def test_a_data_key_without_id_or_base64_is_damage(data_key: str) -> None:
    fields = SEALED.manifest()
    fields["encryption"]["dataKey"] = data_key
    with pytest.raises(CorruptObjectError, match="encryption"):
        parsed(fields)


def test_an_encrypted_index_is_never_shorter_than_its_iv_and_tag() -> None:
    fields = SEALED.manifest()
    fields["segmentIndexes"]["transaction"] = {"position": 118, "size": 27}
    last = fields["segmentIndexes"]["leaderEpoch"]
    fields["segmentIndexes"]["transaction"]["position"] = (
        last["position"] + last["size"]
    )
    with pytest.raises(CorruptObjectError, match="size cannot be 27"):
        parsed(fields)


def test_what_the_broker_says_may_grow() -> None:
    fields = PLAIN.manifest()
    fields["remoteLogSegmentMetadata"]["txnIdxEmpty"] = True
    fields["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["more"] = [1]
    assert parsed(fields) == parsed(PLAIN.manifest())


def test_a_message_never_shows_a_key() -> None:
    fields = SEALED.manifest()
    wrapped = fields["encryption"]["dataKey"]
    fields["encryption"]["aad"] = 5
    with pytest.raises(CorruptObjectError) as caught:
        parsed(fields)
    assert wrapped.partition(":")[2][:20] not in str(caught.value)


def test_a_manifest_tells_where_the_indexes_of_a_sample_lie() -> None:
    one = sample("plain", "txn")
    found = parse_manifest(one.objects["rsm-manifest"], NAME)
    assert list(found.indexes) == list(IndexType)
    assert [len(place) for place in found.indexes.values()] == [
        one.expected["fetchIndex"][kind]["length"] for kind in IndexType
    ]
