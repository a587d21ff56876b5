"""What a part of a log will cost to fetch."""

from dataclasses import dataclass

from tieredfs.objects import RequestCounts

__all__ = ["PlannedFetch"]


@dataclass(frozen=True, slots=True)
class PlannedFetch:
    """The requests that one call of ``fetch_log_ahead`` will send.

    Attributes:
        requests: These requests, and the bytes that they move.
        end: Position in the log at which the returned bytes end.
        layout: What planning has read of the layout's own data, so that the plan of the
            segment's next fetch need not read it again; the fetch itself does not get
            it.
    """

    requests: RequestCounts
    end: int
    layout: bytes = b""
