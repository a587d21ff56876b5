"""Writing: as a whole or not at all, and by one of several writers."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from objects.guarantees.model import guarantee
from objects.racing import race
from objects.small_parts import upload_in_parts
from objects.subject import Subject
from support.stores import PLACES
from tieredfs import AlreadyExistsError, InvalidArgumentError, NotFoundError
from tieredfs.objects import StoreCapability

MIB = 1 << 20
READERS = 2
ROUNDS = 8


@guarantee("a put is visible immediately", needs=StoreCapability.WRITE)
def put_and_got(subject: Subject) -> None:
    """An object can be read as soon as it was put: of no bytes, of one byte, of one
    MiB.
    """
    for content in (b"", b"x", os.urandom(MIB)):
        for kind in (bytes, bytearray, memoryview):
            subject.store.put("a/b", kind(content), overwrite=True)
            assert subject.store.get("a/b") == content
        assert subject.store.head("a/b").size == len(content)
    source = subject.folder / "source"
    source.write_bytes(bytes(300_000))
    subject.store.put_file("a/c", source, overwrite=True)
    assert subject.store.get("a/c") == bytes(300_000)


@guarantee("an overwrite replaces the whole object", needs=StoreCapability.WRITE)
def overwrite(subject: Subject) -> None:
    """With `overwrite=True`, nothing of the old object remains."""
    store = subject.store
    store.put("a", bytes(1000), overwrite=True)
    store.put("a", b"short", overwrite=True)
    assert store.get("a") == b"short"
    assert store.head("a").size == 5
    assert subject.keys() == ["a"]


@guarantee(
    "a new content has a new version", needs=StoreCapability.WRITE, not_by=("sftp",)
)
def versions(subject: Subject) -> None:
    """Two contents of one size, put under one key immediately one after the other, have
    different versions; on SFTP, a file's time has a resolution of one second.
    """
    found = set()
    for number in range(5):
        subject.store.put("a", bytes([number]), overwrite=True)
        found.add(subject.store.head("a").version)
    assert len(found) == 5


@guarantee(
    "readers see whole objects",
    # rclone replaces an object in two steps, between which there is none: at times.
    places=tuple(kind for kind in PLACES if kind != "s3-rclone"),
    needs=StoreCapability.WHOLE_OBJECTS,
)
def readers_beside_writers(subject: Subject) -> None:
    """A read or listing during an overwrite sees one of the contents, never a part of
    one, never a mixture, never nothing.
    """
    store = subject.store
    contents = [bytes([number]) * 100_000 for number in range(3)]
    store.put("a", contents[0], overwrite=True)
    done = threading.Event()

    def read() -> int:
        seen = 0
        while not done.is_set() or seen < 2:
            assert bytes(store.get("a")) in contents
            assert subject.keys() == ["a"]
            seen += 1
        return seen

    def write(content: bytes) -> None:
        for _ in range(ROUNDS // 2):
            store.put("a", content, overwrite=True)

    with ThreadPoolExecutor(READERS + len(contents)) as pool:
        readers = [pool.submit(read) for _ in range(READERS)]
        try:
            list(pool.map(write, contents))
        finally:
            done.set()
        assert all(reader.result() >= 2 for reader in readers)


class Broken:
    """Content that cannot be read to its end."""

    size = 9 * MIB

    def read(self, start: int, end: int) -> bytes:
        """Return zeros, and fail at the end."""
        if end == self.size:
            raise InvalidArgumentError("it has become shorter while it was read")
        return bytes(end - start)


@guarantee("a writer that fails leaves nothing", needs=StoreCapability.WHOLE_OBJECTS)
def failed_writer(subject: Subject) -> None:
    """If the content cannot be read to its end, no object appears, and an existing
    object stays as it was.
    """
    store = subject.store
    store.put("old", b"old", overwrite=True)
    for key in ("new", "old"):
        with pytest.raises(InvalidArgumentError):
            store._put("put", key, Broken(), overwrite=True)
    if subject.can(StoreCapability.EXCLUSIVE_CREATE):
        with pytest.raises(InvalidArgumentError):
            store._put("put", "new", Broken(), overwrite=False)
    assert store.get("old") == b"old"
    assert subject.keys() == ["old"]


@guarantee("a create does not overwrite", needs=StoreCapability.EXCLUSIVE_CREATE)
def exclusive_create(subject: Subject) -> None:
    """`put(…, overwrite=False)` raises `AlreadyExistsError` if the object exists, and
    does not change it.
    """
    store = subject.store
    store.put("a/b", b"first", overwrite=False)
    for content in (b"second", b""):
        with pytest.raises(AlreadyExistsError, match="a/b"):
            store.put("a/b", content, overwrite=False)
        assert store.get("a/b") == b"first"
    source = subject.folder / "source"
    source.write_bytes(b"third")
    with pytest.raises(AlreadyExistsError):
        store.put_file("a/b", source, overwrite=False)
    assert store.get("a/b") == b"first"


@guarantee("one of sixteen creators wins", needs=StoreCapability.EXCLUSIVE_CREATE)
def sixteen_creators(subject: Subject) -> None:
    """Of sixteen writers that create one key concurrently, one succeeds and the others
    get `AlreadyExistsError`; the object is the one that the winner put.
    """
    won = race(subject.store, "some/key", size=100)
    assert len(won) == 1
    assert subject.store.get("some/key") == won[0]


@guarantee("a copy equals its source", needs=StoreCapability.WRITE)
def copies(subject: Subject) -> None:
    """`copy` replaces the target, creates folders as necessary, and raises
    `NotFoundError` if there is no source.
    """
    store = subject.store
    content = os.urandom(100_000)
    store.put("a", content, overwrite=True)
    store.put("deep/er/b", b"old", overwrite=True)
    for target in ("deep/er/b", "new/folder/c"):
        store.copy("a", target)
        assert store.get(target) == content
    with pytest.raises(NotFoundError, match="missing"):
        store.copy("missing", "d")
    assert subject.keys() == ["a", "deep/er/b", "new/folder/c"]


@guarantee("a delete accepts many keys, and missing ones", needs=StoreCapability.WRITE)
def deletes(subject: Subject) -> None:
    """`delete` accepts any number of keys; a missing one is not an error."""
    store = subject.store
    for key in ("a", "b", "c/d", "c/e"):
        store.put(key, b"1", overwrite=True)
    store.delete(["a", "missing", "c/d", "no/such/folder"])
    assert subject.keys() == ["b", "c/e"]
    store.delete(["a"])
    store.delete([])
    store.delete(iter(["b", "c/e"]))
    assert subject.keys() == []


@guarantee(
    "deleting a folder's name deletes nothing",
    needs=StoreCapability.WRITE,
    not_by=("s3-rclone",),
)
def delete_of_a_folder(subject: Subject) -> None:
    """A key that only names a folder counts as missing."""
    subject.store.put("c/d", b"1", overwrite=True)
    subject.store.delete(["c"])
    subject.store.delete(["c", "missing"])
    assert subject.keys() == ["c/d"]


@guarantee("many keys are deleted in one request", needs=StoreCapability.BULK_DELETE)
def bulk_deletes(subject: Subject) -> None:
    """`delete` of many keys is one request."""
    store = subject.store
    for key in ("a", "b", "c/d"):
        store.put(key, b"1", overwrite=True)
    subject.events.clear()
    store.delete(["a", "b", "c/d", "missing"])
    assert subject.events.by_verb() == {"delete": 1}
    assert subject.keys() == []


@guarantee("large objects are uploaded in parts", needs=StoreCapability.PARTS)
def in_parts(subject: Subject) -> None:
    """An object above a threshold (64 MiB; smaller in this test) is uploaded in parts
    and appears when it is complete; exclusive, refused and failed uploads leave
    nothing behind.
    """
    store = subject.store
    upload_in_parts(store, above=5 * MIB, part_size=5 * MIB)
    content = os.urandom(11 * MIB)
    exclusive = subject.can(StoreCapability.EXCLUSIVE_CREATE)
    store.put("a", content, overwrite=not exclusive)
    assert subject.events.by_verb()["put_part"] == 3
    assert store.get("a") == content
    if exclusive:
        with pytest.raises(AlreadyExistsError):
            store.put("a", bytes(11 * MIB), overwrite=False)
    with pytest.raises(InvalidArgumentError):
        store._put("put", "b", Broken(), overwrite=True)
    assert subject.keys() == ["a"]
    assert store.abort_uploads(timedelta(hours=-1)) == []
    store.put("a", content[: 6 * MIB], overwrite=True)
    assert store.get("a") == content[: 6 * MIB]
