import re
from datetime import timedelta
from itertools import islice, product
from pathlib import Path

import pytest
import s3fs
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from servers import ProxiedBucket, SeaweedS3
from support.stores import fill, make_place, open_store
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RequestCounter,
    RequestPolicy,
    UnsupportedOperationError,
)
from tieredfs.objects import DryRunStore, StoreCapability

KEYS = [
    "a-b/c",
    "a/b-c/d",
    "a/b.txt",
    "a/b/c",
    "a0",
    "ab/c",
    "b/x.y",
    "b/x/y/z",
    "z",
    "é/ü",
]
"""Sorted: a folder's keys come after its siblings with ``-`` or ``.`` < ``/``."""

OUT_OF_ORDER = {"a-b/c", "a/b-c/d", "a/b.txt", "b/x.y"}
"""What SeaweedFS, which sorts folder by folder, lists later than S3 does."""

PREFIXES = [
    *("", "a", "a/", "a/b", "a/b-", "a/b.", "ab", "b/x", "b/x/y/z", "z", "zz", "é"),
    *("a/b/c/d", "q/"),
]
AFTER = ["", "a", "a-b/c", "a/", "a/b-c", "a/b-c/d", "a0", "b/x", "b/x/y/zz", "zz"]
ODD = {"a", "b/x", "a-b/c", "a/b-c", "a/b-c/d"}
"""After these SeaweedFS goes on behind a whole folder, where S3 goes on in it."""

MANY = [f"many/{number:05d}" for number in range(2500)]


@pytest.fixture
def keys(store: ObjectStore) -> list[str]:
    """The objects in the store, sorted."""
    is_s3 = store.url.startswith("s3:")
    held = [key for key in KEYS if not (is_s3 and key in OUT_OF_ORDER)]
    fill(store, {key: key.encode() for key in held})
    return held


def listed(store: ObjectStore, prefix: str = "", **options: str) -> list[str]:
    return [entry.key for entry in store.list(prefix, **options)]


def folded(keys: list[str], prefix: str) -> list[str]:
    """Say what a listing with a delimiter has to be."""
    found = set()
    for key in keys:
        if key.startswith(prefix):
            head, slash, _ = key[len(prefix) :].partition("/")
            found.add(prefix + head + slash)
    return sorted(found)


def test_a_listing_is_complete_and_sorted(store: ObjectStore, keys: list[str]) -> None:
    entries = list(store.list())
    assert [entry.key for entry in entries] == keys
    assert [entry.size for entry in entries] == [len(key.encode()) for key in keys]
    assert all(entry.version and not entry.is_prefix for entry in entries)


def test_a_prefix_need_not_be_a_path_component(
    store: ObjectStore, keys: list[str]
) -> None:
    for prefix in PREFIXES:
        assert listed(store, prefix) == [key for key in keys if key.startswith(prefix)]
        assert listed(store, prefix, delimiter="/") == folded(keys, prefix)


def test_a_listing_begins_after_a_key(store: ObjectStore, keys: list[str]) -> None:
    for prefix, after in product(["", "a/", "a/b"], AFTER):
        if store.url.startswith("s3:") and after in ODD:
            continue
        expected = [key for key in keys if key.startswith(prefix) and key > after]
        assert listed(store, prefix, start_after=after) == expected
        assert listed(store, prefix, start_after=after, delimiter="/") == [
            key for key in folded(keys, prefix) if key > after
        ]


def test_a_folded_entry_has_no_content(store: ObjectStore, keys: list[str]) -> None:
    del keys
    entries = [e for e in store.list("a", delimiter="/") if e.key != "a-b/"]
    assert [(e.key, e.size, e.is_prefix) for e in entries] == [
        ("a/", None, True),
        ("a0", 2, False),
        ("ab/", None, True),
    ]


def test_a_missing_folder_is_empty(store: ObjectStore) -> None:
    for prefix in ("", "no/", "no/such/folder/", "no"):
        assert listed(store, prefix) == []
        assert listed(store, prefix, delimiter="/") == []


def test_a_folder_below_an_object_is_empty(store: ObjectStore) -> None:
    store.put("a", b"1", overwrite=True)
    assert listed(store, "a/") == []
    assert listed(store, "a/", delimiter="/") == []


