"""A store behind a fault proxy, and what both of them saw."""

from collections.abc import Callable, Mapping
from typing import Any

from servers import FaultProxy, ProxiedBucket
from support.events import Events
from tieredfs import ObjectStore, RequestPolicy

__all__ = ["CALLS", "CONTENT", "Watched", "quick"]

CONTENT = bytes(range(256)) * 400

CALLS: dict[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 10, 90_000),
    "head": lambda store: store.head("key"),
    "put": lambda store: store.put("key", CONTENT, overwrite=True),
    "create": lambda store: store.put("new", CONTENT, overwrite=False),
    "copy": lambda store: store.copy("key", "copy"),
    "list": lambda store: [entry.key for entry in store.list("key")],
    "delete": lambda store: store.delete(["other"]),
}
"""Each verb in its simplest form, for a store that has an object ``key``."""


class Watched:
    """A store whose waits are short, and whose events are kept."""

    def __init__(
        self,
        proxied: ProxiedBucket,
        options: Mapping[str, object] | None = None,
        events: Events | None = None,
        **policy: Any,  # noqa: ANN401 - a policy's fields
    ) -> None:
        self.proxy: FaultProxy = proxied.proxy
        self.events = Events() if events is None else events
        chosen: dict[str, Any] = {"backoff": 0.001} | policy
        self.store = ObjectStore(
            proxied.url,
            {**proxied.storage_options, **(options or {})},
            policy=RequestPolicy(**chosen),
            observer=self.events,
        )

    def prove(self) -> None:
        """Let the store find out what it can do, and forget what that took."""
        assert self.store.probe_capabilities()
        self.clear()

    def clear(self) -> None:
        """Forget what was seen."""
        self.proxy.clear()
        self.events.clear()

    def agree(self) -> int:
        """Return the requests, which the proxy and the observer have counted."""
        assert self.events.requests == len(self.proxy.requests())
        return self.events.requests


def quick(proxied: ProxiedBucket, events: Events, **policy: float) -> ObjectStore:
    """Return a store with short waits and the object that `CALLS` need."""
    chosen: dict[str, Any] = {"max_backoff": 0.01} | policy
    watched = Watched(proxied, events=events, **chosen)
    watched.store.with_policy(RequestPolicy()).put("key", CONTENT, overwrite=True)
    watched.clear()
    return watched.store
