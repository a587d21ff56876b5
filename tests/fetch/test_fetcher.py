"""Logs that are downloaded ahead of their reader are those that are stored."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fetch.logs import Logs, log_segment
from tieredfs import (
    DeadlineExceededError,
    NotFoundError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.fetch import FetchLimits, LogRange, RemoteLogFetcher
from tieredfs.fetch.attempts import Attempts
from tieredfs.fetch.backoff import Backoff
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor

PIECE = 16
SIZE = 50
DEADLINE_SECONDS = 30.0


def _ranges(count: int, size: int = SIZE) -> list[LogRange]:
    return [LogRange(log_segment(n, size), 0, size) for n in range(count)]


def _read(fetcher: RemoteLogFetcher, count: int, size: int = SIZE) -> list[bytes]:
    """Read logs in pieces, as a scan does."""
    found = []
    for log in fetcher.fetch(_ranges(count, size)):
        parts, at = [], 0
        while at < size:
            parts.append(bytes(log.read(at, min(at + PIECE, size))))
            at += len(parts[-1])
        found.append(b"".join(parts))
    return found


def _content(count: int, size: int = SIZE) -> list[bytes]:
    return [bytes(Logs.content(n, 0, size)) for n in range(count)]


def _attempts(
    logs: Logs, retries: int, waits: list[float], repeats: list[None] | None = None
) -> Attempts:
    """Return attempts whose waits and repetitions are noted; they wait for nothing."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    def after(seconds: float, call: Callable[[], object]) -> None:
        sleep(seconds)
        threading.Thread(target=call, daemon=True).start()

    noted = [] if repeats is None else repeats
    return Attempts(
        logs,
        Backoff(retries),
        lambda: now,
        after,
        sleep,
        drawn=lambda: 0.5,
        repeated=lambda: noted.append(None),
    )


@pytest.mark.parametrize("chunk", [1, 7, 16, 48])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_read_is_what_is_stored(threads: int, chunk: int) -> None:
    logs = Logs(chunk=chunk)
    limits = FetchLimits(download_threads=threads, max_bytes=4 * PIECE)
    with RemoteLogFetcher(logs, PIECE, limits) as fetcher:
        assert _read(fetcher, 6) == _content(6)
    assert set(logs.asked.values()) == {1}
    assert logs.most_segments <= threads


def test_no_log_and_an_empty_log_ask_for_nothing() -> None:
    logs = Logs()
    fetcher = RemoteLogFetcher(logs, PIECE)
    assert _read(fetcher, 0) == []
    assert _read(fetcher, 2, size=0) == [b"", b""]
    assert not logs.asked


def test_a_later_segment_that_arrives_first_is_read_later() -> None:
    arrived = threading.Event()

    def answer(number: int, _start: int, _times: int) -> None:
        if number == 0:
            assert arrived.wait(DEADLINE_SECONDS)
        if number == 2:
            arrived.set()

    fetcher = RemoteLogFetcher(Logs(answer), PIECE, FetchLimits(max_bytes=1 << 20))
    assert _read(fetcher, 3) == _content(3)


def test_while_one_segment_is_read_the_next_ones_are_downloaded() -> None:
    together = threading.Barrier(3)

    def answer(_number: int, start: int, _times: int) -> None:
        if start == 0:
            together.wait(DEADLINE_SECONDS)

    fetcher = RemoteLogFetcher(Logs(answer), SIZE, FetchLimits(max_bytes=1 << 20))
    assert _read(fetcher, 3) == _content(3)


def _fails(error: type[BaseException], number: int, times: int) -> Callable[..., None]:
    """Let the first attempts at a segment fail."""

    def answer(asked: int, _start: int, attempt: int) -> None:
        if asked == number and attempt <= times:
            raise error(f"attempt {attempt} at {asked}")

    return answer


@pytest.mark.parametrize("error", [StorageUnavailableError, DeadlineExceededError])
def test_failures_that_pass_are_repeated_after_doubling_waits(
    error: type[Exception],
) -> None:
    logs, waits = Logs(_fails(error, 1, 5)), list[float]()
    attempts = _attempts(logs, 5, waits)
    fetcher = RemoteLogFetcher(logs, SIZE, attempts=attempts)
    assert _read(fetcher, 3) == _content(3)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert logs.asked[1, 0] == 6


