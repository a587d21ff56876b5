"""What is downloaded next, whatever arrives, fails or is read first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetch.logs import log_segment
from tieredfs import InvalidArgumentError
from tieredfs.fetch.window import (
    DownloadWindow,
    FetchLimits,
    LogRange,
    Piece,
    PieceState,
)

PIECE = 10


def _log(number: int, size: int, first_bytes: int | None = None) -> LogRange:
    return LogRange(log_segment(number, size), 0, size, first_bytes)


def _window(limits: FetchLimits, sizes: list[int]) -> DownloadWindow:
    window = DownloadWindow(limits, PIECE)
    for number, size in enumerate(sizes):
        window.add(_log(number, size))
    window.begin_next()
    return window


def _requests(window: DownloadWindow, now: float = 0.0) -> list[Piece]:
    found = []
    while (piece := window.next_request(now)) is not None:
        found.append(piece)
    return found


@pytest.mark.parametrize("name", FetchLimits.__slots__)
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_limit_that_allows_nothing_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be"):
        FetchLimits(**{name: value})


def test_segments_are_requested_in_their_order_as_many_as_allowed() -> None:
    window = _window(FetchLimits(download_threads=2), [PIECE] * 5)
    first, second = _requests(window)
    assert (first.number, second.number) == (0, 1)
    window.received(second, memoryview(bytes(PIECE)))
    (third,) = _requests(window)
    assert third.number == 2


def test_a_log_is_requested_in_parallel_once_its_answers_are_exact() -> None:
    window = _window(FetchLimits(connections=3), [10 * PIECE])
    (first,) = _requests(window)
    window.received(first, memoryview(bytes(PIECE)))
    assert [piece.start for piece in _requests(window)] == [10, 20, 30]


def test_the_first_few_bytes_are_requested_alone_and_then_more_and_more() -> None:
    window = DownloadWindow(FetchLimits(connections=4), PIECE)
    window.add(_log(0, 5 * PIECE, first_bytes=1))
    window.add(_log(1, PIECE))
    window.begin_next()
    (first,) = _requests(window)
    assert (first.start, first.end, first.is_first) == (0, 1, True)
    window.received(first, memoryview(bytes(1)))
    found = [(piece.number, piece.start) for piece in _requests(window)]
    assert found == [(0, 1), (0, 9), (0, 19), (0, 29), (1, 0)]


def test_a_log_in_chunks_is_requested_from_where_the_last_answer_ended() -> None:
    window = _window(FetchLimits(connections=3), [10 * PIECE])
    (first,) = _requests(window)
    window.received(first, memoryview(bytes(PIECE + 7)))
    (second,) = _requests(window)
    assert second.start == PIECE + 7


def test_a_piece_that_waits_gives_its_place_to_another_one() -> None:
    window = _window(FetchLimits(download_threads=1), [PIECE] * 2)
    (first,) = _requests(window)
    window.failed(first, due=5.0)
    (second,) = _requests(window)
    assert second.number == 1
    assert not _requests(window, now=6.0)
    window.received(second, memoryview(bytes(PIECE)))
    (again,) = _requests(window, now=6.0)
    assert again is first
    assert again.attempt == 2


def test_a_piece_that_is_larger_than_all_that_may_be_held_is_requested_alone() -> None:
    window = _window(FetchLimits(max_bytes=PIECE // 2), [PIECE] * 2)
    (first,) = _requests(window)
    window.received(first, memoryview(bytes(PIECE)))
    assert not _requests(window)
    window.begin_next()
    (second,) = _requests(window)
    assert second.number == 1


def test_a_piece_that_arrives_after_its_log_was_left_counts_for_nothing() -> None:
    window = _window(FetchLimits(), [PIECE] * 2)
    first, second = _requests(window)
    window.begin_next()
    window.received(first, memoryview(bytes(PIECE)))
    assert window.held_bytes == second.size


@st.composite
def limits(draw: st.DrawFn) -> FetchLimits:
    """Draw small limits."""
    few = st.integers(1, 4)
    return FetchLimits(draw(few), draw(few), draw(few), draw(st.integers(1, 8 * PIECE)))


@settings(max_examples=300)
@given(
    limits(),
    st.lists(st.integers(0, 5 * PIECE), min_size=1, max_size=8),
    st.sampled_from((1, 7, 10, 25)),
    st.sampled_from((None, 1, 3)),
    st.data(),
)
def test_everything_arrives_once_in_order_and_within_the_limits(
    limited: FetchLimits,
    sizes: list[int],
    chunk: int,
    first_bytes: int | None,
    data: st.DataObject,
) -> None:
    window = DownloadWindow(limited, PIECE)
    waiting, added = list(enumerate(sizes)), 0
    running: list[Piece] = []
    current, position, now = -1, 0, 0.0
    while True:
        while waiting and window.has_room:
            window.add(_log(*waiting.pop(0), first_bytes if not added else None))
            added += 1
        running += _requests(window, now)
        assert len(running) <= window.max_requests
        segments = {piece.number for piece in running}
        assert len(segments) <= limited.download_threads
        most = max(limited.max_bytes, PIECE) + chunk * (limited.prefetch_segments + 1)
        assert window.held_bytes <= most
        assert added <= current + 2 + limited.prefetch_segments
        # Read what is there, or let something arrive.
        size = sizes[current] if current >= 0 else 0
        piece = window.covering(current, position) if current >= 0 else None
        if position >= size:
            current, position = current + 1, 0
            if current == len(sizes):
                break
            window.begin_next()
        elif piece is not None and piece.state is PieceState.HELD:
            assert piece.start <= position
            position = piece.reach
            window.pass_by(current, position)
        elif piece is None and not running:
            # What may be held is full of later logs.
            end = min(position + PIECE, size)
            window.take_over(current, position, end)
            position = end
        elif running:
            one = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if one.attempt < 3 and data.draw(st.booleans()):
                window.failed(one, due=now + data.draw(st.integers(0, 3)))
            else:
                end = min(-(-one.end // chunk) * chunk, sizes[one.number])
                window.received(one, memoryview(bytes(max(end, one.end) - one.start)))
        else:
            now += 1  # all that is left waits
    assert window.held_bytes == 0
