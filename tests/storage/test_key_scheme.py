"""A second way to name segments is one subclass of ``KeyScheme``, and this file has it.

The native layout, told to use it, keeps every rule of the contract.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    RequestCounter,
    SegmentId,
    TopicIdPartition,
    Uuid,
)
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.key_scheme import OWN_FOLDER, KeyScheme
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import CHECKS, Check
from tieredfs.testing.samples import PARTITIONS, all_samples

_PARTITION: Final = re.compile(r"(0|[1-9]\d{0,9})\+([A-Za-z0-9_-]{22})", re.ASCII)
_STEM: Final = re.compile(
    r"([0-9a-f]{16})_([0-9a-f]{16})_([0-9a-f]{16})_([0-9a-f]{8})"
    r"_([0-9a-f]{12})_([0-9a-f]{10})_([0-3])_([A-Za-z0-9_-]{22})"
)
_ZERO: Final = 1 << 63


class HexKeys(KeyScheme):
    """Name a segment ``tier/<topic>/<partition>+<topic id>/<fields in hex>.seg``."""

    depth: ClassVar[int] = 3
    suffix: ClassVar[str] = ".seg"

    def topic_prefix(self, topic: str) -> str:
        return f"tier/{topic}/"

    def partition_prefix(self, partition: TopicIdPartition) -> str:
        last = f"{partition.partition}+{partition.topic_id}"
        return f"{self.topic_prefix(partition.topic)}{last}/"

    def parse_partition(self, folders: Sequence[str]) -> TopicIdPartition | None:
        if len(folders) != self.depth or folders[0] != "tier":
            return None
        match = _PARTITION.fullmatch(folders[2])
        if match is None:
            return None
        try:
            return TopicIdPartition(folders[1], int(match[1]), Uuid(match[2]))
        except InvalidArgumentError:
            return None

    def stem(self, key: SegmentKey) -> str:
        return (
            f"{key.end_offset:016x}_{key.start_offset:016x}_"
            f"{key.max_timestamp_ms + _ZERO:016x}_{key.epoch + 1:08x}_"
            f"{key.log_length:012x}_{key.tail_length:010x}_{key.flags:x}_{key.id}"
        )

    def parse_stem(self, stem: str) -> SegmentKey | None:
        match = _STEM.fullmatch(stem)
        if match is None:
            return None
        end, start, stamp, epoch, log, tail, flags = (
            int(field, 16) for field in match.groups()[:7]
        )
        try:
            segment_id = SegmentId(match[8])
        except InvalidArgumentError:
            return None
        return SegmentKey(
            end,
            start,
            stamp - _ZERO,
            epoch - 1,
            log,
            tail,
            SegmentFlag(flags),
            segment_id,
        )

    def stem_beginning(self, end_offset: int, start_offset: int | None = None) -> str:
        start = "" if start_offset is None else f"{start_offset:016x}_"
        return f"{end_offset:016x}_{start}"


class HexObjects(SingleObject):
    """The native layout with these names."""

    keys: ClassVar[KeyScheme] = HexKeys()


def compressed(store: ObjectStore) -> HexObjects:
    return HexObjects(store, compression="zstd")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make_storage", [HexObjects, compressed])
def test_the_layout_keeps_every_rule_under_other_names(
    make_storage: type[HexObjects], check: Check
) -> None:
    check(make_storage)


@pytest.fixture
def filled(memory: ObjectStore) -> ObjectStore:
    """A store with the samples of the kit under the other names."""
    for one in all_samples():
        HexObjects(memory).copy_log_segment(one.metadata, one.data)
    return memory


def test_every_object_has_a_name_of_the_scheme(filled: ObjectStore) -> None:
    stored = [entry.key for entry in filled.list()]
    assert len(stored) == len(list(all_samples()))
    assert all(HexKeys().is_segment_key(key) for key in stored)
    assert HexObjects.recognises(stored) == 1
    assert SingleObject.recognises(stored) == 0


def test_a_seek_lists_once_from_the_offset_on(filled: ObjectStore) -> None:
    *_, last = HexObjects(filled).list_segments(PARTITIONS[0])
    assert last.end_offset is not None
    counter = RequestCounter()
    storage = HexObjects(ObjectStore(filled.url, observer=counter))
    assert storage.seek(PARTITIONS[0], last.end_offset) == [last]
    assert counter.by_verb() == {"list": 1}


SCHEMES = pytest.mark.parametrize("keys", [NativeKeys(), HexKeys()])
LAST = (1 << 63) - 2

offsets = st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(sorted)


@st.composite
def segment_keys(draw: st.DrawFn) -> SegmentKey:
    start, end = draw(offsets)
    return SegmentKey(
        end,
        start,
        draw(st.integers(-1 << 63, (1 << 63) - 1)),
        draw(st.integers(-1, (1 << 31) - 1)),
        draw(st.integers(0, 10**13 - 1)),
        draw(st.integers(0, 10**10 - 1)),
        SegmentFlag(draw(st.integers(0, 3))),
        draw(st.binary(min_size=16, max_size=16).map(SegmentId.from_bytes)),
    )


@SCHEMES
class TestWhatTheLayoutReliesOn:
    @given(key=segment_keys())
    def test_a_stem_reads_back_and_fits_into_custom_metadata(
        self, keys: KeyScheme, key: SegmentKey
    ) -> None:
        stem = keys.stem(key)
        assert keys.parse_stem(stem) == key
        assert keys.epoch_of(stem) == key.epoch
        assert len(stem.encode("ascii")) <= 128
        assert not set("/.") & set(stem)
        assert key.id in stem

    @given(one=segment_keys(), other=segment_keys())
    def test_stems_sort_by_end_then_by_start(
        self, keys: KeyScheme, one: SegmentKey, other: SegmentKey
    ) -> None:
        ends = one.end_offset, one.start_offset
        others = other.end_offset, other.start_offset
        assert ends == others or (keys.stem(one) < keys.stem(other)) == (ends < others)

    @given(key=segment_keys(), offset=st.integers(0, LAST))
    def test_a_stem_begins_with_its_offsets_and_no_others(
        self, keys: KeyScheme, key: SegmentKey, offset: int
    ) -> None:
        stem = keys.stem(key)
        assert stem.startswith(keys.stem_beginning(key.end_offset, key.start_offset))
        begins = stem.startswith(keys.stem_beginning(offset))
        assert begins == (offset == key.end_offset)

    @given(key=segment_keys(), offset=st.integers(0, LAST), is_near=st.booleans())
    def test_a_seek_finds_the_segments_that_end_there_or_later(
        self, keys: KeyScheme, key: SegmentKey, offset: int, *, is_near: bool
    ) -> None:
        partition = TopicIdPartition("t", 0)
        path = keys.object_key(partition, keys.stem(key))
        sought = key.end_offset + offset % 2 if is_near else offset
        after = keys.seek_key(partition, sought)
        assert (path > after) == (key.end_offset >= sought)

    def test_a_folder_reads_back_as_its_partition(self, keys: KeyScheme) -> None:
        for topic in ("orders", "a-b.c_d"):
            partition = TopicIdPartition(topic, 12, Uuid("dao62lTOQsGBPyjJLrpQKw"))
            prefix = keys.partition_prefix(partition)
            assert prefix.startswith(keys.topic_prefix(topic))
            assert not prefix.startswith(OWN_FOLDER)
            folders = prefix[:-1].split("/")
            assert len(folders) == keys.depth
            assert keys.parse_partition(folders) == partition
            assert keys.may_lead_to_partitions(folders[:-1])