def test_a_failure_that_stays_is_tried_again_where_it_is_needed_and_then_raised() -> (
    None
):
    logs, repeats = Logs(_fails(StorageUnavailableError, 1, 1000)), list[None]()
    attempts = _attempts(logs, 5, [], repeats)
    found = RemoteLogFetcher(logs, SIZE, attempts=attempts).fetch(_ranges(3))
    assert bytes(next(found).read(0, SIZE)) == _content(1)[0]
    log = next(found)
    with pytest.raises(StorageUnavailableError, match="attempt 12 at 1"):
        log.read(0, SIZE)
    assert logs.asked[1, 0] == 2 * 6
    assert len(repeats) == 2 * 6 - 1


def test_the_first_few_bytes_are_given_to_the_reader_before_more_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, submit = list[object](), DaemonExecutor.submit

    def noted(*asked: Any) -> object:  # noqa: ANN401 - a call, and what it is given
        begun.append(asked)
        return submit(*asked)

    monkeypatch.setattr(DaemonExecutor, "submit", noted)
    logs = Logs()
    attempts = Attempts(logs, Backoff(5), after=lambda *_: None)  # no head start ends
    part = LogRange(log_segment(0, SIZE), 0, SIZE, first_bytes=2)
    fetcher = RemoteLogFetcher(logs, PIECE, attempts=attempts)
    found = fetcher.fetch([part, *_ranges(2)[1:]])
    log = next(found)
    assert log.read(0, SIZE) == _content(1)[0][:2]
    assert len(begun) == 1
    assert log.read(2, SIZE) == _content(1)[0][2:18]
    assert len(begun) > 2


def test_a_segment_that_is_gone_is_not_tried_again_but_where_it_is_needed() -> None:
    logs, waits = Logs(_fails(NotFoundError, 1, 1000)), list[float]()
    fetcher = RemoteLogFetcher(logs, SIZE, attempts=_attempts(logs, 5, waits))
    found = fetcher.fetch(_ranges(2))
    assert bytes(next(found).read(0, SIZE)) == _content(1)[0]
    log = next(found)
    with pytest.raises(NotFoundError):
        log.read(0, SIZE)
    assert logs.asked[1, 0] == 2
    assert not waits


def test_each_attempt_asks_the_store_once_and_for_a_share_of_the_time() -> None:
    logs = Logs(policy=RequestPolicy(deadline=8.0))
    assert _read(RemoteLogFetcher(logs, SIZE), 2) == _content(2)
    assert logs.policies
    for policy in logs.policies:
        assert policy.attempts == 1
        assert policy.deadline <= 4.0


def test_a_second_fetch_ends_the_first_whose_iterator_stops() -> None:
    fetcher = RemoteLogFetcher(Logs(), PIECE)
    first = fetcher.fetch(_ranges(5))
    log = next(first)
    assert _read(fetcher, 2) == _content(2)
    assert list(first) == []
    assert bytes(log.read(0, SIZE)) == _content(1)[0]


def test_closing_ends_at_once_although_a_download_hangs() -> None:
    hangs, may_end = threading.Event(), threading.Event()

    def answer(_number: int, _start: int, _times: int) -> None:
        hangs.set()
        may_end.wait(DEADLINE_SECONDS)

    logs = Logs(answer)
    fetcher = RemoteLogFetcher(logs, PIECE)
    found = fetcher.fetch(_ranges(5))
    next(found)
    assert hangs.wait(DEADLINE_SECONDS)
    fetcher.close()
    fetcher.close()
    assert list(found) == []
    asked = logs.asked.total()
    may_end.set()
    assert logs.asked.total() == asked


