"""Archives, on disks and on servers; whole, damaged and out of reach."""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs

from servers import FaultProxy, Fleet, RangeHTTP, Sftp
from support.deadlines import assert_all_end_by_the_deadline
from support.events import Events
from support.prerequisites import server_of
from support.stores import make_place
from tieredfs import (
    ByteRange,
    CorruptObjectError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    UnsupportedOperationError,
)

CONTENT = bytes(range(256)) * 4000
FILES = {
    "key": CONTENT,
    "a/b/c": b"deep",
    "a-b": b"1",
    "a/b-c/d": b"2",
    "é%20 #?+*[": b"odd",
    "empty": b"",
}
QUICK = RequestPolicy(attempts=2, backoff=0.001)

WRITES: dict[str, Callable[[ObjectStore], Any]] = {
    "put": lambda store: store.put("key", b"1", overwrite=True),
    "create": lambda store: store.put("new", b"1", overwrite=False),
    "copy": lambda store: store.copy("key", "other"),
    "delete": lambda store: store.delete(["key"]),
}
READS: dict[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 10, 20),
    "head": lambda store: store.head("key"),
    "list": lambda store: [entry.key for entry in store.list()],
}


def zipped(method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of the files, and of empty folders."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.mkdir("a")
        archive.mkdir("hollow")
        for key, content in FILES.items():
            archive.writestr(key, content)
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for key, content in FILES.items():
            member = tarfile.TarInfo(key)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(params=["stored", "deflated", "tar"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An archive of the files on a disk."""
    if request.param == "tar":
        (tmp_path / "a.tar").write_bytes(tarred())
        return f"tar::file://{tmp_path}/a.tar"
    method = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}
    (tmp_path / "a.zip").write_bytes(zipped(method[request.param]))
    return f"zip::file://{tmp_path}/a.zip"


def test_its_members_are_its_objects(url: str) -> None:
    events = Events()
    store = ObjectStore(url, observer=events)
    assert [entry.key for entry in store.list()] == sorted(FILES)
    for prefix in ("a", "a/", "a/b", "a/b/", "a-", "z"):
        below = sorted(key for key in FILES if key.startswith(prefix))
        assert [entry.key for entry in store.list(prefix)] == below
    folded = ["a-b", "a/", "empty", "key", "é%20 #?+*["]
    assert [entry.key for entry in store.list(delimiter="/")] == folded
    assert {event.attempts for event in events} == {1}
    for key, content in FILES.items():
        assert store.get(key) == content
        assert store.head(key).size == len(content)
        assert store.head(key) == next(store.list(key))
    ranges = [ByteRange(900_000, 900_010), ByteRange(1, 4)]
    assert store.get_ranges("key", ranges) == [CONTENT[900_000:900_010], CONTENT[1:4]]
    for key in ("missing", "a", "hollow", "a/b", "key/below"):
        for verb in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(NotFoundError, match=key):
                verb(key)
    with pytest.raises(CorruptObjectError):
        store.get_range("key", 0, len(CONTENT) + 1)


def test_sixteen_threads_read_one_archive(url: str) -> None:
    store = ObjectStore(url)

    def read(number: int) -> bool:
        start = number * 10_000
        return store.get_range("key", start, start + 999) == CONTENT[start:][:999]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read, range(90)))


def test_a_folder_of_it_is_a_store_too(url: str) -> None:
    link, _, rest = url.partition("::")
    for place in (f"{link}://a::{rest}", f"dir://a::{link}::{rest}"):
        store = ObjectStore(place)
        assert [entry.key for entry in store.list()] == ["b-c/d", "b/c"]
        assert store.get("b/c") == b"deep"


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_it_is_read_only_and_not_even_opened(kind: str, verb: str) -> None:
    store = ObjectStore(f"{kind}::http://127.0.0.1:9/no-such-server")
    with pytest.raises(UnsupportedOperationError, match="it is read-only"):
        WRITES[verb](store)


def test_nothing_is_promised(url: str) -> None:
    assert ObjectStore(url).probe_capabilities() == frozenset()


@pytest.mark.parametrize("verb", READS)
def test_an_archive_that_is_not_there_is_not_found(tmp_path: Path, verb: str) -> None:
    with pytest.raises(NotFoundError):
        READS[verb](ObjectStore(f"zip::file://{tmp_path}/none.zip"))


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_file_that_is_not_an_archive_is_corrupt(
    tmp_path: Path, kind: str, verb: str
) -> None:
    (tmp_path / "a").write_bytes(b"neither of them" * 1000)
    store = ObjectStore(f"{kind}::file://{tmp_path}/a", policy=QUICK)
    with pytest.raises(CorruptObjectError):
        READS[verb](store)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("spoilt", ["a byte", "the middle", "the end"])
def test_a_damaged_member_is_corrupt(tmp_path: Path, method: int, spoilt: str) -> None:
    whole = bytearray(zipped(method))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        member = archive.getinfo("key")
    begin, size = member.header_offset + 40, member.compress_size
    if spoilt == "a byte":
        whole[begin + size // 2] ^= 1
    elif spoilt == "the middle":
        whole[begin + 100 : begin + size // 2] = bytes(size // 2 - 100)
    else:
        whole[begin + size - 60 : begin + size - 10] = b"\xff" * 50
    (tmp_path / "a.zip").write_bytes(whole)
    store = ObjectStore(f"zip::file://{tmp_path}/a.zip", policy=QUICK)
    with pytest.raises(CorruptObjectError, match="key"):
        store.get("key")
    assert store.get("a/b/c") == b"deep"


def test_an_encrypted_member_cannot_be_read(tmp_path: Path) -> None:
    whole = bytearray(zipped())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = whole.find(signature)
        while at >= 0:
            whole[at + offset] |= 1
            at = whole.find(signature, at + 1)
    (tmp_path / "a.zip").write_bytes(whole)
    store = ObjectStore(f"zip::file://{tmp_path}/a.zip")
    with pytest.raises(UnsupportedOperationError, match="key"):
        store.get("key")


def test_an_archive_that_was_replaced_is_opened_again_when_it_makes_no_sense(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped())
    store = ObjectStore(f"zip::file://{path}", policy=QUICK)
    assert store.get("a/b/c") == b"deep"
    with path.open("r+b") as file:  # in place: what is open sees it
        file.truncate(0)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("other", b"2" * 999)
    with pytest.raises((CorruptObjectError, StorageUnavailableError)):
        store.get("key")
    assert [entry.key for entry in store.list()] == ["other"]


@pytest.mark.parametrize("kind", ["memory", "s3", "sftp", "webhdfs", "http"])
def test_it_may_lie_anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    content = zipped(zipfile.ZIP_DEFLATED)
    place = make_place(kind, request, tmp_path, {"a.zip": content})
    protocol = place.url.partition("://")[0]
    options = {protocol: place.storage_options}
    store = ObjectStore(f"zip::{place.url}/a.zip", options)
    assert [entry.key for entry in store.list()] == sorted(FILES)
    assert {key: bytes(store.get(key)) for key in FILES} == FILES
    with pytest.raises(UnsupportedOperationError):
        store.put("a", b"1", overwrite=True)


@pytest.fixture
def proxied(fleet: Fleet) -> Iterator[tuple[str, FaultProxy]]:
    """An archive on a web server behind a proxy."""
    server = server_of("http", fleet)
    assert isinstance(server, RangeHTTP)
    place = fleet.place("http")
    path = place.url.removeprefix(server.endpoint)
    filesystem, root = url_to_fs(f"{server.root}{path}")
    filesystem.makedirs(root)
    filesystem.pipe_file(f"{root}/a.zip", zipped())
    with FaultProxy(server.port) as proxy:
        yield f"zip::{proxy.url}{path}/a.zip", proxy


def test_one_that_cannot_be_opened_is_given_up_by_the_deadline(
    proxied: tuple[str, FaultProxy],
) -> None:
    url, proxy = proxied
    proxy.add(hang=60)
    store = ObjectStore(url)
    assert_all_end_by_the_deadline(store, READS.values())
    proxy.clear()
    assert store.get("key") == CONTENT


def test_a_read_that_hangs_is_abandoned_and_blocks_no_other(
    proxied: tuple[str, FaultProxy],
) -> None:
    url, proxy = proxied
    store = ObjectStore(url, {"http": {"block_size": 1 << 16}})
    assert store.get("a/b/c") == b"deep"
    proxy.add(hang=60)
    assert_all_end_by_the_deadline(store, [READS["get"]] * 3)
    proxy.clear()
    assert store.get("key") == CONTENT


def test_what_fails_once_is_tried_again(proxied: tuple[str, FaultProxy]) -> None:
    url, proxy = proxied
    store = ObjectStore(url, policy=RequestPolicy(backoff=0.001))
    proxy.add("GET", cut_after=100, times=1)
    assert store.get("key") == CONTENT


def test_a_connection_below_that_was_lost_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.zip").write_bytes(zipped())
    policy = RequestPolicy(attempts=3, backoff=0.001)
    with Sftp(tmp_path) as server:
        url, options = server.bucket("b")
        store = ObjectStore(f"zip::{url}/a.zip", {"sftp": options}, policy=policy)
        assert store.get("a/b/c") == b"deep"
        server.drop()
        assert store.get("key") == CONTENT
