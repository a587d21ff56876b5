"""An object that an incomplete copy has left in the store."""

from dataclasses import dataclass

from tieredfs.model import ByteRange

__all__ = ["Leftover"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object that is not part of a whole segment, and that readers skip.

    Attributes:
        key: The object's key, relative to the store.
        size: Its bytes.
        reason: What it is, and what it lacks.
        log_start: First offset of its log, if the object is a log in its own right, as
            where only an index is missing: it may be the only copy of its records. None
            for any other object.
        log_range: Where in the object that log is, if it is not the whole object.
    """

    key: str
    size: int
    reason: str
    log_start: int | None = None
    log_range: ByteRange | None = None