def test_a_prefix_of_dots_is_one_like_any_other(store: ObjectStore) -> None:
    fill(store, dict.fromkeys((".x", "..y", "a/.x", "a/..y"), b"1"))
    assert listed(store, ".") == ["..y", ".x"]
    assert listed(store, "..", delimiter="/") == ["..y"]
    assert listed(store, "a/.") == ["a/..y", "a/.x"]
    assert listed(store, "a/..") == ["a/..y"]


def test_a_key_that_only_ends_like_a_half_written_file_is_listed_and_kept(
    store: ObjectStore,
) -> None:
    store.put("a.tieredfs-tmp", b"1", overwrite=True)
    assert listed(store) == ["a.tieredfs-tmp"]
    assert store.abort_uploads(timedelta(seconds=-9)) == []
    assert store.get("a.tieredfs-tmp") == b"1"


@pytest.mark.parametrize(
    "key",
    [
        ".tieredfs-probe-",
        ".tieredfs-probe-0123/a",
        ".0123456789abcdef.tieredfs-tmp",
        "a/.0123456789abcdef.tieredfs-tmp",
    ],
)
def test_nothing_is_written_under_a_key_that_no_listing_shows(
    store: ObjectStore, tmp_path: Path, key: str
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"1")
    store.put("b", b"1", overwrite=True)
    for overwrite in (False, True):
        with pytest.raises(InvalidArgumentError, match=re.escape(repr(key))):
            store.put(key, b"1", overwrite=overwrite)
        with pytest.raises(InvalidArgumentError, match=re.escape(repr(key))):
            store.put_file(key, source, overwrite=overwrite)
    with pytest.raises(InvalidArgumentError, match=re.escape(repr(key))):
        store.copy("b", key)
    with pytest.raises(NotFoundError):
        store.head(key)
    store.delete([key])
    assert listed(store) == ["b"]


def test_a_key_that_only_looks_like_one_of_ours_is_written_and_listed(
    store: ObjectStore,
) -> None:
    keys = [
        ".0123456789ABCDEF.tieredfs-tmp",
        ".0123456789abcdef.tieredfs-tmp/a",
        ".tieredfs-prob",
        "a/.tieredfs-probe-0123",
    ]
    fill(store, dict.fromkeys(keys, b"1"))
    assert listed(store) == keys


def test_a_delimiter_other_than_a_slash_is_refused(store: ObjectStore) -> None:
    with pytest.raises(InvalidArgumentError, match="invalid delimiter '-': give '/'"):
        store.list(delimiter="-")  # by the call itself, before anything is yielded


def test_a_prefix_that_would_leave_the_root_is_refused(store: ObjectStore) -> None:
    dry = DryRunStore.over(store)
    for prefix in ("../", "../x", "a/../b", "a//b", "./a", "/"):
        for asked in (store, dry):
            with pytest.raises(InvalidArgumentError, match=r"invalid prefix '.*': "):
                asked.list(prefix)


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_an_invalid_key_is_not_listed(
    store: ObjectStore, keys: list[str], delimiter: str
) -> None:
    del keys
    for prefix in ("/", "//", "/b/", "/b", "//b/", "b//"):
        try:
            found = listed(store, prefix, delimiter=delimiter)
        except InvalidArgumentError:
            continue
        assert (prefix, found) == (prefix, [])


