"""Logs that are read by blocks are those that are stored, and are fetched once."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fetch.logs import Logs, log_segment
from objects.forking import forked
from tieredfs import (
    DeadlineExceededError,
    NotFoundError,
    RequestPolicy,
    SegmentMetadata,
    StorageUnavailableError,
)
from tieredfs.cache.log_blocks import BlockKey, LogBlocks
from tieredfs.fetch import LogRange
from tieredfs.fetch.backoff import Backoff
from tieredfs.fetch.block_reader import BlockReader
from tieredfs.fetch.purgatory import FetchPurgatory, PurgatoryLimits
from tieredfs.storage import PlannedFetch

BLOCK = 16
SIZE = 54
WAIT_SECONDS = 30.0


class Watched(LogBlocks):
    """Blocks that tell when one is held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Event()

    def hold(self, key: BlockKey, data: memoryview) -> memoryview:
        """Hold it, and tell."""
        found = super().hold(key, data)
        self.held.set()
        return found


@pytest.fixture
def purgatory() -> Iterator[FetchPurgatory]:
    """A purgatory that is closed after the test."""
    with FetchPurgatory(backoff=Backoff(None, 0.001, 0.002)) as made:
        yield made


def _reader(
    logs: Logs, purgatory: FetchPurgatory, blocks: LogBlocks | None = None
) -> BlockReader:
    held = LogBlocks() if blocks is None else blocks
    return BlockReader(logs, held, purgatory, block_bytes=BLOCK, window=2)


def _until(release: threading.Event) -> Callable[[int, int, int], None]:
    """Return an answer that waits."""

    def answer(*_: int) -> None:
        release.wait(WAIT_SECONDS)

    return answer


def _whole(reader: BlockReader, number: int, start: int = 0) -> bytes:
    segment, parts, at = log_segment(number, SIZE), [], start
    while at < SIZE:
        parts.append(bytes(reader.read(segment, at)))
        at += len(parts[-1])
    return b"".join(parts)


@pytest.mark.parametrize("chunk", [1, 7, 16, 48])
@pytest.mark.parametrize("start", [0, 1, 15, 16, 53])
def test_what_is_read_is_what_is_stored(
    purgatory: FetchPurgatory, chunk: int, start: int
) -> None:
    reader = _reader(Logs(chunk=chunk), purgatory)
    assert _whole(reader, 3, start) == Logs.content(3, start, SIZE)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 16, 20, 21, 32, 36, 37])
def test_few_bytes_at_the_end_of_a_log_cost_no_request(
    purgatory: FetchPurgatory, size: int
) -> None:
    logs = Logs()
    reader = _reader(logs, purgatory)
    segment, found = log_segment(0, size), b""
    reader.prefetch([LogRange(segment, 0, size)])
    while len(found) < size:
        found += bytes(reader.read(segment, len(found)))
    assert found == bytes(Logs.content(0, 0, size))
    begun = range(0, size, BLOCK)
    few = 0 < size % BLOCK <= BLOCK // 4 and size > BLOCK
    assert sorted(logs.asked) == [(0, at) for at in begun[: len(begun) - few]]
    assert reader.read(segment, size - 1) == Logs.content(0, size - 1, size)
    assert set(logs.asked.values()) == {1}


def test_each_block_is_fetched_once_whoever_asks(purgatory: FetchPurgatory) -> None:
    arrived = threading.Barrier(4)

    def answer(*_: int) -> None:
        with pytest.raises(threading.BrokenBarrierError):
            arrived.wait(0.05)  # a second request for it would break in

    logs = Logs(answer)
    reader = _reader(logs, purgatory)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: _whole(reader, 0), range(4)))
    assert set(found) == {bytes(Logs.content(0, 0, SIZE))}
    assert logs.asked == {(0, 0): 1, (0, 16): 1, (0, 32): 1, (0, 48): 1}


def test_the_window_goes_on_into_the_next_segments(purgatory: FetchPurgatory) -> None:
    logs = Logs()
    reader = _reader(logs, purgatory)
    parts = [LogRange(log_segment(n, SIZE), at, SIZE) for n, at in ((0, 48), (1, 0))]
    reader.prefetch(parts)
    reader.read(log_segment(0, SIZE), 48)
    for start in (0, 16):
        reader.read(log_segment(1, SIZE), start)
    assert logs.asked == {(0, 48): 1, (1, 0): 1, (1, 16): 1}


def test_what_comes_after_a_caller_gave_up_serves_the_next_one(
    purgatory: FetchPurgatory,
) -> None:
    release = threading.Event()
    policy = RequestPolicy(deadline=0.1)
    logs = Logs(_until(release), policy=policy)
    blocks = Watched()
    reader = _reader(logs, purgatory, blocks)
    segment = log_segment(0, SIZE)
    with pytest.raises(DeadlineExceededError, match=r"byte 0 did not|block at 0"):
        reader.read(segment, 0)
    release.set()
    assert blocks.held.wait(WAIT_SECONDS)
    assert reader.read(segment, 0) == Logs.content(0, 0, BLOCK)
    assert logs.asked == {(0, 0): 1}


