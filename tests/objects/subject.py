"""What a guarantee is tried on: a place, the store there, and other clients of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from azure.storage.blob import ContainerClient
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from servers import Bucket, FaultProxy, Fleet
from support.events import Events
from support.prerequisites import server_of
from support.stores import READ_ONLY, SECOND, fill, make_place
from tieredfs import ObjectStore, RequestPolicy
from tieredfs.objects import StoreCapability

__all__ = ["Subject"]

_QUICK = RequestPolicy(backoff=0.01, max_backoff=0.1)


@dataclass
class Subject:
    """One place of a test's own.

    Attributes:
        kind: One of `PLACES`.
        folder: For the test's own files.
        given: The objects there at the beginning.
        events: The events of the store.
    """

    kind: str
    request: pytest.FixtureRequest
    folder: Path
    given: Mapping[str, bytes]
    events: Events = field(default_factory=Events)

    @cached_property
    def place(self) -> Bucket:
        """The place; what cannot be written there later is there already."""
        there = self.given if self.kind in READ_ONLY else None
        return make_place(self.kind, self.request, self.folder, there)

    @cached_property
    def store(self) -> ObjectStore:
        """The store, filled, which knows what it can do; its events are counted."""
        store = self._open(self.place)
        if self.kind not in READ_ONLY:
            fill(store, self.given)
        self.events.clear()
        return store

    def _open(self, place: Bucket) -> ObjectStore:
        store = ObjectStore(
            place.url, place.storage_options, policy=_QUICK, observer=self.events
        )
        assert store.probe_capabilities() is not None
        self.events.clear()
        return store

    def can(self, capability: StoreCapability) -> bool:
        """Return whether the store has a capability."""
        return capability in self.store.probe_capabilities()

    def keys(self, prefix: str = "", **options: str) -> list[str]:
        """List the keys."""
        return [entry.key for entry in self.store.list(prefix, **options)]

    @property
    def container(self) -> Bucket:
        """A container that does not exist, on the same server."""
        protocol, _, _ = self.place.url.partition("://")
        url = f"{protocol}://no-such-container-0123456789/root"
        return Bucket(url, self.place.storage_options)

    @cached_property
    def plain(self) -> tuple[AbstractFileSystem, str]:
        """Another client, as users have it, and the root as it calls it."""
        url, options = self.place
        return cast(
            "tuple[AbstractFileSystem, str]",
            url_to_fs(url, skip_instance_cache=True, **options),
        )

    def others_put(self, key: str, content: bytes) -> None:
        """Let the other client write an object."""
        filesystem, root = self.plain
        path = f"{root}/{key}"
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
        filesystem.pipe_file(path, content)

    def others_delete(self, key: str) -> None:
        """Let the other client delete an object."""
        filesystem, root = self.plain
        filesystem.rm_file(f"{root}/{key}")

    @contextmanager
    def proxied(self) -> Iterator[tuple[ObjectStore, FaultProxy]]:
        """Open the place through a proxy that has seen nothing yet."""
        fleet = cast("Fleet", self.request.getfixturevalue("fleet"))
        with FaultProxy(server_of(self.kind, fleet).port) as proxy:
            place = fleet.place(self.kind, proxy.url)
            assert self.store.url  # what is given is there
            here, there = (_folders(each.url) for each in (self.place, place))
            url = place.url.removesuffix(there) + here
            store = self._open(Bucket(url, place.storage_options))
            proxy.clear()
            yield store, proxy

    def others_mark_folder(self, key: str) -> None:
        """Let another tool make a folder, as each kind of place has them."""
        filesystem, root = self.plain
        path = f"{root}/{key}"
        bucket, _, rest = path.partition("/")
        if self.kind == "s3-rclone":  # its folders are those of a disk
            filesystem.pipe_file(f"{path}/x", b"")
            filesystem.rm_file(f"{path}/x")
        elif self.kind in {"s3", *SECOND}:
            filesystem.call_s3("put_object", Bucket=bucket, Key=f"{rest}/", Body=b"")
        elif self.kind == "gcs":
            endpoint = self.place.storage_options["endpoint_url"]
            asked = urlencode({"uploadType": "media", "name": f"{rest}/"})
            url = f"{endpoint}/upload/storage/v1/b/{bucket}/o?{asked}"
            with urlopen(Request(url, b"", method="POST")) as reply:  # noqa: S310 - ours
                assert reply.status == 200
        elif self.kind == "azure":
            connection = self.place.storage_options["connection_string"]
            with ContainerClient.from_connection_string(connection, bucket) as client:
                client.upload_blob(f"{rest}/", b"")
        else:
            filesystem.makedirs(path, exist_ok=True)


def _folders(url: str) -> str:
    """Return the two folders of a place of a fleet, which are below its bucket."""
    return "/".join(url.rsplit("/", 2)[1:])
