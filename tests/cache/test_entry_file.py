"""An entry's file: what was written comes back, and nothing else ever does."""

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cache.made import bytes_of, content_of, made_segment
from support.damage import damaged, flipped
from tieredfs import EpochEntry, IndexType, SegmentIndexes
from tieredfs.cache.description import SegmentDescription
from tieredfs.cache.entry_file import (
    InvalidEntryError,
    decode_entry,
    encode_entry,
    entry_identity,
)
from tieredfs.format.checksum import crc32c

IDENTITY = bytes(range(32))
IDENTITIES = st.binary(min_size=32, max_size=32)
INDEXES = st.builds(
    SegmentIndexes,
    st.dictionaries(
        st.sampled_from(IndexType), st.binary(max_size=100).map(memoryview)
    ),
    st.binary(max_size=50),
)


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DESCRIPTIONS = st.builds(
    SegmentDescription,
    INT64,
    INT64,
    INT64,
    st.lists(st.builds(EpochEntry, INT64, INT64), max_size=3).map(tuple),
    st.none() | st.integers(0, (1 << 63) - 1),
    st.booleans(),
)
DESCRIPTION = SegmentDescription(9, 8, 7, (EpochEntry(0, 0), EpochEntry(3, 5)), 6)


def written(
    found: SegmentIndexes,
    identity: bytes = IDENTITY,
    description: SegmentDescription | None = None,
) -> bytes:
    return b"".join(encode_entry(identity, found, description))


def made(description: SegmentDescription | None = DESCRIPTION) -> bytes:
    content = content_of(made_segment(0))
    views = {kind: memoryview(data) for kind, data in content.items()}
    return written(SegmentIndexes(views, b"layout"), IDENTITY, description)


def read(data: bytes, identity: bytes = IDENTITY) -> SegmentIndexes:
    return decode_entry(memoryview(data), identity).indexes


@given(IDENTITIES, INDEXES, st.none() | DESCRIPTIONS)
def test_what_was_written_comes_back(
    identity: bytes, found: SegmentIndexes, description: SegmentDescription | None
) -> None:
    data = written(found, identity, description)
    again = read(data, identity)
    assert bytes_of(again) == bytes_of(found)
    assert again.layout == found.layout
    assert decode_entry(memoryview(data), identity).description == description
    assert entry_identity(memoryview(data)) == identity


def test_indexes_are_views_that_lie_at_multiples_of_eight() -> None:
    data = bytearray(made())
    found = decode_entry(memoryview(data).toreadonly(), IDENTITY).indexes
    for kind, section in found.items():
        assert section.obj is data
        assert section.readonly
        assert data.index(content_of(made_segment(0))[kind]) % 8 == 0


def test_every_flipped_bit_is_found() -> None:
    data = made()
    for position in range(len(data)):
        for bit in range(8):
            with pytest.raises(InvalidEntryError):
                read(flipped(data, position, 1 << bit))


def test_every_cut_and_every_byte_too_many_is_found() -> None:
    data = made()
    for end in range(len(data)):
        with pytest.raises(InvalidEntryError):
            read(data[:end])
    for more in (b"\0", bytes(8), b"x" * 4096, data):
        with pytest.raises(InvalidEntryError):
            read(data + more)


@pytest.mark.parametrize("other", [bytes(32), b"\xff" * 32], ids=["less", "more"])
def test_another_identity_is_another_entry(other: bytes) -> None:
    with pytest.raises(InvalidEntryError, match="another store or segment"):
        read(made(), other)


FIRST = 112
"""Where the sections of a file with two of them begin."""


def laid_out(
    *sections: tuple[int, int, bytes], body: bytes, lengths: tuple[int, ...] = ()
) -> bytes:
    """Write a file as it is described, its checksums right: the kind, place, bytes."""
    assert len(sections) == 2
    head = struct.pack("<8sIIQ", b"TFSINDEX", 1, 2, FIRST + len(body)) + IDENTITY
    sizes = lengths or tuple(len(data) for _, _, data in sections)
    for (kind, position, data), size in zip(sections, sizes, strict=True):
        head += struct.pack("<IIQQ", kind, crc32c(data), position, size)
    head += struct.pack("<I", crc32c(head))
    return head + bytes(FIRST - len(head)) + body


