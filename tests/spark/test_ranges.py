"""Ranges of offsets: what is read of a partition, and how it is divided."""

import logging
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.errors import (
    CorruptDataError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    TieredFSError,
)
from tieredfs.log.read.reader import Bounds
from tieredfs.spark.positions import FROM_EARLIEST, Position
from tieredfs.spark.ranges import OffsetRange, divide, resolve_range
from tieredfs.spark.topics import check_named

HELD = Bounds(100, 300)


def resolve(
    asked: tuple[int, int],
    held: Bounds = HELD,
    latest: int | None = None,
    *,
    strict: bool,
) -> tuple[int, int]:
    given = OffsetRange("t", 0, *asked)
    latest = held.end if latest is None else latest
    found = resolve_range(given, held, latest, fail_on_data_loss=strict)
    assert (found.topic, found.partition) == ("t", 0)
    return found.start, found.end


def position(named: Mapping[str, Mapping[int, int]] | None) -> Position:
    if named is None:
        return FROM_EARLIEST
    return Position("startingOffsets", None, named, is_time=False)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((-2, -1), (100, 300)),
        ((-2, 103), (100, 103)),
        ((290, -1), (290, 300)),
        ((100, 300), (100, 300)),
        ((150, 150), (150, 150)),
        ((300, -1), (300, 300)),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_offsets_that_are_there_are_read_as_asked(
    asked: tuple[int, int], expected: tuple[int, int], strict: bool
) -> None:
    assert resolve(asked, strict=strict) == expected


LOST = [
    ((10, 300), (100, 300)),
    ((10, 150), (100, 150)),
    ((290, 1000), (290, 300)),
    ((0, 5000), (100, 300)),
]
"""Ranges that the log holds in part, and what it holds of them."""

GONE = [(10, 50), (99, 100), (300, 301), (4000, 4100)]
"""Ranges of which nothing is there."""


@pytest.mark.parametrize("asked", [*(asked for asked, _ in LOST), *GONE])
def test_offsets_that_are_gone_are_an_error_that_says_what_is_there(
    asked: tuple[int, int],
) -> None:
    said = f"topic t partition 0: .*{asked[0]} to {asked[1] - 1} .*100 to 299.* lost;"
    with pytest.raises(CorruptDataError, match=said):
        resolve(asked, strict=True)


