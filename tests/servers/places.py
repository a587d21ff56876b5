"""What a server gives to a test: a bucket, and how to get at it."""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from servers.proxy import FaultProxy


class Bucket(NamedTuple):
    """An empty bucket, or a folder in one, and how to get at it."""

    url: str
    storage_options: dict[str, Any]


class ProxiedBucket(NamedTuple):
    """An empty bucket behind a proxy that counts requests and makes them fail."""

    url: str
    storage_options: dict[str, Any]
    proxy: "FaultProxy"


class Service(Protocol):
    """A server that keeps objects, whether a process or a thread."""

    @property
    def port(self) -> int:
        """Where clients find it, once it was started."""

    def start(self) -> Self:
        """Start it, and return when it answers."""

    def kill(self) -> None:
        """End it immediately."""

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket, or what comes closest to one."""

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a bucket, through another endpoint if given."""
