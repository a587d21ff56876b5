import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from support.damage import damaged
from tieredfs import (
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
    EpochEntry,
    IndexType,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.segment.tail import (
    Chunks,
    LogPart,
    Manifest,
    SegmentFacts,
    TailPart,
    build_tail,
    parse_manifest,
    parse_tail,
)

FACTS = SegmentFacts(
    "t",
    "A" * 22,
    0,
    "dao62lTOQsGBPyjJLrpQKw",
    0,
    9,
    10,
    5,
    14,
    -1,
    (EpochEntry(0, 0), EpochEntry(4, 7)),
)
LOG = LogPart(100, 100, 7)
INDEXES = {IndexType.OFFSET: b"o" * 8, IndexType.PRODUCER_SNAPSHOT: b"snapshot"}

contents = st.binary(max_size=60)
index_sets = st.dictionaries(st.sampled_from(list(IndexType)), contents)
numbers = st.integers(0, 1 << 63)
logs = st.builds(
    LogPart,
    st.integers(0, 1 << 40),
    numbers,
    st.integers(0, (1 << 32) - 1),
    st.none()
    | st.builds(
        Chunks,
        st.integers(1, 1 << 28),
        st.text(max_size=5),
        st.lists(numbers, max_size=4).map(tuple),
    ),
)


def tail_of(
    log: LogPart = LOG,
    indexes: Mapping[IndexType, bytes] | None = None,
    flags: int = 0,
) -> bytes:
    return build_tail(FACTS, log, INDEXES if indexes is None else indexes, flags)


def parse(tail: bytes, log: LogPart = LOG, flags: int = 0) -> object:
    return parse_tail(tail, log.length, flags, name="x.segment")


def retold(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Change the manifest of a tail, and make its checksum right again."""
    tail = tail_of()
    length = struct.unpack(">I", tail[-24:-20])[0]
    manifest = tail[-32 - length : -32]
    members = json.loads(manifest)
    change(members)
    return sealed(tail[: -32 - length], json.dumps(members).encode())


def sealed(
    indexes: bytes, manifest: bytes, *, version: int = 1, size: int | None = None
) -> bytes:
    """Write a tail by the words of formats.md, around any manifest."""
    lead = struct.pack(">QI", LOG.length + len(indexes), len(manifest))
    whole = len(indexes) + len(manifest) + 32 if size is None else size
    rest = struct.pack(">IHH8s", whole, version, 0, b"TIEREDFS")
    crc = google_crc32c.value(manifest + lead + rest)
    return indexes + manifest + lead + struct.pack(">I", crc) + rest


@given(logs, index_sets, st.integers(0, 65535))
def test_what_was_built_parses_as_what_it_was(
    log: LogPart, indexes: dict[IndexType, bytes], flags: int
) -> None:
    tail = build_tail(FACTS, log, indexes, flags)
    found = parse_tail(tail, log.length, flags, name="x")
    assert found.indexes == indexes
    assert found.manifest.segment == FACTS
    assert found.manifest.log == log
    assert parse_manifest(tail, log.length, flags, name="x") == found.manifest
    again = Manifest.parse(found.manifest_bytes)
    assert again == found.manifest
    assert again.encode() == found.manifest_bytes


def test_an_empty_index_is_there_and_an_absent_one_is_not() -> None:
    empty = dict.fromkeys(IndexType, b"")
    found = parse_tail(tail_of(indexes=empty), LOG.length, 0, name="x")
    assert found.indexes == empty
    assert parse_tail(tail_of(indexes={}), LOG.length, 0, name="x").indexes == {}


def test_the_bytes_are_those_of_the_format() -> None:
    indexes = dict(
        zip(reversed(IndexType), [b"t", b"ee", b"", b"ii", b"o"], strict=True)
    )
    tail = tail_of(indexes=indexes)
    members = json.loads(tail[6:-32])
    assert tail[:6] == b"oii" + b"eet"
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    assert tail == sealed(b"oiieet", text.encode())
    assert members["version"] == 1
    assert members["segment"] == {
        "topic": "t",
        "topic_id": "A" * 22,
        "partition": 0,
        "id": "dao62lTOQsGBPyjJLrpQKw",
        "start_offset": 0,
        "end_offset": 9,
        "record_count": 10,
        "first_timestamp_ms": 5,
        "max_timestamp_ms": 14,
        "broker_id": -1,
        "leader_epochs": {"0": 0, "4": 7},
    }
    assert members["log"] == {
        "length": 100,
        "original_length": 100,
        "crc32c": 7,
        "chunks": None,
    }
    assert {kind: part["position"] for kind, part in members["indexes"].items()} == {
        "OFFSET": 100,
        "TIMESTAMP": 101,
        "PRODUCER_SNAPSHOT": 103,
        "LEADER_EPOCH": 103,
        "TRANSACTION": 105,
    }
    assert members["indexes"]["TIMESTAMP"]["crc32c"] == google_crc32c.value(b"ii")


def test_the_same_segment_has_the_same_tail() -> None:
    assert tail_of() == tail_of(indexes=dict(reversed(INDEXES.items())))


def test_every_flip_of_a_byte_is_noticed() -> None:
    tail = tail_of()
    for at in range(len(tail)):
        for flip in (1, 128, 255):
            wrong = bytearray(tail)
            wrong[at] ^= flip
            with pytest.raises(
                (CorruptDataError, UnsupportedFormatError), match=r"x\.seg"
            ):
                parse(bytes(wrong))


def test_every_cut_is_noticed() -> None:
    tail = tail_of()
    for cut in range(len(tail)):
        with pytest.raises(CorruptObjectError, match=r"x\.segment"):
            parse(tail[:cut])
        with pytest.raises(CorruptObjectError, match=r"x\.segment"):
            parse(tail[len(tail) - cut :])


@given(st.data(), st.sampled_from([{}, INDEXES, dict.fromkeys(IndexType, b"")]))
def test_damage_is_a_typed_error_or_none(
    data: st.DataObject, indexes: dict[IndexType, bytes]
) -> None:
    tail = tail_of(indexes=indexes)
    wrong = data.draw(damaged(tail))
    try:
        parse(wrong)
    except TieredFSError:
        return
    assert wrong == tail


@given(st.binary(max_size=200))
@example(b"")
@example(b"TIEREDFS")
@example(bytes(24) + b"TIEREDFS")
def test_other_bytes_are_no_tail(data: bytes) -> None:
    with pytest.raises(CorruptObjectError):
        parse(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.data(), json_values)
def test_a_manifest_with_another_member_is_a_typed_error_or_read(
    data: st.DataObject, value: object
) -> None:
    def change(members: dict[str, Any]) -> None:
        place: Any = members
        while True:
            names = sorted(place)
            name = data.draw(st.sampled_from(names))
            inside = place[name]
            if isinstance(inside, dict) and inside and data.draw(st.booleans()):
                place = inside
                continue
            if data.draw(st.booleans()):
                place[name] = value
            else:
                del place[name]
            return

    try:
        found = parse_tail(retold(change), LOG.length, 0, name="x")
    except (CorruptDataError, UnsupportedFormatError):
        return
    assert found.manifest == Manifest.parse(found.manifest.encode())


def test_members_of_a_newer_writer_are_ignored() -> None:
    def change(members: dict[str, Any]) -> None:
        members["encryption"] = None
        members["segment"]["colour"] = "red"
        members["log"]["md5"] = ""
        members["indexes"]["OFFSET"]["kind"] = 3

    found = parse_tail(retold(change), LOG.length, 0, name="x")
    assert found.manifest.segment == FACTS
    assert found.indexes == INDEXES


def test_an_index_of_a_newer_writer_is_passed_over() -> None:
    def change(members: dict[str, Any]) -> None:
        members["indexes"]["COLOUR"] = members["indexes"].pop("OFFSET")

    found = parse_tail(retold(change), LOG.length, 0, name="x")
    assert found.indexes == {IndexType.PRODUCER_SNAPSHOT: b"snapshot"}


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("segment", "partition", "0"),
        ("segment", "partition", True),
        ("segment", "topic", 0),
        ("segment", "record_count", 1.0),
        ("segment", "leader_epochs", []),
        ("segment", "leader_epochs", {"a": 0}),
        ("segment", "leader_epochs", {"-1": 0}),
        ("segment", "leader_epochs", {"1": 0, "2": 0}),
        ("segment", "leader_epochs", {"1": 5, "2": 3}),
        ("segment", "leader_epochs", {"1": "0"}),
        ("log", "length", 99),
        ("log", "length", -1),
        ("log", "original_length", None),
        ("log", "chunks", {}),
        ("log", "chunks", []),
        ("log", "chunks", {"original_size": 1, "codec": "zstd", "lengths": [-1]}),
        ("log", "chunks", {"original_size": 1, "codec": 1, "lengths": []}),
        ("log", "chunks", {"original_size": 1, "codec": "zstd", "lengths": 1}),
        ("log", "chunks", {"original_size": 1, "codec": "\ud800", "lengths": []}),
        ("segment", "topic", "half a character: \ud83d"),
        ("indexes", "\ud83d", {"position": 100, "length": 0, "crc32c": 0}),
    ],
)
def test_a_member_that_is_not_what_it_has_to_be_is_named(
    place: str, name: str, value: object
) -> None:
    def change(members: dict[str, Any]) -> None:
        members[place][name] = value

    with pytest.raises(CorruptObjectError, match=r"x\.segment.*manifest"):
        parse(retold(change))


@pytest.mark.parametrize(
    ("name", "value"),
    [("position", 99), ("position", 101), ("length", 7), ("length", 9), ("crc32c", 1)],
)
def test_an_index_that_lies_elsewhere_is_corrupt(name: str, value: int) -> None:
    def change(members: dict[str, Any]) -> None:
        members["indexes"]["OFFSET"][name] = value

    with pytest.raises(CorruptIndexError, match=r"x\.segment"):
        parse(retold(change))


def test_bytes_that_are_no_index_s_are_corrupt() -> None:
    def change(members: dict[str, Any]) -> None:
        del members["indexes"]["PRODUCER_SNAPSHOT"]

    with pytest.raises(CorruptObjectError, match="8 bytes"):
        parse(retold(change))


@pytest.mark.parametrize(
    "manifest", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b"1" * 5000]
)
def test_another_manifest_is_corrupt(manifest: bytes) -> None:
    with pytest.raises(CorruptObjectError, match="manifest"):
        parse(sealed(b"", manifest))


def test_another_version_is_not_read() -> None:
    def change(members: dict[str, Any]) -> None:
        members["version"] = 2

    with pytest.raises(UnsupportedFormatError, match=r"x\.segment.*version 2"):
        parse(retold(change))
    with pytest.raises(UnsupportedFormatError, match=r"x\.segment.*version 2"):
        parse(sealed(b"", b"{}", version=2))


def test_a_version_with_half_a_character_is_named_in_the_error() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"version '\\ud83d'") as caught:
        parse(sealed(b"", b'{"version":"\\ud83d"}'))
    assert str(caught.value).isascii()


def test_the_key_must_match_the_tail() -> None:
    tail = tail_of()
    with pytest.raises(CorruptObjectError, match="flags"):
        parse(tail, flags=1)
    for length in (0, 99, 101, 1 << 50):
        with pytest.raises(CorruptObjectError):
            parse(tail, replace(LOG, length=length))


def test_a_manifest_is_read_beside_an_index_that_is_damaged() -> None:
    tail = b"X" + tail_of()[1:]
    with pytest.raises(CorruptIndexError, match="OFFSET"):
        parse(tail)
    found = parse_manifest(tail, LOG.length, 0, name="x")
    assert found.segment == FACTS
    assert found.indexes["OFFSET"] == TailPart(100, 8, google_crc32c.value(b"o" * 8))