@pytest.mark.parametrize(("asked", "expected"), LOST)
def test_without_fail_on_data_loss_what_is_there_is_read_with_a_warning(
    asked: tuple[int, int],
    expected: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        assert resolve(asked, strict=False) == expected
    (said,) = caplog.messages
    assert f"offsets {asked[0]} to {asked[1] - 1} are asked for" in said


@pytest.mark.parametrize("asked", GONE)
def test_without_fail_on_data_loss_a_range_that_is_gone_is_empty(
    asked: tuple[int, int],
) -> None:
    start, end = resolve(asked, strict=False)
    assert start == end


UNSTABLE = [((100, 300), (100, 250)), ((260, 270), (260, 260)), ((0, 999), (100, 250))]
"""Ranges that end after the last stable offset, 250, and what of them can be read."""


@pytest.mark.parametrize(("asked", "expected"), UNSTABLE)
def test_offsets_after_the_last_stable_one_are_a_loss_that_says_where_it_is(
    asked: tuple[int, int],
    expected: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "the log holds 100 to 299 and has its last stable offset at 250"
    with pytest.raises(CorruptDataError, match=said):
        resolve(asked, latest=250, strict=True)
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        assert resolve(asked, latest=250, strict=False) == expected
    (warning,) = caplog.messages
    assert said in warning


@pytest.mark.parametrize("strict", [True, False])
def test_up_to_the_last_stable_offset_nothing_is_lost(strict: bool) -> None:
    for asked in ((-2, -1), (100, 250), (200, 240), (280, 280)):
        start, end = resolve(asked, latest=250, strict=strict)
        assert end == (250 if asked[1] == -1 else asked[1])
        assert start == max(asked[0], 100)


@pytest.mark.parametrize("strict", [True, False])
def test_a_start_beyond_the_end_is_an_error_whatever_may_be_lost(strict: bool) -> None:
    said = "start offset 5000 is greater than the resolved end offset 300 for topic t"
    with pytest.raises(OffsetOutOfRangeError, match=said):
        resolve((5000, -1), strict=strict)


@pytest.mark.parametrize("asked", [(-3, -1), (-2, -3), (-1, -1)])
@pytest.mark.parametrize("strict", [True, False])
def test_a_negative_offset_without_a_meaning_is_an_error(
    asked: tuple[int, int], strict: bool
) -> None:
    with pytest.raises(TieredFSError, match=re.escape(f"{asked[0]}")):
        resolve(asked, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_an_empty_log_gives_an_empty_range(strict: bool) -> None:
    assert resolve((-2, -1), Bounds(0, 0), strict=strict) == (0, 0)


@pytest.mark.parametrize(
    "named",
    [{"a": {0: 1}}, {"a": {0: 1, 1: 1, 2: 1}}, {"a": {0: 1, 1: 1}, "b": {0: 1}}, {}],
    ids=str,
)
def test_offsets_must_name_exactly_the_partitions_that_are_read(
    named: Mapping[str, Mapping[int, int]],
) -> None:
    with pytest.raises(InvalidArgumentError, match="don't match what are assigned"):
        check_named(position(named), {"a": (0, 1)})


@pytest.mark.parametrize("named", [None, {"a": {0: 5, 1: -1}}], ids=str)
def test_offsets_that_name_the_partitions_are_taken(
    named: Mapping[str, Mapping[int, int]] | None,
) -> None:
    check_named(position(named), {"a": (0, 1)})


SIZES = st.lists(st.integers(0, 5000), max_size=5)
LIMITS = st.none() | st.integers(1, 60)


@given(SIZES, LIMITS, LIMITS)
def test_what_is_divided_has_each_offset_once_and_in_order(
    sizes: list[int], wanted: int | None, limit: int | None
) -> None:
    ranges = [OffsetRange("t", n, 7, 7 + size) for n, size in enumerate(sizes)]
    parts = divide(ranges, ranges, min_partitions=wanted, max_records=limit)
    for one in ranges:
        offsets = [
            offset
            for part in parts
            if part.partition == one.partition
            for offset in range(part.start, part.end)
        ]
        assert offsets == list(range(one.start, one.end))


@pytest.mark.parametrize("wanted", [300, 1 << 31])
def test_more_ranges_than_offsets_are_one_for_each_offset(wanted: int) -> None:
    ranges = [OffsetRange("t", 0, 7, 207), OffsetRange("t", 1, 0, 1)]
    parts = divide(ranges, ranges, min_partitions=wanted, max_records=None)
    assert [(part.partition, part.start) for part in parts] == [
        *((0, offset) for offset in range(7, 207)),
        (1, 0),
    ]
    assert {part.size for part in parts} == {1}


@given(SIZES, st.integers(1, 60))
def test_no_range_is_larger_than_the_limit_where_the_end_is_given(
    sizes: list[int], limit: int
) -> None:
    ranges = [OffsetRange("t", n, 0, size) for n, size in enumerate(sizes)]
    parts = divide(ranges, ranges, min_partitions=None, max_records=limit)
    assert all(part.size <= limit for part in parts)


def test_a_range_with_an_open_end_is_not_large_as_in_kafkas_source() -> None:
    asked, resolved = OffsetRange("t", 0, 5, -1), OffsetRange("t", 0, 5, 5000)
    assert divide([asked], [resolved], min_partitions=None, max_records=9) == [resolved]


def test_partitions_that_are_asked_for_come_of_the_large_ranges() -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 1000)]
    parts = divide(ranges, ranges, min_partitions=5, max_records=None)
    assert [part.size for part in parts] == [10, 250, 250, 250, 250]


def test_partitions_that_are_few_enough_are_left_as_they_are_empty_ones_too() -> None:
    ranges = [OffsetRange("t", 0, 0, 0), OffsetRange("t", 1, 0, 1000)]
    assert divide(ranges, ranges, min_partitions=2, max_records=None) == ranges
