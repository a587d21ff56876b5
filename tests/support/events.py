"""An observer for tests: it keeps every event."""

from collections import Counter

from tieredfs import RequestEvent

__all__ = ["Events"]


class Events(list[RequestEvent]):
    """What an object store told, in order."""

    def on_request(self, event: RequestEvent) -> None:
        """Keep it."""
        self.append(event)

    @property
    def requests(self) -> int:
        """How many requests it took."""
        return sum(event.attempts for event in self)

    @property
    def size(self) -> int:
        """Bytes that were moved."""
        return sum(event.size for event in self)

    def by_verb(self) -> dict[str, int]:
        """Return the requests by verb."""
        counter: Counter[str] = Counter()
        for event in self:
            counter[event.verb] += event.attempts
        return dict(counter)