ONE, OTHER, SHORT = b"12345678", b"abcdefgh", b"short"


def test_a_file_is_laid_out_as_it_is_described() -> None:
    """A program of another version reads it: kinds keep their numbers."""
    numbers = {
        1: IndexType.OFFSET,
        2: IndexType.TIMESTAMP,
        3: IndexType.PRODUCER_SNAPSHOT,
        4: IndexType.LEADER_EPOCH,
        5: IndexType.TRANSACTION,
    }
    for number, kind in numbers.items():
        for data, padded in ((ONE, ONE), (SHORT, SHORT + bytes(3))):
            expected = laid_out(
                (number, FIRST, data),
                (100, FIRST + 8, b"layout"),
                body=padded + b"layout\0\0",
            )
            found = SegmentIndexes({kind: memoryview(data)}, b"layout")
            assert written(found) == expected
            assert bytes_of(read(expected)) == {kind: data}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            laid_out((1, FIRST, ONE), (2, FIRST + 16, OTHER), body=ONE + ONE + OTHER),
            r"section 2 is misplaced: \[128, 136\)",
        ),
        (
            laid_out((1, FIRST, ONE), (2, FIRST, ONE + OTHER), body=ONE + OTHER),
            r"section 2 is misplaced: \[112, 128\)",
        ),
        (
            laid_out(
                (1, FIRST, ONE), (2, FIRST + 8, OTHER), body=ONE + OTHER, lengths=(8, 9)
            ),
            r"section 2 is misplaced: \[120, 129\)",
        ),
        (
            laid_out((2, FIRST, ONE), (1, FIRST + 8, OTHER), body=ONE + OTHER),
            "section 1 comes after section 2",
        ),
        (
            laid_out((1, FIRST, ONE), (102, FIRST + 8, OTHER), body=ONE + OTHER),
            "section 102 is unknown",
        ),
        (
            laid_out((1, FIRST, ONE), (2, FIRST + 8, SHORT), body=ONE + SHORT),
            "the sections end at 128 of 125 bytes",
        ),
        (
            laid_out((1, FIRST, ONE), (2, FIRST + 8, OTHER), body=ONE + OTHER + ONE),
            "the sections end at 128 of 136 bytes",
        ),
    ],
    ids=["hole", "twice", "long", "order", "kind", "no padding", "something behind"],
)
def test_a_file_whose_checksums_are_right_is_refused_where_its_table_is_wrong(
    data: bytes, message: str
) -> None:
    with pytest.raises(InvalidEntryError, match=message):
        read(data)


def test_a_file_that_ends_in_the_checksum_of_its_head_is_refused() -> None:
    head = struct.pack("<8sIIQ", b"TFSINDEX", 1, 0, 58) + IDENTITY
    with pytest.raises(InvalidEntryError, match="58 bytes"):
        read(head + bytes(2))


def test_a_header_gives_the_size_of_its_file() -> None:
    size = len(made())
    for wrong in (size - 8, size + 8):
        data = sealed(made(), 16, struct.pack("<Q", wrong))
        with pytest.raises(InvalidEntryError, match=f"its header gives {wrong}"):
            read(data)


def test_more_sections_than_there_are_kinds_are_of_another_version() -> None:
    with pytest.raises(InvalidEntryError, match="not of version 1"):
        read(sealed(made(), 12, struct.pack("<I", 8)))


def sealed(data: bytes, at: int, change: bytes) -> bytes:
    """Change the head of a file, and make its checksum right again."""
    out = bytearray(data)
    out[at : at + len(change)] = change
    end = 56 + 24 * struct.unpack_from("<I", out, 12)[0]
    if end + 4 <= len(out):
        out[end : end + 4] = struct.pack("<I", crc32c(out[:end]))
    return bytes(out)


