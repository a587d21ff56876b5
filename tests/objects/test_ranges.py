"""Which requests give several ranges: a plan, checked against what it promises."""

from hypothesis import given
from hypothesis import strategies as st

from tieredfs import ByteRange
from tieredfs.objects.ranges import MAX_MERGED_BYTES, plan_ranges

MIB = 1 << 20


@st.composite
def spans(draw: st.DrawFn) -> ByteRange:
    start = draw(st.integers(0, 2000))
    return ByteRange(start, start + draw(st.integers(0, 300)))


def plan(
    *ranges: tuple[int, int], max_gap_bytes: int = 0, max_bytes: int = MIB
) -> list[tuple[int, int]]:
    found = plan_ranges(
        [ByteRange(*span) for span in ranges],
        max_gap_bytes=max_gap_bytes,
        max_bytes=max_bytes,
    )
    return [(span.start, span.end) for span in found.requests]


@given(st.lists(spans(), max_size=20), st.integers(0, 400), st.integers(1, 1000))
def test_every_range_is_inside_its_request(
    ranges: list[ByteRange], max_gap_bytes: int, max_bytes: int
) -> None:
    found = plan_ranges(ranges, max_gap_bytes=max_gap_bytes, max_bytes=max_bytes)
    for span, index in zip(ranges, found.request_indexes, strict=True):
        if not len(span):
            assert index is None
        else:
            assert index is not None
            request = found.requests[index]
            assert request.start <= span.start < span.end <= request.end


@given(st.lists(spans(), max_size=20), st.integers(0, 400), st.integers(1, 1000))
def test_no_request_is_empty_wasteful_or_needless(
    ranges: list[ByteRange], max_gap_bytes: int, max_bytes: int
) -> None:
    found = plan_ranges(ranges, max_gap_bytes=max_gap_bytes, max_bytes=max_bytes)
    wanted = {byte for span in ranges for byte in range(span.start, span.end)}
    for number, request in enumerate(found.requests):
        members = [
            span
            for span, index in zip(ranges, found.request_indexes, strict=True)
            if index == number
        ]
        assert members
        assert request.start == min(span.start for span in members)
        assert request.end == max(span.end for span in members)
        assert len(request) <= max_bytes or len(members) == 1 or request in members
        run = 0
        for byte in range(request.start, request.end):
            run = 0 if byte in wanted else run + 1
            assert run <= max_gap_bytes
    starts = [request.start for request in found.requests]
    assert starts == sorted(starts)


@given(st.lists(spans(), max_size=20), st.integers(0, 400), st.integers(1, 1000))
def test_a_range_begins_a_request_only_where_the_one_before_cannot_take_it(
    ranges: list[ByteRange], max_gap_bytes: int, max_bytes: int
) -> None:
    found = plan_ranges(ranges, max_gap_bytes=max_gap_bytes, max_bytes=max_bytes)
    firsts: dict[int, ByteRange] = {}
    pairs = zip(ranges, found.request_indexes, strict=True)
    for span, index in sorted(pairs, key=lambda pair: pair[0].start):
        if index is not None:
            firsts.setdefault(index, span)
    for index, first in firsts.items():
        if index:
            before = found.requests[index - 1]
            is_too_far = first.start > before.end + max_gap_bytes
            assert is_too_far or first.end > before.start + max_bytes


def test_without_a_limit_a_request_that_is_put_together_has_at_most_16_mib() -> None:
    for size, requests in ((8 * MIB, 1), (8 * MIB + 1, 2)):
        ranges = [ByteRange(0, 8 * MIB), ByteRange(8 * MIB, 8 * MIB + size)]
        assert len(plan_ranges(ranges, max_gap_bytes=0).requests) == requests
    assert MAX_MERGED_BYTES == 16 * MIB


def test_ranges_that_touch_are_one_request() -> None:
    assert plan((10, 20), (0, 10)) == [(0, 20)]


def test_a_gap_is_crossed_up_to_the_limit() -> None:
    assert plan((0, 10), (15, 20), max_gap_bytes=5) == [(0, 20)]
    assert plan((0, 10), (16, 20), max_gap_bytes=5) == [(0, 10), (16, 20)]


def test_a_request_that_is_put_together_grows_up_to_the_limit() -> None:
    assert plan((0, 10), (10, 20), max_bytes=20) == [(0, 20)]
    assert plan((0, 10), (10, 21), max_bytes=20) == [(0, 10), (10, 21)]


def test_a_long_range_is_one_request_with_the_ranges_inside_it() -> None:
    assert plan((0, 100), (50, 60), (99, 100), max_bytes=20) == [(0, 100)]


def test_an_empty_range_needs_no_request() -> None:
    found = plan_ranges([ByteRange(5, 5)], max_gap_bytes=MIB)
    assert (found.requests, found.request_indexes) == ((), (None,))
