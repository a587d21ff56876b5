"""The optional features of a layout."""

from enum import StrEnum

__all__ = ["Capability"]


class Capability(StrEnum):
    """An optional feature of a layout, beyond the four required methods."""

    WRITE = "write"
    """Segments can be copied to it and deleted."""

    RANGE_READ = "range_read"
    """A part of a log costs a request for that part only."""

    SINGLE_REQUEST_INDEXES = "single_request_indexes"
    """All indexes of a segment cost one request."""

    ATOMIC_COPY = "atomic_copy"
    """A copy is one put: no crash leaves a part of a segment."""

    PLAN_FROM_LISTING = "plan_from_listing"
    """``list_segments`` gives each segment's end offset and largest timestamp."""
