"""What a store can be asked to do, and what it promises."""

from enum import StrEnum

__all__ = ["StoreCapability"]


class StoreCapability(StrEnum):
    """One thing that not every store can do.

    What a store lacks and is asked for all the same is an UnsupportedOperationError;
    nothing is made up for it.
    """

    WRITE = "write"
    """Objects can be put, copied and deleted."""

    WHOLE_OBJECTS = "whole_objects"
    """No reader ever sees a part of an object that is being written."""

    EXCLUSIVE_CREATE = "exclusive_create"
    """Of several that create one key, exactly one succeeds."""

    RANGE_READ = "range_read"
    """A range moves the bytes of that range, not the whole object."""

    SEEK_LISTING = "seek_listing"
    """A listing begins at a key without asking for those before it."""

    BULK_DELETE = "bulk_delete"
    """Many objects are deleted in one request."""

    PARTS = "parts"
    """Large objects are uploaded in parts, each of them tried again alone."""