def test_an_object_whose_name_is_not_a_key_is_omitted(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place("memory", request, tmp_path)
    root = place.url.removeprefix("memory:/")
    filesystem = MemoryFileSystem()
    for name in ("a", "b//c", "../d", "./e", "f/../g", "h\\i", "/j", "k/", "l/m"):
        filesystem.store[f"{root}/{name}"] = MemoryFile(filesystem, name, b"1")
    store = open_store(place)
    try:
        assert listed(store) == ["a", "l/m"]
        assert listed(store, delimiter="/") == ["a", "b/", "f/", "k/", "l/"]
    finally:
        for path in [path for path in filesystem.store if path.startswith(root)]:
            del filesystem.store[path]


def test_folder_markers_are_left_out(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place("s3", request, tmp_path)
    store = open_store(place)
    store.put("folder/a", b"1", overwrite=True)
    filesystem = s3fs.S3FileSystem(skip_instance_cache=True, **place.storage_options)
    bucket, _, prefix = place.url.removeprefix("s3://").partition("/")
    for key in ("folder/", "empty/", "deep/er/"):
        filesystem.call_s3("put_object", Bucket=bucket, Key=f"{prefix}/{key}", Body=b"")
    assert listed(store) == ["folder/a"]
    assert listed(store, "folder/") == ["folder/a"]
    assert listed(store, "folder/", delimiter="/") == ["folder/a"]


def test_an_empty_folder_of_a_disk_holds_no_objects(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    assert listed(ObjectStore(str(tmp_path))) == []


@pytest.mark.filterwarnings("ignore:.*symbolic links")
def test_the_root_of_a_disk_can_be_listed() -> None:
    found = {key for key in listed(ObjectStore("/"), delimiter="/") if key[-1] == "/"}
    assert found <= {f"{path.name}/" for path in Path("/").iterdir() if path.is_dir()}
    assert "usr/" in found


def test_a_listing_sees_what_was_just_written(store: ObjectStore) -> None:
    assert listed(store, "x/") == []
    store.put("x/1", b"1", overwrite=True)
    assert listed(store, "x/") == ["x/1"]
    store.put("x/2", b"1", overwrite=True)
    store.delete(["x/1"])
    assert listed(store, "x/") == ["x/2"]


def test_a_container_that_is_not_there_is_not_found(s3_server: SeaweedS3) -> None:
    store = ObjectStore("s3://no-such-bucket-here", s3_server.storage_options())
    with pytest.raises(NotFoundError, match="no-such-bucket-here"):
        list(store.list())


def test_a_local_listing_of_thousands_is_complete(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for key in MANY:
        (tmp_path / key).touch()
    counter = RequestCounter()
    store = ObjectStore(str(tmp_path), observer=counter)
    assert listed(store, "many/") == MANY
    assert listed(store, "many/", delimiter="/") == MANY
    assert listed(store, start_after=MANY[1700]) == MANY[1701:]
    counter = RequestCounter()
    store = ObjectStore(str(tmp_path), observer=counter)
    assert next(store.list()).key == MANY[0]
    assert counter.by_verb() == {"list": 1}


@pytest.fixture
def thousands(proxied: ProxiedBucket) -> ProxiedBucket:
    """A place with 2500 objects, its proxy clean."""
    store = ObjectStore(proxied.url, proxied.storage_options)
    fill(store, dict.fromkeys(MANY, b"1"))
    proxied.proxy.clear()
    return proxied


def test_thousands_come_a_page_a_request_even_when_a_page_fails(
    thousands: ProxiedBucket,
) -> None:
    counter = RequestCounter()
    store = ObjectStore(
        thousands.url,
        thousands.storage_options,
        policy=RequestPolicy(backoff=0.01),
        observer=counter,
    )
    proxy = thousands.proxy

    assert listed(store, "many/") == MANY
    assert len(proxy.requests("GET")) == 3
    assert counter.by_verb() == {"list": 3}

    proxy.clear()  # each page is asked for when it is needed
    assert [e.key for e in islice(store.list("many/"), 1000)] == MANY[:1000]
    assert len(proxy.requests()) == 1

    proxy.clear()  # the request gives the start; Azurite ignores it
    seeks = StoreCapability.SEEK_LISTING in store.probe_capabilities()
    proxy.clear()
    assert listed(store, "many/", start_after=MANY[1999]) == MANY[2000:]
    assert len(proxy.requests()) == (1 if seeks else 3)

    for skip in (0, 1, 2):
        proxy.clear()
        proxy.add("GET", status=503, skip=skip, times=1)
        assert listed(store, "many/") == MANY
        assert len(proxy.requests()) == 4

    proxy.clear()
    proxy.add("GET", cut_after=5000, skip=1, times=2)
    assert listed(store, "many/") == MANY
    assert len(proxy.requests()) == 5


@pytest.mark.parametrize("proxied", ["s3"], indirect=True)
def test_a_server_that_lists_in_another_order_is_refused_not_misread(
    thousands: ProxiedBucket,
) -> None:
    """SeaweedFS lists the second folder after the first one, though it sorts before."""
    store = ObjectStore(thousands.url, thousands.storage_options)
    store.put("many-more/1", b"1", overwrite=True)
    with pytest.raises(UnsupportedOperationError, match="many-more/1"):
        list(store.list())
