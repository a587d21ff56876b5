"""The operations that a store supports, and the guarantees it gives."""

from enum import StrEnum

__all__ = ["StoreCapability"]


class StoreCapability(StrEnum):
    """An operation or guarantee that not every store offers.

    Asking a store for a capability it lacks is an UnsupportedOperationError; nothing is
    emulated.
    """

    WRITE = "write"
    """Objects can be put, copied and deleted."""

    WHOLE_OBJECTS = "whole_objects"
    """No reader ever sees a part of an object that is being written."""

    EXCLUSIVE_CREATE = "exclusive_create"
    """Of several writers that create one key, exactly one succeeds."""

    RANGE_READ = "range_read"
    """A range moves the bytes of that range, not the whole object."""

    SEEK_LISTING = "seek_listing"
    """A listing begins at a key without requesting the keys before it."""

    BULK_DELETE = "bulk_delete"
    """Many objects are deleted in one request."""

    PARTS = "parts"
    """Large objects are uploaded in parts, each of which is retried alone."""
