import time
from array import array
from pathlib import Path

import numpy as np
import pytest

from servers import Bucket
from support.events import Events
from support.stores import KINDS, make_place, open_store
from tieredfs import (
    AlreadyExistsError,
    ByteRange,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
)
from tieredfs.objects import DryRunStore, StoreCapability

CONTENT = bytes(range(256))
LAST = (1 << 63) - 1
"""Where the largest object that can be ends."""


def counted(place: Bucket) -> tuple[ObjectStore, Events]:
    """Return a store that knows what it can do, and who counts from now on."""
    events = Events()
    store = ObjectStore(place.url, place.storage_options, observer=events)
    assert StoreCapability.WRITE in store.probe_capabilities()
    events.clear()
    return store, events


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


@pytest.mark.parametrize("content", [b"", b"x", CONTENT, bytes(1 << 20)], ids=len)
def test_what_was_put_is_what_is_got(store: ObjectStore, content: bytes) -> None:
    store.put("a/b", content, overwrite=False)
    assert store.get("a/b") == content
    assert store.head("a/b").size == len(content)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_put(
    store: ObjectStore, kind: type[bytes] | type[bytearray] | type[memoryview]
) -> None:
    store.put("a", kind(CONTENT), overwrite=True)
    assert store.get("a") == CONTENT


@pytest.mark.parametrize(
    "data",
    [
        memoryview(CONTENT)[::2],
        memoryview(CONTENT)[::-1],
        memoryview(b""),
        np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
        np.zeros((3, 0)),
        array("i", [1, 2, 3]),
    ],
    ids=["steps", "backwards", "empty", "columns", "empty columns", "numbers"],
)
def test_a_buffer_is_put_whatever_its_shape_is(
    tmp_path: Path, data: memoryview
) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("a", data, overwrite=True)
    assert store.get("a") == memoryview(data).tobytes()


@pytest.mark.parametrize("data", ["text", 5, None, np.zeros(1, "datetime64[s]")])
def test_only_a_buffer_can_be_put(store: ObjectStore, data: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="buffer"):
        store.put("a", data, overwrite=True)
    assert keys(store) == []


def test_what_is_got_cannot_be_changed(store: ObjectStore) -> None:
    store.put("a", CONTENT, overwrite=True)
    assert store.get("a").readonly
    assert store.get_range("a", 1, 5).readonly


def test_a_range_inside_the_object_is_exact(store: ObjectStore) -> None:
    store.put("a", CONTENT, overwrite=True)
    for start in (0, 1, 17, 255):
        for end in range(start + 1, 257, 1 if start == 255 else 51):
            assert store.get_range("a", start, end) == CONTENT[start:end]
    assert store.get_range("a", 0, 256) == CONTENT


def test_an_empty_range_asks_nothing(place: Bucket) -> None:
    store, events = counted(place)
    for at in (0, 7, 256, 1 << 40):
        assert store.get_range("not there", at, at) == b""
    assert events.requests == 0


@pytest.mark.parametrize(
    ("start", "end"), [(0, 257), (255, 257), (256, 257), (1000, 1001), (0, 1 << 40)]
)
def test_a_range_past_the_end_is_corrupt_and_named(
    store: ObjectStore, start: int, end: int
) -> None:
    store.put("some/key", CONTENT, overwrite=True)
    with pytest.raises(CorruptObjectError) as caught:
        store.get_range("some/key", start, end)
    assert "some/key" in str(caught.value)
    assert f"[{start}, {end})" in str(caught.value)
    assert store.url in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_range_far_past_the_end_is_corrupt_too(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """A disk refuses to go where no file of its can end."""
    store = open_store(make_place(kind, request, tmp_path))
    store.put("a", CONTENT, overwrite=True)
    with pytest.raises(CorruptObjectError):
        store.get_range("a", LAST - 1, LAST)


@pytest.mark.parametrize("size", [0, 1])
def test_a_range_past_the_end_of_a_tiny_object_is_corrupt(
    store: ObjectStore, size: int
) -> None:
    store.put("a", bytes(size), overwrite=True)
    with pytest.raises(CorruptObjectError):
        store.get_range("a", 0, size + 1)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (-1, 5),
        (-5, -1),
        (5, 4),
        (0, -1),
        (0, LAST + 1),
        (LAST + 1, LAST + 1),
        (LAST + 1, LAST + 2),
        (1 << 70, 1 << 80),
    ],
)
def test_a_range_that_no_object_has_is_an_invalid_argument(
    place: Bucket, start: int, end: int
) -> None:
    store, events = counted(place)
    with pytest.raises(InvalidArgumentError, match="invalid byte range"):
        store.get_range("a", start, end)
    with pytest.raises(InvalidArgumentError, match="invalid byte range"):
        store.get_ranges("a", [ByteRange(start, end)])
    assert events.requests == 0


