"""An object appears whole or not at all, and to one of several writers."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from servers import FaultProxy, ProxiedBucket, Request
from tieredfs import (
    AlreadyExistsError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from tieredfs.objects import StoreCapability


def test_readers_beside_writers_see_whole_objects(store: ObjectStore) -> None:
    payloads = [bytes([number]) * 200_000 for number in range(4)]
    store.put("a", payloads[0], overwrite=True)

    def write(payload: bytes) -> None:
        for _ in range(5):
            store.put("a", payload, overwrite=True)

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, payload) for payload in payloads]
        seen = 0
        while seen < 5 or not all(writer.done() for writer in writers):
            assert bytes(store.get("a")) in payloads
            assert [entry.key for entry in store.list()] == ["a"]
            seen += 1
        for writer in writers:
            writer.result()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Make the kernel refuse to write more than this to a file: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, overwrite: bool
) -> None:
    store = ObjectStore(str(tmp_path / "root"), policy=RequestPolicy(attempts=1))
    source = tmp_path / "source"
    source.write_bytes(bytes(300_000))
    store.put("old", b"old", overwrite=False)
    with largest_file(100_000):
        with pytest.raises(UnsupportedOperationError, match="new"):
            store.put("new", bytes(300_000), overwrite=overwrite)
        with pytest.raises(UnsupportedOperationError, match="new"):
            store.put_file("new", source, overwrite=overwrite)
        with pytest.raises(UnsupportedOperationError, match="old"):
            store.put("old", bytes(300_000), overwrite=True)
    assert [entry.key for entry in store.list()] == ["old"]
    assert store.get("old") == b"old"
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["old"]


class SlowContent:
    """Two pieces, the second of which is there when the test says so."""

    size = 9 << 20

    def __init__(self) -> None:
        self.half = threading.Event()
        self.rest = threading.Event()

    def read(self, start: int, end: int) -> bytes:
        if start:
            self.half.set()
            assert self.rest.wait(10)
        return bytes(end - start)


def test_half_a_write_is_not_visible(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "root"))
    content = SlowContent()
    with ThreadPoolExecutor(1) as pool:
        backend = store._requests.backend("", "")
        done = pool.submit(backend.put, "a/b", content, 10, overwrite=False)
        assert content.half.wait(10)
        assert list(store.list()) == []
        with pytest.raises(NotFoundError):
            store.get("a/b")
        with pytest.raises(NotFoundError):
            store.head("a/b")
        content.rest.set()
        done.result()
    assert store.head("a/b").size == content.size


NAMED = "from tieredfs.objects.backends.local import nameless as n; n._FLAG = 0\n"
"""Of a program: the disk has no files without a name."""


def killed_writer(root: Path, before: str = "") -> None:
    """Let a process be killed when it has written half of an object."""
    program = (
        f"{before}"
        "import os, sys, tieredfs\n"
        "class Content:\n"
        "    size = 9 << 20\n"
        "    def read(self, start, end):\n"
        "        if start:\n"
        "            os.kill(os.getpid(), 9)\n"
        "        return bytes(end - start)\n"
        "store = tieredfs.ObjectStore(sys.argv[1])\n"
        "backend = store._requests.backend('', '')\n"
        "backend.put('a', Content(), 10, overwrite=False)\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, str(root)], check=False
    )
    assert done.returncode == -signal.SIGKILL


def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    killed_writer(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_killed_leaves_nothing_visible(tmp_path: Path) -> None:
    killed_writer(tmp_path, NAMED)
    store = ObjectStore(str(tmp_path))
    assert list(store.list()) == []
    assert list(store.list(delimiter="/")) == []
    store.put("a", b"1", overwrite=False)
    assert [entry.key for entry in store.list()] == ["a"]


def test_what_a_killed_writer_left_is_cleaned_when_it_is_old(tmp_path: Path) -> None:
    killed_writer(tmp_path, NAMED)
    (left,) = tmp_path.iterdir()
    store = ObjectStore(str(tmp_path))
    assert store.abort_uploads() == []
    assert list(tmp_path.iterdir()) == [left]
    yesterday = time.time() - 86_500
    os.utime(left, (yesterday, yesterday))
    store.put("a", b"1", overwrite=False)
    assert store.abort_uploads() == [left.name]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_files_that_are_finished_meanwhile_do_not_disturb_the_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f".{0:016x}.tieredfs-tmp"
    left.touch()
    scan = os.scandir

    @contextmanager
    def scan_and_finish(folder: int) -> Iterator[list[os.DirEntry[str]]]:
        with scan(folder) as items:
            found = list(items)
        left.unlink()
        yield found

    monkeypatch.setattr(os, "scandir", scan_and_finish)
    assert ObjectStore(str(tmp_path)).abort_uploads(timedelta(0)) == []
    assert not left.exists()


def test_a_name_as_long_as_a_disk_allows_can_be_written(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("x" * 255, b"1", overwrite=False)
    assert store.get("x" * 255) == b"1"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the files and folders that are synced, in order."""
    numbers: list[int] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        numbers.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return numbers


def test_what_was_put_survives_a_power_cut(tmp_path: Path, synced: list[int]) -> None:
    store = ObjectStore(str(tmp_path / "above" / "root"))
    store.put("a/b/c/d", b"1", overwrite=False)
    places = ["", "above", "above/root", "above/root/a", "above/root/a/b"]
    last = ["above/root/a/b/c/d", "above/root/a/b/c"]
    assert synced == [(tmp_path / place).stat().st_ino for place in places + last]


