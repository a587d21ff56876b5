"""A log that is read where it lies is the one that was read first, or an error."""

from collections.abc import Iterator
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.damage import flipped
from tieredfs import CorruptObjectError, NotFoundError
from tieredfs.storage.segment_log import source as log_source
from tieredfs.storage.segment_log.source import LogContent, log_in_place

LOGS = st.binary(max_size=50)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of seven bytes: whole logs are hundreds of MiB otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_source, "_BLOCK", 7)
        yield


def cut(log: bytes, data: st.DataObject) -> list[bytes]:
    """Cut a log into pieces."""
    marks = data.draw(st.sets(st.integers(0, len(log))))
    return [log[a:b] for a, b in pairwise(sorted({0, len(log), *marks}))]


@given(log=LOGS, tail=LOGS, data=st.data())
def test_any_range_is_that_of_the_log_and_what_follows_it(
    log: bytes, tail: bytes, data: st.DataObject
) -> None:
    placed = log_in_place(
        lambda a, b: memoryview(log)[a:b], len(log), "t", pieces=cut(log, data)
    )
    content = LogContent(placed, tail)
    assert content.size == len(log + tail)
    start = data.draw(st.integers(0, content.size))
    end = data.draw(st.integers(start, content.size))
    assert content.read(start, end) == (log + tail)[start:end]
    assert b"".join(placed.pieces(9)) == log


@given(log=LOGS.filter(len), data=st.data())
def test_a_byte_that_has_changed_is_an_error_wherever_it_is_read(
    log: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(log) - 1))
    now = memoryview(flipped(log, at))
    placed = log_in_place(lambda a, b: now[a:b], len(log), "t", pieces=cut(log, data))
    with pytest.raises(CorruptObjectError, match="t: its log has changed"):
        placed.fetch(at, at + 1)
    with pytest.raises(CorruptObjectError):
        list(placed.pieces(9))


def test_a_log_that_is_gone_is_an_error_that_says_so() -> None:
    def fetch(start: int, end: int) -> memoryview:
        raise NotFoundError(f"{start} {end}")

    placed = log_in_place(fetch, 10, "t", pieces=[bytes(10)])
    with pytest.raises(CorruptObjectError, match="t: its log was removed"):
        placed.fetch(0, 1)


def test_a_log_that_has_become_shorter_is_an_error() -> None:
    with pytest.raises(CorruptObjectError, match="no longer has 10 bytes"):
        log_in_place(lambda _, __: memoryview(b""), 10, "t", pieces=[b"x"])
