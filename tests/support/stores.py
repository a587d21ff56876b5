"""Every store that tests open, each place of a test's own, and the files in it."""

import uuid
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem

from servers import Bucket, Fleet, RangeHTTP
from support.prerequisites import server_of
from tieredfs import ObjectStore

__all__ = [
    "CLOUDS",
    "KINDS",
    "PLACES",
    "READ_ONLY",
    "SECOND",
    "files_of",
    "fill",
    "make_place",
    "open_store",
]

KINDS = ("local", "memory", "s3", "gcs", "azure")
"""The backends on which everything has to be the same."""

CLOUDS = ("s3", "gcs", "azure")
"""The object stores of which a proxy can stand in front."""

SECOND = ("s3-moto", "s3-rclone")
"""More servers that speak S3: AWS's own answers, and no conditional writes."""

READ_ONLY = ("http", "zip")
"""What has to be there before it is opened."""

PLACES = ("local", "memory", *CLOUDS, *SECOND, "sftp", "webhdfs", "chained", *READ_ONLY)
"""All that the tests can open."""


def make_place(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    files: Mapping[str, bytes] | None = None,
) -> Bucket:
    """Return a place of this test's own; nothing is there before it is used.

    Args:
        kind: One of `PLACES`.
        request: Of the test that will use it.
        tmp_path: Of that test.
        files: What is to lie there; put by the plain client, not by our own.
    """
    if kind == "zip":
        return _archive(tmp_path / "archive.zip", files or {})
    where: Bucket | None = None
    if kind == "local":
        place = Bucket(str(tmp_path / "a" / "root"), {})
    elif kind in {"memory", "chained"}:
        place = _in_memory(request)
        if kind == "chained":
            place = Bucket(f"dir://root::{place.url}", {})
    else:
        fleet = cast("Fleet", request.getfixturevalue("fleet"))
        server = server_of(kind, fleet)
        place = fleet.place(kind)
        if isinstance(server, RangeHTTP):
            where = Bucket(f"{server.root}{urlsplit(place.url).path}", {})
    if files:
        _put(where or place, files)
    return place


def _in_memory(request: pytest.FixtureRequest) -> Bucket:
    root = f"/{uuid.uuid4().hex}"

    def forget() -> None:
        with suppress(FileNotFoundError):
            MemoryFileSystem().rm(root, recursive=True)

    request.addfinalizer(forget)
    return Bucket(f"memory:/{root}/root", {})


def _archive(path: Path, files: Mapping[str, bytes]) -> Bucket:
    with zipfile.ZipFile(path, "w") as archive:
        for key, content in files.items():
            archive.writestr(f"root/{key}", content)
    return Bucket(f"zip://root::file://{path}", {})


def _put(place: Bucket, files: Mapping[str, bytes]) -> None:
    filesystem, root = url_to_fs(
        place.url, skip_instance_cache=True, **place.storage_options
    )
    for key, content in files.items():
        path = f"{root}/{key}"
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
        filesystem.pipe_file(path, content)


def open_store(place: Bucket) -> ObjectStore:
    """Return the store of a place."""
    return ObjectStore(place.url, place.storage_options)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their keys."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fill(store: ObjectStore, files: Mapping[str, bytes]) -> None:
    """Put files into a store, several at a time."""
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(
            lambda item: store.put(item[0], item[1], overwrite=True), files.items()
        ):
            pass
