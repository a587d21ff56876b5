"""The pool of daemon threads."""

import threading
import weakref
from concurrent.futures import CancelledError

import pytest

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor


def test_no_more_calls_run_at_a_time_than_were_asked_for() -> None:
    pool = DaemonExecutor(3)
    lock, all_run = threading.Lock(), threading.Barrier(3, timeout=30)
    running = most = 0

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        all_run.wait()
        with lock:
            running -= 1

    for future in [pool.submit(call) for _ in range(12)]:
        future.result(30)
    assert most == 3


def test_a_pool_without_work_has_no_thread() -> None:
    pool = DaemonExecutor(4, "idle")
    assert list(pool.map(str, range(20))) == [str(number) for number in range(20)]
    pool.shutdown(wait=True)
    assert not [one for one in threading.enumerate() if one.name.startswith("idle-")]


def test_a_call_that_fails_raises_in_its_place_and_is_not_kept() -> None:
    class Failure(Exception):  # noqa: N818 - it is one
        pass

    def fail() -> None:
        raise Failure

    pool = DaemonExecutor(1)
    future = pool.submit(fail)
    error = future.exception(30)
    assert isinstance(error, Failure)
    pool.shutdown(wait=True)
    held = weakref.ref(error)
    del error, future
    assert held() is None  # no cycle keeps what a traceback holds


def test_a_pool_that_is_shut_down_drops_what_has_not_begun_and_takes_no_more() -> None:
    pool = DaemonExecutor(1)
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return go_on.wait(30)

    running, waiting = pool.submit(wait), pool.submit(wait)
    assert begun.wait(30)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(CancelledError):
        waiting.result(30)
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(wait)
    go_on.set()
    pool.shutdown(wait=True)
    assert running.result(0)