@pytest.mark.parametrize("version", [0, 2, 1 << 31])
def test_no_version_but_this_one_is_understood(version: int) -> None:
    with pytest.raises(InvalidEntryError, match="version 1"):
        read(sealed(made(), 8, struct.pack("<I", version)))


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (56, struct.pack("<I", 77)),  # an unknown kind
        (56, struct.pack("<I", 2)),  # one that comes twice
        (64, struct.pack("<Q", 0)),  # a section within the head
        (64, struct.pack("<Q", 1 << 63)),  # … and beyond the end
        (72, struct.pack("<Q", (1 << 64) - 1)),  # … and longer than everything
        (72, struct.pack("<Q", 0)),  # … and empty
        (12, struct.pack("<I", 0)),  # no sections at all
        (12, struct.pack("<I", 8)),  # more than there can be
        (16, struct.pack("<Q", 0)),  # a file without bytes
    ],
    ids=lambda value: str(value) if isinstance(value, int) else value.hex(),
)
def test_a_head_that_contradicts_the_file_is_found(at: int, change: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        read(sealed(made(), at, change))


def test_a_file_of_the_release_before_descriptions_is_read() -> None:
    old = made(description=None)
    assert struct.unpack_from("<I", old, 12)[0] == 6  # five indexes and the layout's
    found = decode_entry(memoryview(old), IDENTITY)
    assert bytes_of(found.indexes) == content_of(made_segment(0))
    assert found.description is None


def described(section: bytes) -> bytes:
    """Write a file with an index and a description, its checksums right."""
    padded = section + bytes(-len(section) % 8)
    return laid_out((1, FIRST, ONE), (101, FIRST + 8, section), body=ONE + padded)


def test_a_description_is_laid_out_as_it_is_described() -> None:
    section = struct.pack("<qqqqII", 9, 8, 7, 6, 0, 2) + struct.pack("<4q", 0, 0, 3, 5)
    found = decode_entry(memoryview(described(section)), IDENTITY)
    assert found.description == DESCRIPTION
    unknown = struct.pack("<qqqqII", 9, -1, 7, -1, 1, 0)
    found = decode_entry(memoryview(described(unknown)), IDENTITY)
    expected = SegmentDescription(9, -1, 7, (), is_end_checked=True)
    assert found.description == expected


@pytest.mark.parametrize(
    "section",
    [
        b"",
        bytes(39),
        struct.pack("<qqqqII", 9, 8, 7, 6, 0, 1),  # an epoch that is not there
        struct.pack("<qqqqIIqq", 9, 8, 7, 6, 0, 0, 0, 0),  # one too many
        struct.pack("<qqqqIIq", 9, 8, 7, 6, 0, 1, 0),  # half of one
        struct.pack("<qqqqII", 9, 8, 7, 6, 2, 0),  # a flag of a newer release
        struct.pack("<qqqqII", 9, 8, 7, -2, 0, 0),
    ],
    ids=["empty", "short", "none", "more", "half", "flag", "count"],
)
def test_a_description_whose_checksum_is_right_is_refused_where_it_is_wrong(
    section: bytes,
) -> None:
    with pytest.raises(InvalidEntryError, match="section 101 is malformed"):
        read(described(section))


@given(damaged(made()))
def test_damage_is_found_or_none(data: bytes) -> None:
    if data != made():
        with pytest.raises(InvalidEntryError):
            read(data)


@given(
    st.integers(0, 200),
    st.binary(min_size=1, max_size=40),
)
def test_hostile_heads_give_what_is_there_or_a_typed_error(
    at: int, change: bytes
) -> None:
    try:
        found = read(sealed(made(), at, change))
    except InvalidEntryError:
        return
    assert bytes_of(found) == content_of(made_segment(0))


@given(st.binary(max_size=300))
def test_bytes_that_are_not_an_entry_are_a_typed_error(data: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        read(data)


def test_a_file_that_is_too_short_to_say_what_it_is() -> None:
    with pytest.raises(InvalidEntryError, match="55 bytes"):
        entry_identity(memoryview(made()[:55]))
    assert entry_identity(memoryview(made()[:56])) == IDENTITY
