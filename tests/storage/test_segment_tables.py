"""A listing in columns has the segments that a listing of entries has."""

import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from tieredfs import ListedPage, ObjectStore
from tieredfs.errors import NotFoundError, TieredFSError, UnsupportedFormatError
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.key_scheme import KeyScheme
from tieredfs.format.segment.key_table import KeyTable, RowMask, key_at
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.storage import SegmentTable, StorageWrapper
from tieredfs.storage.layouts.single_object.layout import SingleObject

KEYS = NativeKeys()
PARTITION = TopicIdPartition("t", 0)

_OFFSETS = st.one_of(
    st.integers(0, 20), st.sampled_from([MAX_INT64 - 1, 10**18, 10**9])
)
_STAMPS = st.sampled_from([-1, 0, -MAX_INT64 - 1, MAX_INT64, 1_700_000_000_000])
_EPOCHS = st.one_of(st.just(-1), st.integers(0, 3), st.just(MAX_INT32))


@st.composite
def keys(draw: st.DrawFn) -> SegmentKey:
    """Draw the key of a segment."""
    one, other = sorted((draw(_OFFSETS), draw(_OFFSETS)))
    return SegmentKey(
        end_offset=other,
        start_offset=one,
        max_timestamp_ms=draw(_STAMPS),
        epoch=draw(_EPOCHS),
        log_length=draw(st.integers(0, 3) | st.just(10**13 - 1)),
        tail_length=draw(st.integers(1, 3) | st.just(10**10 - 1)),
        flags=SegmentFlag(draw(st.integers(0, 3))),
        id=SegmentId.from_bytes(draw(st.integers(1, 3)).to_bytes(16)),
    )


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Draw the stem of a segment, with some characters replaced."""
    stem = list(KEYS.stem(draw(keys())))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(stem) - 1))
        stem[at] = draw(st.sampled_from("0129-_Aaf.Zé\u0660"))
    return "".join(stem[: draw(st.sampled_from([125, 126]))])


STEMS = st.one_of(keys().map(KEYS.stem), damaged(), st.sampled_from(["", "x", "é"]))


def parsed(stem: str) -> SegmentKey | None:
    """Parse one stem; None for one that is no key of this release."""
    try:
        return KEYS.parse_stem(stem)
    except UnsupportedFormatError:
        return None


@given(st.lists(STEMS, max_size=6))
def test_many_stems_are_parsed_as_each_of_them_is(stems: list[str]) -> None:
    table, is_parsed = KEYS.parse_stems(stems)
    found = [
        key_at(table, row) if is_parsed[row] else None for row in range(len(stems))
    ]
    assert found == [parsed(stem) for stem in stems]


class OneByOne(NativeKeys):
    """Names as the native layout, and cannot parse many together."""

    def parse_stems(self, stems: Sequence[str]) -> tuple[KeyTable, RowMask]:
        """Parse none."""
        return KeyScheme.parse_stems(self, stems)


class ParsesOneByOne(SingleObject):
    """The native layout, whose stems are parsed one by one."""

    keys = OneByOne()


class OtherNames(NativeKeys):
    """Names with one of two suffixes, and not all of those."""

    def stem_of(self, name: str) -> str | None:
        """Return the part before the suffix."""
        stem, dot, suffix = name.rpartition(".")
        is_ours = dot and suffix in {"segment", "seg"} and not stem.endswith("2")
        return stem if is_ours else None


class HasOtherNames(SingleObject):
    """The native layout, with names that it would not take for its own."""

    keys = OtherNames()


@st.composite
def objects(draw: st.DrawFn) -> dict[str, int]:
    """Draw the names and sizes of what lies in the folder of a partition."""
    found = {}
    for key in draw(st.lists(keys(), max_size=5)):
        small = replace(key, log_length=key.log_length % 4, tail_length=1)
        wrong = draw(st.sampled_from([0, 0, 0, 0, 1]))
        suffix = draw(st.sampled_from(["segment", "segment", "seg"]))
        found[f"{KEYS.stem(small)}.{suffix}"] = small.size + wrong
    others = st.sampled_from(["x", "y.segment", f"{'0' * 126}.segment"])
    found |= dict.fromkeys(draw(st.lists(others, max_size=2)), 1)
    if draw(st.integers(0, 5)) == 5:
        key = replace(draw(keys()), log_length=1, tail_length=1)
        newer = KEYS.stem(key).replace(f"-{key.flags:04x}-", "-0010-")
        found[f"{newer}.segment"] = 2
    return found


@given(objects())
@example({})
@example({"x": 1})
def test_a_table_has_the_segments_of_the_list(stored: dict[str, int]) -> None:
    with ObjectStore(f"memory://tables-{id(stored)}") as store:
        for name, size in stored.items():
            put(store, name, size)
        try:
            for kind in (SingleObject, ParsesOneByOne, HasOtherNames):
                check_table(kind(store))
        finally:
            store.delete([entry.key for entry in store.list()])


class Boasts(ObjectStore):
    """A store that also lists a foreign object, of more bytes than there can be."""

    @override
    def list_pages(
        self, prefix: str = "", *, start_after: str = ""
    ) -> Iterator[ListedPage]:
        for page in super().list_pages(prefix, start_after=start_after):
            keys, sizes = [*page.keys, f"{prefix}x"], [*page.sizes, 1 << 70]
            yield ListedPage(keys, sizes)


def test_a_foreign_object_may_claim_any_size() -> None:
    url = "memory://tables-any-size"
    with ObjectStore(url) as store:
        put_segments(store, 3)
        table = SingleObject(Boasts(url)).list_segments_lazily(PARTITION)
        assert list(table) == SingleObject(store).list_segments(PARTITION)
        store.delete([entry.key for entry in store.list()])


def put(store: ObjectStore, name: str, size: int) -> None:
    """Store an object in the folder of the partition."""
    key = f"{KEYS.partition_prefix(PARTITION)}{name}"
    store.put(key, bytes(size), overwrite=True)


def put_segments(store: ObjectStore, count: int) -> None:
    """Store objects with the names of segments of one offset each."""
    for number in range(count):
        key = SegmentKey(
            number, number, -1, 0, 1, 1, SegmentFlag(0), SegmentId("A" * 22)
        )
        put(store, f"{KEYS.stem(key)}.segment", key.size)


def check_table(storage: SingleObject) -> None:
    """Compare the table with the list, or the errors of both."""
    try:
        listed = storage.list_segments(PARTITION)
    except TieredFSError as error:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            storage.list_segments_lazily(PARTITION)
        return
    table = storage.list_segments_lazily(PARTITION)
    assert isinstance(table, SegmentTable)
    assert list(table) == listed
    assert [hash(one) for one in table] == [hash(one) for one in listed]
    assert list(table[1:3]) == listed[1:3]
    part = pickle.dumps(table[1:3])
    assert list(pickle.loads(part)) == listed[1:3]  # noqa: S301 - our own
    columns = zip(
        table.start_offsets.tolist(),
        table.end_offsets.tolist(),
        table.max_timestamps_ms.tolist(),
        [None if size < 0 else size for size in table.sizes.tolist()],
        [None if epoch < 0 else epoch for epoch in table.highest_epochs.tolist()],
        strict=True,
    )
    assert list(columns) == [
        (
            one.start_offset,
            one.end_offset,
            one.max_timestamp_ms,
            one.size,
            storage.highest_epoch(one),
        )
        for one in listed
    ]
    assert table.has_sizes == all(one.size is not None for one in listed)


def test_a_part_of_a_table_is_pickled_without_the_rest() -> None:
    with ObjectStore("memory://long-table") as store:
        put_segments(store, 300)
        table = SingleObject(store).list_segments_lazily(PARTITION)
        whole, part = (len(pickle.dumps(one)) for one in (table, table[7:9]))
        assert part < whole / 10
        assert whole < 100 * len(table) + part


class Shortened(SingleObject):
    """Lists only the first segment."""

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return one segment."""
        return super().list_segments(partition, min_offset)[:1]


class ShortenedByAWrapper(StorageWrapper):
    """Returns only the first segment of another storage."""

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return one segment."""
        return super().list_segments(partition, min_offset)[:1]


def test_a_subclass_that_lists_other_segments_does_so_lazily_as_well() -> None:
    with ObjectStore("memory://subclass") as store:
        put_segments(store, 3)
        native = SingleObject(store)
        for storage in (Shortened(store), ShortenedByAWrapper(native)):
            assert len(storage.list_segments_lazily(PARTITION)) == 1
        assert len(StorageWrapper(native).list_segments_lazily(PARTITION)) == 3


def test_a_missing_partition_is_not_an_empty_table() -> None:
    with ObjectStore("memory://none") as store:
        storage = SingleObject(store)
        with pytest.raises(NotFoundError, match="t-0"):
            storage.list_segments_lazily(PARTITION)
