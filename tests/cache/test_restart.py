"""Opening a directory that holds much: one look, no file opened, nothing held."""

import os
import pickle
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from cache.apart import run_apart
from cache.made import (
    Clock,
    Made,
    bytes_of,
    content_of,
    entry_size,
    files_in,
    made_segment,
    open_cache,
)
from tieredfs import ClosedError, InvalidArgumentError
from tieredfs.cache import CacheDirectory, CacheStats, RemoteIndexCache
from tieredfs.cache.ledger import Balance

MANY: Final = [made_segment(number) for number in range(30)]

_RESTART: Final = """
import os
seen = []
sys.addaudithook(lambda event, args: seen.append((event, str(args[0]))))
made, cache = open_cache(tmp_path)
opened = [path for event, path in seen if event == "open" and "indexes" in path]
scans = [path for event, path in seen if event == "os.scandir" and "cache" in path]
assert (opened, len(scans)) == ([], 1), (opened, scans)
held = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{n}")]
assert not [path for path in held if str(directory) in path]
assert str(directory) not in Path("/proc/self/maps").read_text()
for number in range(30):
    check(cache, number)
held = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{n}")]
assert not [path for path in held if str(directory) in path]
assert made.fetches == 30
"""


def test_a_restart_looks_at_the_directory_once_and_opens_no_entry(
    tmp_path: Path,
) -> None:
    _, cache = open_cache(tmp_path)
    for segment in MANY:
        cache.get(segment)
    cache.close()
    run_apart(_RESTART, tmp_path)


def test_a_restart_keeps_the_bound_that_it_is_given(tmp_path: Path) -> None:
    clock = Clock()
    made, cache = open_cache(tmp_path, clock=clock)
    for segment in MANY:
        clock.now += 1
        cache.get(segment)
    cache.close()
    _, again = open_cache(tmp_path, max_bytes=10 * entry_size(), clock=clock)
    assert len(files_in(again.directory)) == 10
    for segment in MANY[-10:]:  # the oldest went
        again.get(segment)
    assert made.fetches == 30


def test_a_cache_opened_without_a_bound_keeps_the_current_one(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path, max_bytes=10 * entry_size())
    stored = pickle.dumps(cache)
    cache.resize(20 * entry_size())
    for again in (RemoteIndexCache(made, cache.directory), pickle.loads(stored)):  # noqa: S301 - our own
        assert again.max_bytes == cache.max_bytes == 20 * entry_size()


def test_nothing_is_evicted_for_an_older_bound_when_a_larger_one_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, cache = open_cache(tmp_path)
    for segment in MANY[:3]:
        cache.get(segment)
    (cache.directory / "tieredfs-ledger").unlink()
    monkeypatch.setattr("tieredfs.cache.cache.DEFAULT_BYTES", entry_size())
    RemoteIndexCache(made, cache.directory, max_bytes=10 * entry_size())
    assert len(files_in(cache.directory)) == 3


def test_what_was_pickled_brings_its_bound_where_there_is_none(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path, max_bytes=10 * entry_size())
    stored = pickle.dumps(cache)
    shutil.rmtree(cache.directory)
    assert pickle.loads(stored).max_bytes == 10 * entry_size()  # noqa: S301 - our own


@pytest.mark.parametrize("lost", ["directory", "ledger"])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_cache_keeps_its_bound_when_the_directory_loses_it(
    tmp_path: Path, lost: str, is_given: bool
) -> None:
    made, first = open_cache(tmp_path, max_bytes=2 * entry_size())
    cache = first if is_given else RemoteIndexCache(made, first.directory)
    cache.get(MANY[0])
    if lost == "directory":
        shutil.rmtree(cache.directory)
    else:
        (cache.directory / "tieredfs-ledger").unlink()
    assert cache.max_bytes == 2 * entry_size()
    for segment in MANY[:4]:
        cache.get(segment)
    assert cache.stats.size == cache.max_bytes == 2 * entry_size()


def test_a_relative_directory_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = RemoteIndexCache(Made(tmp_path / "asked"), "kept")
    monkeypatch.chdir("/")
    cache.get(MANY[0])
    assert cache.directory == tmp_path / "kept"
    assert len(files_in(tmp_path / "kept")) == 1


def test_counters_begin_at_nothing_and_count_everything(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path, max_bytes=2 * entry_size())
    assert cache.stats == CacheStats(0, 0, 0, 0.0, 0, 0, 0)
    cache.get(MANY[0])
    cache.get(MANY[0])
    cache.lookup_offset(MANY[0], 0)
    cache.get(MANY[1])
    cache.get(MANY[2])
    stats = cache.stats
    assert (stats.hits, stats.misses, stats.loads) == (2, 3, 3)
    assert (stats.evictions, stats.corruptions) == (1, 0)
    assert stats.size == 2 * entry_size()
    assert stats.load_seconds > 0
    for file in files_in(cache.directory):
        file.write_bytes(b"")
    _, again = open_cache(tmp_path)
    again.get(MANY[2])
    again.get(MANY[2])
    stats = again.stats
    assert (stats.hits, stats.misses, stats.loads, stats.corruptions) == (1, 1, 1, 1)
    assert made.fetches == 4


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": -1},
        {"max_bytes": 1 << 63},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": float("nan")},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        open_cache(tmp_path, **options)
    assert not (tmp_path / "cache").exists()


