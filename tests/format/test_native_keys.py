import string

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from tieredfs import SegmentId, TopicIdPartition, UnsupportedFormatError, Uuid
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.key_scheme import OWN_FOLDER
from tieredfs.format.segment.native_keys import NativeKeys

KEYS = NativeKeys()
ID = SegmentId("dao62lTOQsGBPyjJLrpQKw")
DASHES = SegmentId("-" * 21 + "w")
LAST = (1 << 63) - 2
KEY = SegmentKey(9, 0, 1_700_000_000_009, 3, 700, 432, SegmentFlag(0), ID)
STEM = (
    "00000000000000000009-00000000000000000000-00000001700000000009-0000000003-"
    "0000000000700-0000000432-0000-dao62lTOQsGBPyjJLrpQKw"
)

ids = st.binary(min_size=16, max_size=16).map(SegmentId.from_bytes)


@st.composite
def keys(draw: st.DrawFn) -> SegmentKey:
    start = draw(st.integers(0, LAST))
    return SegmentKey(
        draw(st.integers(start, LAST)),
        start,
        draw(st.integers(-1 << 63, (1 << 63) - 1)),
        draw(st.integers(-1, (1 << 31) - 1)),
        draw(st.integers(0, 10**13 - 1)),
        draw(st.integers(0, 10**10 - 1)),
        SegmentFlag(draw(st.integers(0, 3))),
        draw(ids),
    )


def test_a_stem_has_the_fields_and_widths_of_the_format() -> None:
    assert KEYS.stem(KEY) == STEM
    assert len(STEM) == 126
    assert KEY.size == 1132


@given(keys())
@example(KEY)
@example(SegmentKey(LAST, LAST, -1, -1, 0, 0, SegmentFlag(3), DASHES))
def test_a_stem_reads_back_as_what_was_written(key: SegmentKey) -> None:
    assert KEYS.parse_stem(KEYS.stem(key)) == key
    assert len(KEYS.stem(key)) == 126


@given(keys(), keys())
def test_stems_sort_by_their_ends(one: SegmentKey, other: SegmentKey) -> None:
    ends = one.end_offset, one.start_offset
    others = other.end_offset, other.start_offset
    assert ends == others or (KEYS.stem(one) < KEYS.stem(other)) == (ends < others)


@given(keys(), st.integers(0, LAST))
def test_a_seek_finds_the_segments_that_end_there_or_later(
    key: SegmentKey, offset: int
) -> None:
    partition = TopicIdPartition("t", 0)
    name = KEYS.object_key(partition, KEYS.stem(key))
    after = KEYS.seek_key(partition, offset)
    assert (name > after) == (key.end_offset >= offset)
    assert after == (f"t/{'A' * 22}/0/{offset - 1:020d}." if offset else "")


def test_no_timestamp_and_no_epoch_are_minus_one() -> None:
    key = SegmentKey(9, 0, -1, -1, 1, 1, SegmentFlag(0), ID)
    assert "--0000000000000000001--000000001-" in KEYS.stem(key)


@pytest.mark.parametrize(
    "stem",
    [
        "",
        STEM[:-1],
        f"{STEM}w",
        f"0{STEM}",
        STEM[1:],
        f"{STEM}\n",
        f" {STEM}",
        STEM.replace("0000000003", "000000003"),
        STEM.replace("0000000003", "00000000003"),
        STEM.replace("-0000000003-", "_0000000003-"),
        STEM.replace("0000000003", "000000000x"),
        STEM.replace("0000000003", "000000000٣"),
        STEM.replace("0000000003", "+000000003"),
        # Minus zero, and numbers below it that no writer has.
        STEM.replace("0000000003", "-000000000"),
        STEM.replace("0000000003", "-000000002"),
        STEM.replace("00000001700000000009", "-0000000000000000000"),
        STEM.replace("00000000000000000009", "-0000000000000000001"),
        STEM.replace("0000000000700", "-000000000700"),
        # What no int64 or int32 holds.
        STEM.replace("00000001700000000009", "09223372036854775808"),
        STEM.replace("00000001700000000009", "-9223372036854775809"),
        STEM.replace("0000000003", "2147483648"),
        STEM.replace("00000000000000000009", "09223372036854775807"),
        STEM.replace("00000000000000000009", "99999999999999999999"),
        # An end before the start.
        STEM.replace("00000000000000000000", "00000000000000000010"),
        # An id that is not canonical, flags in capitals.
        STEM.replace("LrpQKw", "LrpQKx"),
        STEM.replace("-0000-d", "-000A-d"),
        STEM.upper(),
    ],
)
def test_another_name_is_foreign(stem: str) -> None:
    assert stem != STEM
    assert KEYS.parse_stem(stem) is None