def test_a_call_is_one_request(place: Bucket, tmp_path: Path) -> None:
    store, events = counted(place)
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    store.put("a", CONTENT, overwrite=False)
    store.put_file("b", source, overwrite=True)
    store.copy("a", "c")
    store.get("a")
    store.get_range("a", 0, 6)
    store.head("a")
    assert [entry.key for entry in store.list()] == ["a", "b", "c"]
    verbs = ("put", "put_file", "copy", "get", "get_range", "head", "list")
    assert events.by_verb() == dict.fromkeys(verbs, 1)
    assert events.size == 3 * 256 + 6


def test_a_listing_of_nothing_is_one_request(place: Bucket) -> None:
    store, events = counted(place)
    assert list(store.list("no/such/folder/")) == []
    assert list(store.list(delimiter="/")) == []
    assert events.by_verb() == {"list": 2}


def test_keys_are_deleted_together_where_the_store_can(place: Bucket) -> None:
    store, events = counted(place)
    store.delete(["a", "missing", "c/d"])
    together = StoreCapability.BULK_DELETE in store.probe_capabilities()
    assert events.by_verb() == {"delete": 1 if together else 3}


def test_deleting_nothing_asks_nothing(place: Bucket) -> None:
    store, events = counted(place)
    store.delete([])
    assert events == []


def test_several_ranges_come_in_the_order_asked(store: ObjectStore) -> None:
    store.put("a", CONTENT, overwrite=True)
    ranges = [ByteRange(200, 256), ByteRange(0, 10), ByteRange(5, 5), ByteRange(5, 20)]
    got = store.get_ranges("a", ranges)
    assert got == [CONTENT[r.start : r.end] for r in ranges]
    assert store.get_ranges("a", []) == []


def test_one_bad_range_among_several_is_an_error(store: ObjectStore) -> None:
    store.put("a", CONTENT, overwrite=True)
    with pytest.raises(CorruptObjectError):
        store.get_ranges("a", [ByteRange(0, 10), ByteRange(250, 300)])


@pytest.mark.parametrize("verb", ["get", "head", "copy", "get_range"])
def test_what_is_not_there_is_not_found_and_named(
    store: ObjectStore, verb: str
) -> None:
    store.put("folder/other", b"1", overwrite=True)
    arguments = {"copy": ("target",), "get_range": (0, 1)}.get(verb, ())
    for key in ("folder/missing", "missing", "folder"):
        with pytest.raises(NotFoundError, match=key) as caught:
            getattr(store, verb)(key, *arguments)
        assert isinstance(caught.value, FileNotFoundError)
        assert store.url in str(caught.value)
    assert keys(store) == ["folder/other"]


def test_an_overwrite_replaces_the_whole_object(store: ObjectStore) -> None:
    store.put("a", bytes(1000), overwrite=False)
    store.put("a", b"short", overwrite=True)
    assert store.get("a") == b"short"
    assert store.head("a").size == 5


def test_an_exclusive_put_leaves_what_is_there(store: ObjectStore) -> None:
    store.put("a/b", b"first", overwrite=False)
    with pytest.raises(AlreadyExistsError, match="a/b") as caught:
        store.put("a/b", b"second", overwrite=False)
    assert isinstance(caught.value, FileExistsError)
    assert store.get("a/b") == b"first"