def test_a_forked_child_fetches_what_its_parent_has_begun_to_fetch(
    purgatory: FetchPurgatory,
) -> None:
    begun, release = threading.Event(), threading.Event()
    parent = os.getpid()

    def answer(*_: int) -> None:
        begun.set()
        if os.getpid() == parent:
            release.wait(WAIT_SECONDS)

    reader = _reader(Logs(answer), purgatory)
    segment = log_segment(0, SIZE)
    reader.prefetch([LogRange(segment, 0, SIZE)])
    assert begun.wait(WAIT_SECONDS)
    found = forked(lambda: bytes(reader.read(segment, 0)))
    release.set()
    assert found == bytes(Logs.content(0, 0, BLOCK))
    assert reader.read(segment, 0) == Logs.content(0, 0, BLOCK)


def test_a_failure_that_passes_is_not_seen(purgatory: FetchPurgatory) -> None:
    def answer(*asked: int) -> None:
        if asked[-1] < 3:
            raise StorageUnavailableError("503")

    logs = Logs(answer)
    assert _whole(_reader(logs, purgatory), 0) == Logs.content(0, 0, SIZE)
    assert set(logs.asked.values()) == {3}
    assert {policy.attempts for policy in logs.policies} == {1}


def test_a_segment_that_is_gone_is_an_error_after_one_attempt(
    purgatory: FetchPurgatory,
) -> None:
    def answer(*_: int) -> None:
        raise NotFoundError("gone")

    logs = Logs(answer)
    with pytest.raises(NotFoundError, match="gone"):
        _whole(_reader(logs, purgatory), 0)
    assert logs.asked == {(0, 0): 1}


def test_reading_ahead_takes_no_place_that_another_fetch_needs() -> None:
    release = threading.Event()
    logs = Logs(lambda *asked: _until(release)(*asked) if asked[1] else None)
    with FetchPurgatory(PurgatoryLimits(threads=1, max_pending=1)) as purgatory:
        reader = BlockReader(logs, LogBlocks(), purgatory, block_bytes=BLOCK, window=9)
        segment = log_segment(0, SIZE)
        reader.read(segment, 0)
        for start in (16, 48):  # a window in the same log, and one in the next ones
            parts = [LogRange(log_segment(n, SIZE), 0, SIZE) for n in (1, 2)]
            reader.prefetch([LogRange(segment, start, SIZE), *parts])
            needed = purgatory.submit("needed", lambda *_: 1, WAIT_SECONDS)
            release.set()
            assert needed.result(WAIT_SECONDS) == 1
            release.clear()


def test_many_readers_in_turn_drop_no_block_that_was_read_ahead() -> None:
    logs = Logs()
    with FetchPurgatory() as purgatory:
        blocks = LogBlocks(64 * BLOCK)
        reader = BlockReader(logs, blocks, purgatory, block_bytes=BLOCK)
        for start in range(0, SIZE, BLOCK // 4):
            for number in range(24):
                segment = log_segment(number, SIZE)
                reader.prefetch([LogRange(segment, start, SIZE)])
                found = reader.read(segment, start)
                assert found[:1] == Logs.content(number, start, start + 1)
    assert set(logs.asked.values()) == {1}


class _Described(Logs):
    """Logs whose chunks are described in objects of their own.

    Attributes:
        described: Is waited for before the chunks of any log but the first are known.
    """

    def __init__(self, policy: RequestPolicy | None = None) -> None:
        super().__init__(policy=policy)
        self.described = threading.Event()

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Wait, and plan."""
        if metadata.start_offset:
            self.described.wait(WAIT_SECONDS)
        return super().plan_fetch(metadata, start, end, layout=layout, after=after)


def test_a_read_waits_for_no_request_about_a_later_log(
    purgatory: FetchPurgatory,
) -> None:
    logs = _Described()
    reader = _reader(logs, purgatory)
    parts = [LogRange(log_segment(n, SIZE), at, SIZE) for n, at in ((0, 48), (1, 0))]
    reader.prefetch(parts)
    assert reader.read(log_segment(0, SIZE), 48) == Logs.content(0, 48, SIZE)
    assert logs.asked == {(0, 48): 1}
    logs.described.set()
    assert reader.read(log_segment(1, SIZE), 0) == Logs.content(1, 0, BLOCK)


def test_a_log_whose_chunks_are_not_described_in_time_is_waited_for_once() -> None:
    seconds = 0.5
    logs = _Described(RequestPolicy(deadline=seconds))
    with FetchPurgatory() as purgatory:
        reader = _reader(logs, purgatory)
        begun = time.monotonic()
        reader.prefetch([LogRange(log_segment(1, SIZE), 0, SIZE)])
        with pytest.raises(DeadlineExceededError):
            reader.read(log_segment(1, SIZE), 0)
        assert time.monotonic() - begun < 2 * seconds
        logs.described.set()
