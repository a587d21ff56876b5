"""What is parsed of an object is what KafScale's own parsers say of it."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import DATA, parsed
from tieredfs import CorruptIndexError, CorruptObjectError, UnsupportedFormatError
from tieredfs_kafscale.index_file import (
    IndexEntry,
    SparseIndexBuilder,
    parse_index,
    to_offset_index,
)
from tieredfs_kafscale.segment_file import (
    FOOTER_SIZE,
    HEADER_SIZE,
    SegmentFooter,
    SegmentHeader,
)
from tieredfs_kafscale.time_sidecar import TimeSidecar


@pytest.mark.parametrize("key", parsed("kfs"))
def test_a_segment_has_the_header_and_the_footer_that_its_writer_reads(
    key: str,
) -> None:
    data = (DATA / "store" / key).read_bytes()
    said = parsed("kfs")[key]
    header = SegmentHeader.parse(data, key)
    footer = SegmentFooter.parse(data[-FOOTER_SIZE:], key)
    assert header.base_offset == said["header"]["base_offset"]
    assert header.message_count == said["header"]["message_count"]
    assert header.created_ms == said["header"]["created_ms"]
    assert footer.checksum == said["footer"]["crc32c"]
    assert footer.last_offset == said["footer"]["last_offset"]
    assert header.encode() == data[:HEADER_SIZE]
    assert footer.encode() == data[-FOOTER_SIZE:]


@pytest.mark.parametrize("key", parsed("index"))
def test_an_index_has_the_entries_that_its_writer_reads(key: str) -> None:
    found = parse_index((DATA / "store" / key).read_bytes(), key)
    assert [list(entry) for entry in found] == parsed("index")[key]["entries"]


@pytest.mark.parametrize("path", sorted(DATA.glob("store/**/*.kfst")), ids=str)
def test_a_sidecar_is_written_as_it_is_read(path: Path) -> None:
    data = path.read_bytes()
    times = TimeSidecar.parse(data)
    assert times is not None
    assert times.encode() == data
    assert TimeSidecar.parse(b"before it" + data) == times
    assert TimeSidecar.parse(data[:-1]) is None
    assert TimeSidecar.parse(b"X" + data[1:]) is None


class TestMalformed:
    INDEX = SparseIndexBuilder(1)
    INDEX.add(7, 32, 1)
    DATA = INDEX.encode()

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", CorruptIndexError),
            (DATA[:15], CorruptIndexError),
            (b"IDX\n" + DATA[4:], CorruptIndexError),
            (DATA[:5] + b"\2" + DATA[6:], UnsupportedFormatError),
            (DATA[:6] + struct.pack(">i", -1) + DATA[10:], CorruptIndexError),
            (DATA[:6] + struct.pack(">i", 2) + DATA[10:], CorruptIndexError),
            (DATA[:-1], CorruptIndexError),
        ],
    )
    def test_an_index_is_an_error_that_names_it(
        self, data: bytes, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match=r"^the\.index: "):
            parse_index(data, "the.index")

    def test_bytes_behind_the_entries_of_an_index_are_ignored(self) -> None:
        assert parse_index(self.DATA + b"more", "") == [(7, 32)]

    @pytest.mark.parametrize("size", range(FOOTER_SIZE + 2))
    def test_a_footer_is_an_error_that_names_its_object(self, size: int) -> None:
        with pytest.raises(CorruptObjectError, match=r"^the\.kfs: "):
            SegmentFooter.parse(b"x" * size, "the.kfs")

    @pytest.mark.parametrize("size", [0, HEADER_SIZE - 1, HEADER_SIZE])
    def test_a_header_is_an_error_that_names_its_object(self, size: int) -> None:
        with pytest.raises(CorruptObjectError, match=r"^the\.kfs: "):
            SegmentHeader.parse(b"x" * size, "the.kfs")

    def test_a_later_version_is_not_supported(self) -> None:
        data = bytearray(SegmentHeader(0, 1, 2).encode())
        data[5] = 2
        with pytest.raises(UnsupportedFormatError, match="version 2"):
            SegmentHeader.parse(bytes(data), "the.kfs")


@given(
    counts=st.lists(st.integers(1, 250), min_size=1, max_size=40),
    interval=st.integers(1, 300),
)
def test_an_entry_comes_when_an_interval_of_records_has_passed_since_the_last(
    counts: list[int], interval: int
) -> None:
    builder = SparseIndexBuilder(interval)
    begins = []
    offset, position = 5, HEADER_SIZE
    for count in counts:
        builder.add(offset, position, count)
        begins.append(IndexEntry(offset, position))
        offset, position = offset + count, position + 61 + count
    entries = parse_index(builder.encode(), "")
    assert entries[0] == begins[0]
    assert set(entries) <= set(begins)
    for one, following in pairwise(entries):
        between = [begin.offset for begin in begins if one < begin < following]
        assert following.offset - one.offset >= interval
        assert all(begin - one.offset < interval for begin in between)
    found = to_offset_index(entries, 5, offset - 1, position - HEADER_SIZE)
    assert found is not None
    for number, (last, at) in enumerate(struct.iter_unpack(">ii", found), 1):
        after = entries[number + 1].offset if number + 1 < len(entries) else offset
        assert (last + 5, at + HEADER_SIZE) == (after - 1, entries[number].position)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [(6, 32)],
        [(5, 33)],
        [(5, 32), (5, 60)],
        [(5, 32), (9, 32)],
        [(5, 32), (20, 60)],
        [(5, 32), (9, 132)],
    ],
)
def test_an_index_of_another_segment_is_not_converted(
    entries: list[tuple[int, int]],
) -> None:
    found = [IndexEntry(*entry) for entry in entries]
    assert to_offset_index(found, 5, 19, 100) is None