def test_bytes_behind_the_part_that_was_wanted_are_fetched_when_they_are_read() -> None:
    logs = Logs()
    fetcher = RemoteLogFetcher(logs, PIECE)
    part = LogRange(log_segment(0, 200_000), 0, 100_000)
    (log,) = fetcher.fetch([part])
    assert bytes(log.read(99_990, 100_100)) == bytes(Logs.content(0, 99_990, 100_100))


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 0.75), (0.5, 1.0), (1.0, 1.25)])
@pytest.mark.parametrize("attempt", range(1, 9))
def test_a_wait_doubles_differs_by_a_quarter_and_is_five_seconds_at_most(
    attempt: int, drawn: float, wait: float
) -> None:
    expected = min(0.1 * 2 ** (attempt - 1) * wait, 5.0)
    assert Backoff(5).delay(attempt, drawn) == pytest.approx(expected)


def test_many_readers_of_many_fetchers_leave_no_request_running() -> None:
    logs = Logs()
    threads = [
        threading.Thread(target=partial(_read, RemoteLogFetcher(logs, PIECE), 20))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert logs.running.total() == 0
    assert set(logs.asked.values()) == {8}


def test_what_ends_a_thread_is_raised_where_the_bytes_are_needed() -> None:
    logs = Logs(_fails(SystemExit, 1, 1000))
    found = RemoteLogFetcher(logs, SIZE).fetch(_ranges(2))
    assert bytes(next(found).read(0, SIZE)) == _content(1)[0]
    log = next(found)
    with pytest.raises(SystemExit):
        log.read(0, SIZE)


def test_where_no_thread_can_be_started_the_reader_fetches_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(DaemonExecutor, "submit", refuse)
    logs = Logs()
    assert _read(RemoteLogFetcher(logs, PIECE), 3) == _content(3)
    assert set(logs.asked.values()) == {1}


def test_a_store_that_is_gone_is_waited_for_until_one_deadline_has_passed() -> None:
    now, is_reading, is_waiting = 0.0, False, threading.Event()
    reader = threading.current_thread()

    def clock() -> float:
        if is_reading and threading.current_thread() is reader:
            is_waiting.set()
        return now

    def answer(_number: int, _start: int, _times: int) -> None:
        nonlocal now
        assert is_waiting.wait(DEADLINE_SECONDS)
        now += 30
        raise DeadlineExceededError(f"at {now}")

    logs = Logs(answer, policy=RequestPolicy(deadline=60.0))
    attempts = Attempts(logs, Backoff(5), clock, lambda _, call: call(), lambda _: None)
    (log,) = RemoteLogFetcher(logs, SIZE, attempts=attempts).fetch(_ranges(1))
    is_reading = True
    with pytest.raises(DeadlineExceededError):
        log.read(0, SIZE)
    assert now == 60
    assert logs.asked.total() == 2


def test_the_log_that_is_read_waits_for_no_request_of_a_later_one() -> None:
    release, failed = threading.Event(), threading.Event()

    def answer(number: int, _: int, times: int) -> None:
        if number:
            release.wait(DEADLINE_SECONDS)
        elif times == 1:
            failed.set()
            raise StorageUnavailableError("503")

    waits: list[float] = []
    logs = Logs(answer)
    attempts = _attempts(logs, 5, waits)
    limits = FetchLimits(prefetch_segments=4, download_threads=1, connections=1)
    with RemoteLogFetcher(logs, PIECE, limits, attempts=attempts) as fetcher:
        first = next(fetcher.fetch(_ranges(3)))
        assert failed.wait(DEADLINE_SECONDS)
        begun = time.monotonic()
        assert first.read(0, PIECE) == Logs.content(0, 0, PIECE)
        assert time.monotonic() - begun < DEADLINE_SECONDS / 2
        release.set()


def test_where_one_attempt_is_wanted_the_store_is_asked_once() -> None:
    def answer(*_: int) -> None:
        raise StorageUnavailableError("503")

    logs = Logs(answer, policy=RequestPolicy(attempts=1))
    with (
        RemoteLogFetcher(logs, PIECE) as fetcher,
        pytest.raises(StorageUnavailableError, match="503"),
    ):
        _read(fetcher, 1)
    assert logs.asked[0, 0] == 1