def test_a_cache_cannot_be_resized_to_less_than_nothing(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    with pytest.raises(InvalidArgumentError):
        cache.resize(-1)


def test_a_cache_can_be_used_in_a_with_block(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    with cache as same:
        assert same is cache
        found = cache.get(MANY[0])
    assert bytes_of(found.indexes) == content_of(MANY[0])
    with pytest.raises(ClosedError, match="closed"):
        cache.get(MANY[0])


def test_a_directory_whose_name_is_not_valid_text_works_like_any_other(
    tmp_path: Path,
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    made, cache = open_cache(folder)
    for _ in range(2):
        cache.get(MANY[0])
        cache.close()
        _, cache = open_cache(folder)
    assert made.fetches == 1
    cache.remove(MANY)
    assert files_in(cache.directory) == []


def test_the_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    assert cache.directory.stat().st_mode & 0o777 == 0o700


def test_what_was_left_by_a_process_that_has_our_number_goes_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "cache"
    directory.mkdir()
    left = directory / f"{os.getpid()}-{'0' * 16}.tmp"
    left.write_bytes(b"1")
    open_cache(tmp_path)
    assert left.exists()
    now = left.stat().st_ctime + 3601
    monkeypatch.setattr("tieredfs.cache.directory.time.time", lambda: now)
    open_cache(tmp_path)
    assert not left.exists()


def test_a_cache_shows_where_it_is_and_no_secret(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    assert str(tmp_path) in repr(cache)
    assert "memory://" in repr(cache)


def test_entries_are_their_owners_alone_in_a_directory_that_is_not(
    tmp_path: Path,
) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    place.chmod(0o755)
    _, cache = open_cache(tmp_path)
    cache.get(MANY[0])
    (entry,) = files_in(cache.directory)
    assert entry.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, ...]]:
    """Hold up those who count a directory in a thread of that name.

    Yields:
        What is set when one has begun; what lets it go on.
    """
    scandir = os.scandir
    begun, go_on = threading.Event(), threading.Event()

    def held_up(path: Any) -> Any:  # noqa: ANN401 - os.scandir's
        found = scandir(path)
        if threading.current_thread().name.startswith("counting"):
            begun.set()
            assert go_on.wait(60)
        return found

    monkeypatch.setattr("tieredfs.cache.directory.os.scandir", held_up)
    yield begun, go_on
    go_on.set()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_directory_that_is_counted_when_it_is_opened_holds_up_no_other_cache(
    tmp_path: Path,
    counting: tuple[threading.Event, threading.Event],
    is_known: bool,
) -> None:
    begun, go_on = counting
    made, cache = open_cache(tmp_path)
    cache.get(MANY[0])
    ledger = cache._directory._ledger
    if not is_known:  # as a process that was killed leaves it
        ledger.write(Balance(cache.max_bytes, None, 0))
    with ThreadPoolExecutor(1, "counting") as pool:
        opening = pool.submit(RemoteIndexCache, made, cache.directory)
        assert begun.wait(30)
        for segment in MANY[1:4]:
            cache.get(segment)
        assert len(files_in(cache.directory)) == 4
        go_on.set()
        opening.result(30)
    # A count made before the others' changes is not used.
    size = sum(file.stat().st_size for file in files_in(cache.directory))
    balance = ledger.read()
    assert balance is not None
    assert balance.total == size


_TWO_KILLED: Final = """
import os, signal
from tieredfs.cache import CacheDirectory

def die_while_adding(directory, number):
    if not os.fork():
        with directory._changing(count(directory)):
            (directory.path / f"{number:032x}.indexes").write_bytes(b"0123456789")
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()

def count_and_another_dies(directory):
    found = count(directory)
    if not deaths:
        deaths.append(directory)
        die_while_adding(directory, 2)
    return found

made, cache = open_cache(tmp_path)
check(cache, 0)
count, deaths = CacheDirectory._counted, []
die_while_adding(cache._directory, 1)
CacheDirectory._counted = count_and_another_dies
open_cache(tmp_path)
size = sum(file.stat().st_size for file in cache.directory.glob("*.indexes"))
assert deaths
assert cache._directory._ledger.read().total == size
"""


def test_a_count_that_began_before_a_second_killed_process_is_not_used(
    tmp_path: Path,
) -> None:
    run_apart(_TWO_KILLED, tmp_path)


def test_a_count_is_not_used_when_an_entry_took_the_place_of_another_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = 3 * entry_size()
    _, cache = open_cache(tmp_path, max_bytes=full)
    for segment in MANY[:3]:
        cache.get(segment)
    count = CacheDirectory._counted

    def missing_one(directory: CacheDirectory) -> Any:  # noqa: ANN401 - a count
        """Count as a scan may that sees neither the old entry nor the new one."""
        monkeypatch.undo()
        found: Any = count(directory)
        cache.get(MANY[3])
        return found._replace(total=found.total - entry_size())

    monkeypatch.setattr(CacheDirectory, "_counted", missing_one)
    open_cache(tmp_path)
    balance = cache._directory._ledger.read()
    assert balance is not None
    assert balance.total == full


def test_opening_counts_again_what_something_else_has_changed(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    for segment in MANY[:3]:
        cache.get(segment)
    files_in(cache.directory)[0].unlink()
    RemoteIndexCache(made, cache.directory)
    size = sum(file.stat().st_size for file in files_in(cache.directory))
    balance = cache._directory._ledger.read()
    assert balance is not None
    assert balance.total == size


def test_files_of_other_programs_in_the_directory_stay_as_they_are(
    tmp_path: Path,
) -> None:
    names = ["ledger", "lock", "load-0001", "index", "records.indexes", "1.tmp"]
    directory = tmp_path / "cache"
    directory.mkdir()
    for name in names:
        (directory / name).write_text("2026-01-01 rent -1200")
    _, cache = open_cache(tmp_path, max_bytes=2 * entry_size())
    for segment in MANY:
        cache.get(segment)
    cache.remove(MANY[:3])
    cache.clear()
    for name in names:
        assert (directory / name).read_text() == "2026-01-01 rent -1200"
