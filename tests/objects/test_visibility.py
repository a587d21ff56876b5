"""An object appears whole or not at all, and to one of several writers."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers import ProxiedBucket
from tieredfs import (
    AlreadyExistsError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
)

WRITERS = 16


def race(store: ObjectStore, key: str, payloads: list[bytes]) -> list[bytes]:
    """Let a thread for each payload create one key; return what succeeded."""
    ready = threading.Barrier(len(payloads))

    def create(payload: bytes) -> bytes | None:
        ready.wait()
        try:
            store.put(key, payload, overwrite=False)
        except AlreadyExistsError:
            return None
        return payload

    with ThreadPoolExecutor(len(payloads)) as pool:
        return [won for won in pool.map(create, payloads) if won is not None]


@pytest.mark.parametrize("size", [1, 100_000])
def test_exactly_one_of_many_creators_wins(store: ObjectStore, size: int) -> None:
    store.put("warm", b"1", overwrite=True)
    rounds = 1 if store.url.startswith("s3:") else 5  # SeaweedFS takes seconds
    for number in range(rounds):
        payloads = [bytes([writer]) * size for writer in range(WRITERS)]
        won = race(store, f"key/{number}", payloads)
        assert len(won) == 1
        assert store.get(f"key/{number}") == won[0]


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
        with pytest.raises(StorageUnavailableError, match="new"):
            store.put("new", bytes(300_000), overwrite=overwrite)
        with pytest.raises(StorageUnavailableError, match="new"):
            store.put_file("new", source, overwrite=overwrite)
        with pytest.raises(StorageUnavailableError, match="old"):
            store.put("old", bytes(300_000), overwrite=True)
    assert [entry.key for entry in store.list()] == ["old"]
    assert store.get("old") == b"old"
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["old"]


def test_half_a_write_is_not_visible(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "root"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(store.put_file, "a/b", pipe, overwrite=False)
        with pipe.open("wb", buffering=0) as half:
            half.write(bytes(10_000))
            assert list(store.list()) == []
            with pytest.raises(NotFoundError):
                store.get("a/b")
            with pytest.raises(NotFoundError):
                store.head("a/b")
            half.write(bytes(10_000))
        done.result()
    assert store.head("a/b").size == 20_000


def test_a_writer_that_is_killed_leaves_nothing_visible(tmp_path: Path) -> None:
    root, pipe = tmp_path / "root", tmp_path / "pipe"
    os.mkfifo(pipe)
    program = (
        "import sys, pathlib, tieredfs\n"
        "store = tieredfs.ObjectStore(sys.argv[1])\n"
        "store.put_file('a', pathlib.Path(sys.argv[2]), overwrite=False)\n"
    )
    writer = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, str(root), str(pipe)]
    )
    with pipe.open("wb", buffering=0) as half:
        half.write(bytes(1 << 18))  # more than a pipe holds: some of it has been read
        writer.kill()
        writer.wait()
    store = ObjectStore(str(root))
    assert list(store.list()) == []
    assert list(store.list(delimiter="/")) == []
    store.put("a", b"1", overwrite=False)
    assert [entry.key for entry in store.list()] == ["a"]


def test_a_name_as_long_as_a_disk_allows_can_be_written(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("x" * 255, b"1", overwrite=False)
    assert store.get("x" * 255) == b"1"


def test_an_upload_that_breaks_leaves_nothing(proxied: ProxiedBucket) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=RequestPolicy(attempts=1))
    proxy.add("PUT", cut_before=True)
    for overwrite in (False, True):
        with pytest.raises(StorageUnavailableError, match="new"):
            store.put("new", bytes(100_000), overwrite=overwrite)
    assert list(store.list()) == []
    with pytest.raises(NotFoundError):
        store.head("new")


def test_a_create_that_failed_unclearly_is_not_repeated(proxied: ProxiedBucket) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=RequestPolicy(backoff=0.01))
    proxy.add("PUT", lose_reply=True, times=1)
    with pytest.raises(StorageUnavailableError):
        store.put("a", b"mine", overwrite=False)
    assert len(proxy.requests("PUT")) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_create_that_was_refused_is_repeated(
    proxied: ProxiedBucket, status: int
) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=RequestPolicy(backoff=0.01))
    proxy.add("PUT", status=status, times=2)
    store.put("a", b"mine", overwrite=False)
    assert len(proxy.requests("PUT")) == 3
    assert store.get("a") == b"mine"
