"""A cloud's object store, as a process on this machine."""

from abc import abstractmethod
from typing import Any, ClassVar

import fsspec

from servers.places import Bucket
from servers.ports import HOST
from servers.process import Server


class CloudServer(Server):
    """A server with buckets, for one of fsspec's clients.

    Attributes:
        protocol: What its URLs begin with.
    """

    protocol: ClassVar[str]

    @property
    def endpoint(self) -> str:
        """The URL at which it answers."""
        return f"http://{HOST}:{self.port}"

    @abstractmethod
    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return what the client needs, to talk through another endpoint if given."""

    def client(self, endpoint: str | None = None) -> fsspec.AbstractFileSystem:
        """Return the plain client: one of its own, which caches no listing."""
        return fsspec.filesystem(
            self.protocol,
            skip_instance_cache=True,
            use_listings_cache=False,
            **self.storage_options(endpoint),
        )

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self.client().mkdir(name)

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a bucket, through another endpoint if given."""
        return Bucket(f"{self.protocol}://{name}", self.storage_options(endpoint))