def test_an_exclusive_put_of_nothing_leaves_what_is_there(store: ObjectStore) -> None:
    store.put("a", b"first", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        store.put("a", b"", overwrite=False)
    assert store.get("a") == b"first"


def test_a_file_is_put_whole(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(CONTENT * 5000)
    store.put_file("x/y", source, overwrite=False)
    assert store.get("x/y") == source.read_bytes()
    source.write_bytes(b"new")
    with pytest.raises(AlreadyExistsError):
        store.put_file("x/y", source, overwrite=False)
    assert store.head("x/y").size == len(CONTENT) * 5000
    store.put_file("x/y", source, overwrite=True)
    assert store.get("x/y") == b"new"


def test_a_missing_file_to_put_is_a_file_not_found(
    store: ObjectStore, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        store.put_file("x", tmp_path / "missing", overwrite=True)
    assert keys(store) == []


def test_a_copy_is_what_its_source_is_and_replaces(store: ObjectStore) -> None:
    store.put("a", CONTENT, overwrite=True)
    store.put("deep/er/b", b"old", overwrite=True)
    store.copy("a", "deep/er/b")
    assert store.get("deep/er/b") == CONTENT
    assert store.get("a") == CONTENT
    store.copy("a", "new/folder/c")
    assert store.get("new/folder/c") == CONTENT


def test_two_contents_of_one_size_have_different_versions(store: ObjectStore) -> None:
    store.put("a", b"one", overwrite=True)
    before = store.head("a")
    listed = next(store.list("a"))
    assert before == store.head("a") == listed
    assert before.version
    assert not before.is_prefix
    store.put("a", b"two", overwrite=True)
    if not store.url.startswith("sftp:"):  # which knows of seconds only
        assert store.head("a").version != before.version


def test_an_object_says_when_it_was_written(store: ObjectStore) -> None:
    begun = time.time()
    store.put("a", CONTENT, overwrite=True)
    modified = store.head("a").modified
    assert modified is not None
    # Servers run on this machine, some with clocks of whole seconds.
    assert begun - 2 <= modified / 1000 <= time.time() + 2
    (listed,) = store.list("a")
    assert listed.modified in {modified, None}


def test_deleted_objects_are_gone_and_missing_ones_no_error(
    store: ObjectStore,
) -> None:
    for key in ("a", "b", "c/d", "c/e"):
        store.put(key, b"1", overwrite=True)
    store.delete(["a", "missing", "c/d", "no/such/folder"])
    assert keys(store) == ["b", "c/e"]
    store.delete(["a"])
    store.delete([])
    with pytest.raises(NotFoundError):
        store.get("a")


def test_deleting_a_folder_s_name_deletes_nothing_and_is_not_an_error(
    store: ObjectStore,
) -> None:
    store.put("c/d", b"1", overwrite=True)
    store.delete(["c"])
    assert keys(store) == ["c/d"]


@pytest.mark.parametrize("key", ["ab", b"ab", ""], ids=repr)
def test_one_key_is_not_a_list_of_keys_to_delete(place: Bucket, key: str) -> None:
    store, events = counted(place)
    for name in ("a", "b", "ab"):
        store.put(name, b"1", overwrite=True)
    events.clear()
    for asked in (store, DryRunStore.over(store)):
        with pytest.raises(InvalidArgumentError, match=f"a list of keys.*{key!r}"):
            asked.delete(key)
    assert events == []
    assert keys(store) == ["a", "ab", "b"]


def test_deleting_takes_any_iterable_once(store: ObjectStore) -> None:
    for key in ("a", "b"):
        store.put(key, b"1", overwrite=True)
    store.delete(key for key in ("a", "b"))
    assert keys(store) == []


@pytest.mark.parametrize(
    "key",
    [
        "a b",
        "ä/ö",
        "a+b",
        "a%20b",
        "a#b",
        "a?b",
        "a?versionId=null",
        "a*b[c]",
        "a&b=c",
        "a:b",
        "a~b",
        "...",
        ".hidden",
        "-",
        "~",
        "日本/語",
        "x" * 200,
    ],
)
def test_a_key_is_taken_literally(store: ObjectStore, key: str) -> None:
    store.put(key, CONTENT, overwrite=False)
    assert store.get(key) == CONTENT
    assert store.get_range(key, 1, 3) == CONTENT[1:3]
    assert store.head(key).size == len(CONTENT)
    assert keys(store) == [key]
    store.copy(key, f"copy/{key}")
    assert store.get(f"copy/{key}") == CONTENT
    store.delete([key, f"copy/{key}"])
    assert keys(store) == []


def test_two_stores_on_one_bucket_do_not_see_each_other(place: Bucket) -> None:
    link, chained, rest = place.url.partition("::")
    one = ObjectStore(f"{link}/one{chained}{rest}", place.storage_options)
    other = ObjectStore(f"{link}/one-more{chained}{rest}", place.storage_options)
    one.put("a", b"1", overwrite=True)
    other.put("b", b"2", overwrite=True)
    assert (keys(one), keys(other)) == (["a"], ["b"])
    parent = ObjectStore(place.url, place.storage_options)
    assert keys(parent) == ["one-more/b", "one/a"]


def test_a_slash_at_the_end_of_the_url_changes_nothing(place: Bucket) -> None:
    ObjectStore(place.url, place.storage_options).put("a/b", b"1", overwrite=True)
    slashed = ObjectStore(f"{place.url}/", place.storage_options)
    assert slashed.get("a/b") == b"1"
    assert keys(slashed) == ["a/b"]