@given(st.text(alphabet="0123456789abcdef-AZ_", min_size=120, max_size=132))
def test_what_is_read_is_written_again_as_it_was(stem: str) -> None:
    try:
        key = KEYS.parse_stem(stem)
    except UnsupportedFormatError:
        return
    assert key is None or KEYS.stem(key) == stem


@given(keys(), st.integers(0, 125), st.sampled_from(string.printable))
def test_a_changed_character_is_another_key_or_none(
    key: SegmentKey, at: int, character: str
) -> None:
    changed = KEYS.stem(key)[:at] + character + KEYS.stem(key)[at + 1 :]
    try:
        found = KEYS.parse_stem(changed)
    except UnsupportedFormatError:
        return
    assert found is None or KEYS.stem(found) == changed


@pytest.mark.parametrize("flags", ["0004", "0008", "8000", "ffff", "0007"])
def test_a_flag_of_a_newer_version_is_refused_by_name(flags: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"dao62.*flags {flags}"):
        KEYS.parse_stem(STEM.replace("-0000-d", f"-{flags}-d"))


def topic_of(folder: str) -> str | None:
    partition = KEYS.parse_partition([folder, str(ID), "0"])
    return None if partition is None else partition.topic


class TestFolders:
    def test_a_topic_has_its_own_name(self) -> None:
        for topic in ("orders", "a-b.c_d", "..a", "con-1", "con.txt", "x" * 249):
            assert KEYS.topic_prefix(topic) == f"{topic}/"
            assert topic_of(topic) == topic

    @pytest.mark.parametrize(
        "topic",
        ["a.", "...", "con", "CON", "Nul", "prn", "aux", "com1", "LPT9", "com0"],
    )
    def test_a_topic_that_a_disk_cannot_have_is_marked(self, topic: str) -> None:
        assert KEYS.topic_prefix(topic) == f"{topic}=/"
        assert topic_of(f"{topic}=") == topic

    @pytest.mark.parametrize("folder", ["orders=", "con", "a.", "con==", "="])
    def test_a_folder_that_no_topic_has_is_foreign(self, folder: str) -> None:
        assert KEYS.parse_partition([folder, "A" * 22, "0"]) is None

    def test_the_layout_s_own_folder_is_not_a_topic_s(self) -> None:
        assert KEYS.parse_partition([OWN_FOLDER.rstrip("/"), "A" * 22, "0"]) is None

    def test_a_prefix_reads_back_as_its_partition(self) -> None:
        for topic in ("orders", "con", "a."):
            partition = TopicIdPartition(topic, 12, Uuid(str(ID)))
            prefix = KEYS.partition_prefix(partition)
            assert prefix == f"{KEYS.topic_prefix(topic)}{ID}/12/"
            assert KEYS.parse_partition(prefix[:-1].split("/")) == partition

    def test_only_folders_of_a_topic_may_lead_to_its_partitions(self) -> None:
        for folders in (["orders"], ["con="], ["orders", str(ID)]):
            assert KEYS.may_lead_to_partitions(folders)
        for folders in (["a b"], ["con"], ["@tieredfs"], ["orders", "A"], ["", ""]):
            assert not KEYS.may_lead_to_partitions(folders)

    def test_topics_of_one_name_and_two_ids_have_two_folders(self) -> None:
        one = TopicIdPartition("t", 0, Uuid(str(ID)))
        other = TopicIdPartition("t", 0)
        assert KEYS.partition_prefix(one) != KEYS.partition_prefix(other)

    @pytest.mark.parametrize(
        "number", ["", "-1", "+1", "01", "1.0", "٣", "2147483648", "99999999999", "a"]
    )
    def test_another_number_is_foreign(self, number: str) -> None:
        assert KEYS.parse_partition(["t", str(ID), number]) is None

    @pytest.mark.parametrize(
        "topic_id", ["", "A" * 21, "A" * 23, "_" * 22, "A" * 21 + "="]
    )
    def test_another_id_is_foreign(self, topic_id: str) -> None:
        assert KEYS.parse_partition(["t", topic_id, "0"]) is None

    @pytest.mark.parametrize("topic", ["", ".", "..", "a b", "é", "x" * 250, "a\n"])
    def test_an_illegal_topic_is_foreign(self, topic: str) -> None:
        assert KEYS.parse_partition([topic, str(ID), "0"]) is None