@pytest.mark.parametrize("key", ["a/b/e", "a/b/c"])
def test_only_what_a_put_has_changed_is_synced(
    tmp_path: Path, synced: list[int], key: str
) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("a/b/c", b"1", overwrite=False)
    synced.clear()
    store.put(key, b"2", overwrite=True)
    assert synced == [(tmp_path / place).stat().st_ino for place in (key, "a/b")]
    synced.clear()
    store.copy(key, "a/new/f")
    places = ("a", "a/new/f", "a/new")
    assert synced == [(tmp_path / place).stat().st_ino for place in places]


@pytest.fixture
def sure(proxied: ProxiedBucket) -> tuple[ObjectStore, FaultProxy]:
    """A store behind a proxy that knows what it can do."""
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=RequestPolicy(backoff=0.01))
    assert StoreCapability.EXCLUSIVE_CREATE in store.probe_capabilities()
    proxy.clear()
    return store, proxy


Sure = tuple[ObjectStore, FaultProxy]


def writing(store: ObjectStore) -> str:
    """Return the method by which a small object is put."""
    return "POST" if store.url.startswith("gs:") else "PUT"


def is_look(request: Request) -> bool:
    """Return whether a request reads the object."""
    return request.method in {"GET", "HEAD"}


def test_an_upload_that_breaks_leaves_nothing(sure: Sure) -> None:
    store, proxy = sure
    proxy.add(writing(store), cut_before=True)
    for overwrite in (False, True):
        with pytest.raises(StorageUnavailableError, match="new"):
            store.put("new", bytes(100_000), overwrite=overwrite)
    assert list(store.list()) == []
    with pytest.raises(NotFoundError):
        store.head("new")


class TestAReplyThatIsLost:
    def test_a_create_is_recognised_as_our_own(self, sure: Sure) -> None:
        store, proxy = sure
        proxy.add(writing(store), lose_reply=True, times=1)
        store.put("a", b"mine", overwrite=False)
        assert store.get("a") == b"mine"

    def test_a_create_is_recognised_though_the_look_at_it_fails_at_first(
        self, sure: Sure
    ) -> None:
        store, proxy = sure
        proxy.add(writing(store), lose_reply=True, times=1)
        proxy.add(when=is_look, status=503, times=2)
        store.put("a", b"mine", overwrite=False)
        assert store.get("a") == b"mine"

    def test_already_exists_is_raised_only_after_the_comparison(
        self, sure: Sure
    ) -> None:
        store, proxy = sure
        proxy.add(writing(store), lose_reply=True, times=1)
        proxy.add(when=is_look, status=503)
        with pytest.raises(StorageUnavailableError):
            store.put("a", b"mine", overwrite=False)

    def test_a_create_is_recognised_when_no_reply_ever_comes(self, sure: Sure) -> None:
        store, proxy = sure
        proxy.add(writing(store), lose_reply=True)
        store.put("a", b"mine", overwrite=False)
        assert len(proxy.requests(writing(store))) == 5
        store.put("a", b"yours", overwrite=True)
        assert store.get("a") == b"yours"

    def test_a_create_that_is_done_and_never_answered_is_recognised_in_time(
        self, sure: Sure
    ) -> None:
        store, proxy = sure
        proxy.add(writing(store), hang_after=0)
        once = store.with_policy(RequestPolicy(attempts=1, deadline=3))
        once.put("a", b"mine", overwrite=False)
        assert len(proxy.requests(writing(store))) == 1
        assert store.get("a") == b"mine"

    def test_an_object_of_others_is_not_taken_for_ours(self, sure: Sure) -> None:
        store, proxy = sure
        store.put("a", b"them", overwrite=False)
        proxy.add(writing(store), lose_reply=True, times=1)
        with pytest.raises(AlreadyExistsError):
            store.put("a", b"mine", overwrite=False)
        with pytest.raises(AlreadyExistsError):
            store.put("a", b"longer", overwrite=False)
        assert store.get("a") == b"them"

    def test_a_write_that_was_not_done_is_an_error(self, sure: Sure) -> None:
        store, proxy = sure
        proxy.add(writing(store), cut_before=True)
        for overwrite in (False, True):
            with pytest.raises(StorageUnavailableError, match="a"):
                store.put("a", b"mine", overwrite=overwrite)
        assert list(store.list()) == []

    def test_a_create_of_the_same_bytes_is_refused_when_it_is_clear(
        self, sure: Sure
    ) -> None:
        store, _ = sure
        store.put("a", b"mine", overwrite=False)
        with pytest.raises(AlreadyExistsError):
            store.put("a", b"mine", overwrite=False)

    def test_a_delete_and_a_copy_are_repeated(self, sure: Sure) -> None:
        store, proxy = sure
        store.put("a", b"mine", overwrite=False)
        proxy.add(lose_reply=True, times=1)
        store.copy("a", "b")
        proxy.add(lose_reply=True, times=1)
        store.delete(["a"])
        assert [entry.key for entry in store.list()] == ["b"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_create_that_was_refused_is_repeated(sure: Sure, status: int) -> None:
    store, proxy = sure
    proxy.add(writing(store), status=status, times=2)
    store.put("a", b"mine", overwrite=False)
    assert len(proxy.requests(writing(store))) == 3
    assert store.get("a") == b"mine"
