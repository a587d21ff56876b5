"""Threads, processes, forks and pickles share a directory, and ask once."""

import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from cache.apart import run_apart, start_apart
from cache.crowd import run_crowd
from cache.made import (
    BASE,
    Clock,
    Made,
    bytes_of,
    content_of,
    entry_size,
    files_in,
    get_together,
    made_segment,
    open_cache,
)
from tieredfs import (
    ClosedError,
    DeadlineExceededError,
    NotFoundError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache
from tieredfs.errors import TieredFSWarning

SEGMENT = made_segment(0)
CONTENT = content_of(SEGMENT)


class Gate:
    """Holds up every fetch until it is opened."""

    def __init__(self) -> None:
        self.reached, self._opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()


def test_threads_that_want_one_segment_fetch_it_once(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    gate = made.before = Gate()
    with ThreadPoolExecutor(16) as pool:
        wanted = [pool.submit(cache.get, SEGMENT) for _ in range(16)]
        assert gate.reached.wait(30)
        gate.open()
        assert all(bytes_of(one.result(30).indexes) == CONTENT for one in wanted)
    assert made.fetches == 1
    stats = cache.stats
    assert (stats.hits + stats.misses, stats.loads) == (16, 1)


def test_caches_of_one_process_on_one_directory_fetch_once(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    other = RemoteIndexCache(made, cache.directory)
    gate = made.before = Gate()
    with ThreadPoolExecutor(2) as pool:
        wanted = [pool.submit(each.get, SEGMENT) for each in (cache, other)]
        assert gate.reached.wait(30)
        gate.open()
        assert all(bytes_of(one.result(30).indexes) == CONTENT for one in wanted)
    assert made.fetches == 1
    assert cache.stats.loads + other.stats.loads == 1


def test_processes_that_want_the_same_segments_fetch_each_once(tmp_path: Path) -> None:
    context = get_context("spawn")
    start = context.Barrier(3)
    processes = [
        context.Process(target=get_together, args=(tmp_path, start, 20))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert Made(tmp_path / "asked").fetches == 20


def test_a_load_goes_on_when_its_caller_has_gone_and_serves_the_next(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    gate = made.before = Gate()
    for timeout in (0, 0.01):
        with pytest.raises(DeadlineExceededError, match=str(SEGMENT.id)):
            cache.get(SEGMENT, timeout=timeout)
    gate.open()
    assert bytes_of(cache.get(SEGMENT, timeout=30).indexes) == CONTENT
    assert made.fetches == 1


HANGS = """
import threading
from tieredfs import DeadlineExceededError
made, cache = open_cache(tmp_path)
made.before = threading.Event().wait
try:
    cache.get(made_segment(0), timeout=0.1)
except DeadlineExceededError:
    cache.close()
    print("closed")
"""


def test_a_load_that_hangs_does_not_keep_the_process_from_ending(
    tmp_path: Path,
) -> None:
    with start_apart(HANGS, tmp_path) as process:
        try:
            assert process.communicate(timeout=30) == ("closed\n", "")
        finally:
            process.kill()
    assert process.returncode == 0


def test_a_view_waits_no_longer_than_its_own_policy_lets_it(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    hasty = cache.with_storage(made.with_policy(RequestPolicy(deadline=0.2)))
    gate = made.before = Gate()
    hasty.storage.before = gate  # type: ignore[attr-defined] # it is Made
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(cache.get, SEGMENT)
        assert gate.reached.wait(30)
        with pytest.raises(DeadlineExceededError, match=r"0\.2 s"):
            hasty.get(SEGMENT)
        assert not patient.done()
        gate.open()
        assert bytes_of(patient.result(30).indexes) == CONTENT


def test_a_view_that_may_wait_shares_no_failure_of_one_that_may_not(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    hasty = cache.with_storage(made.with_policy(RequestPolicy(deadline=29)))
    gate = Gate()

    def give_up() -> None:
        made.before = int
        gate()
        raise DeadlineExceededError("not done in 29 s")

    hasty.storage.before = give_up  # type: ignore[attr-defined] # it is Made
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(hasty.get, SEGMENT)
        assert gate.reached.wait(30)
        second = pool.submit(cache.get, SEGMENT)
        while cache.stats.misses < 2:
            second.done()
        gate.open()
        with pytest.raises(DeadlineExceededError, match="29 s"):
            first.result(30)
        assert bytes_of(second.result(30).indexes) == CONTENT


def test_reads_that_wait_for_a_free_thread_end_by_their_deadline(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "asked").with_policy(RequestPolicy(deadline=0.5))
    cache = RemoteIndexCache(made, tmp_path / "cache")
    gate = made.before = Gate()
    with ThreadPoolExecutor(40) as pool:
        wanted = [pool.submit(cache.get, made_segment(n)) for n in range(40)]
        ends = [one.exception(30) for one in wanted]
        gate.open()
    assert {type(end) for end in ends} == {DeadlineExceededError}


def test_a_cache_that_another_process_holds_does_not_keep_back_what_was_fetched(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "asked").with_policy(RequestPolicy(deadline=4))
    cache = RemoteIndexCache(made, tmp_path / "cache")
    with (
        cache._directory._locked("tieredfs-lock", 10),
        pytest.warns(TieredFSWarning, match="indexes cannot be cached"),
    ):
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert files_in(cache.directory) == []


def test_a_load_is_kept_even_without_another_call(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    gate = made.before = Gate()
    with pytest.raises(DeadlineExceededError):
        cache.get(SEGMENT, timeout=0)
    gate.open()
    cache.close()  # it comes to its end
    cache._state.pool.shutdown(wait=True)
    _, again = open_cache(tmp_path)
    again.get(SEGMENT)
    assert made.fetches == 1


@pytest.mark.parametrize(
    "error",
    [NotFoundError("gone"), StorageUnavailableError("later"), TimeoutError("slow")],
    ids=lambda error: type(error).__name__,
)
def test_what_the_storage_raises_is_raised_to_all_and_the_next_call_asks_again(
    tmp_path: Path, error: Exception
) -> None:
    made, cache = open_cache(tmp_path)

    def fail() -> None:
        raise error

    made.before = fail
    for timeout in (None, 30):
        with pytest.raises(type(error), match=str(error)):
            cache.get(SEGMENT, timeout=timeout)
    made.before = int
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 3


def test_closing_ends_those_that_wait_for_a_load_that_never_began(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    gate = made.before = Gate()
    with ThreadPoolExecutor(40) as pool:
        wanted = [pool.submit(cache.get, made_segment(n)) for n in range(40)]
        while cache.stats.misses < 40:
            gate.reached.wait(0.01)
        cache.close()
        gate.open()
        ends = [one.exception(30) for one in wanted]
    closed = [end for end in ends if end is not None]
    assert all(isinstance(end, ClosedError) for end in closed)
    assert 0 < len(closed) < 40  # those that were under way came to their ends
    assert made.fetches == 40 - len(closed) == len(files_in(cache.directory))


HOLDS_A_LOAD = """
made, cache = open_cache(tmp_path)
def wait():
    print("fetching", flush=True)
    sys.stdin.readline()
made.before = wait
cache.get(made_segment(0))
"""


def test_the_lock_of_a_killed_process_frees_itself(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    with start_apart(HOLDS_A_LOAD, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "fetching\n"
        with pytest.raises(DeadlineExceededError):
            cache.get(SEGMENT, timeout=0.1)
        assert made.fetches == 1  # it waits for the other
        other.send_signal(signal.SIGKILL)
        assert bytes_of(cache.get(SEGMENT, timeout=30).indexes) == CONTENT
    assert made.fetches == 2


HOLDS_A_LOAD_AND_FORKS = """
import os
warnings.simplefilter("ignore")
made, cache = open_cache(tmp_path)
def wait():
    if os.fork():
        print("forked", flush=True)
    sys.stdin.readline()
    os._exit(0)
made.before = wait
cache.get(made_segment(0))
"""


def test_the_lock_of_a_killed_process_is_free_although_its_child_lives(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "asked").with_policy(RequestPolicy(deadline=600))
    cache = RemoteIndexCache(made, tmp_path / "cache")
    with start_apart(HOLDS_A_LOAD_AND_FORKS, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "forked\n"
        other.send_signal(signal.SIGKILL)
        assert bytes_of(cache.get(SEGMENT, timeout=30).indexes) == CONTENT


def test_a_stopped_process_does_not_block_others_forever(tmp_path: Path) -> None:
    made = Made(tmp_path / "asked")
    hasty = made.with_policy(RequestPolicy(deadline=4))
    cache = RemoteIndexCache(hasty, tmp_path / "cache")
    with start_apart(HOLDS_A_LOAD, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "fetching\n"
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT  # by its deadline
        assert made.fetches == 2
        other.communicate("\n", timeout=30)
    assert len(files_in(cache.directory)) == 1


FORKS = """
import os, threading
made, cache = open_cache(tmp_path)
check(cache, 0)
reached, go_on = threading.Event(), threading.Event()
def wait():
    reached.set()
    assert go_on.wait(30)
made.before = wait
loader = threading.Thread(target=check, args=(cache, 1))
loader.start()
assert reached.wait(30)
cache._state.lock.acquire()         # another thread may hold it while one forks
child = os.fork()
if not child:
    code = 1
    try:
        made.before = int
        assert cache.stats.misses == 0      # it counts for itself
        check(cache, 0)
        check(cache, 2)
        assert cache.stats.hits == cache.stats.loads == 1
        code = 0
    finally:
        os._exit(code)
cache._state.lock.release()
_, status = os.waitpid(child, 0)
assert status == 0, status
go_on.set()
loader.join(30)
check(cache, 2)
assert made.fetches == 3
assert (cache.stats.misses, cache.stats.hits) == (2, 1)
cache.close()
"""


def test_a_forked_child_uses_the_cache_of_its_parent(tmp_path: Path) -> None:
    run_apart(f"warnings.simplefilter('ignore')\n{FORKS}", tmp_path)


def test_a_pickled_cache_is_another_one_over_the_same_files(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path, max_bytes=10 * entry_size(), ttl=50)
    cache.get(SEGMENT)
    again = pickle.loads(pickle.dumps(cache))  # noqa: S301 - our own
    assert bytes_of(again.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 1
    assert (again.max_bytes, again.ttl) == (10 * entry_size(), 50)
    assert again.stats.hits == 1
    cache.close()
    again.get(SEGMENT)


def test_a_pickled_storage_takes_its_cache_along(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path, ttl=50)
    storage = IndexCachedStorage(made, cache)
    storage.fetch_all_indexes(SEGMENT)
    again = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
    assert bytes_of(again.fetch_all_indexes(SEGMENT)) == CONTENT
    assert made.fetches == 1
    assert again.cache.ttl == 50


def test_a_view_is_the_same_cache(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    view = cache.with_storage(made)
    view.get(SEGMENT)
    cache.get(SEGMENT)
    assert made.fetches == 1
    assert view.stats == cache.stats
    view.close()
    with pytest.raises(ClosedError):
        cache.get(SEGMENT)


def test_a_bound_is_that_of_all_processes(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path, max_bytes=10 * entry_size())
    _, other = open_cache(tmp_path, max_bytes=10 * entry_size())
    other.resize(4 * entry_size())
    for number in range(10):
        cache.get(made_segment(number))
    assert cache.stats.size == 4 * entry_size()
    assert cache.stats.evictions == 6


WAYS: dict[str, Callable[[RemoteIndexCache], object]] = {
    "get": lambda cache: [cache.get(made_segment(number)) for number in range(1, 5)],
    "remove": lambda cache: cache.remove([SEGMENT]),
    "clear": lambda cache: cache.clear(),
    "resize": lambda cache: cache.resize(0),
    "close": lambda cache: cache.close(),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_held_outlives_everything(tmp_path: Path, way: str) -> None:
    clock = Clock()
    _, cache = open_cache(tmp_path, max_bytes=2 * entry_size(), clock=clock)
    held = cache.get(SEGMENT)
    clock.now += 1
    WAYS[way](cache)
    for file in files_in(cache.directory):
        file.unlink()
    del cache
    assert bytes_of(held.indexes) == CONTENT
    assert held.lookup_offset(BASE - 1) == (BASE, 0)


def test_a_crowd_of_killed_processes_sees_no_wrong_byte(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    report = run_crowd(tmp_path, 4, 8, seed)
    assert report["kills"] > 1, f"seed {seed}"
    assert report["acts"] > 10, f"seed {seed}"
