"""What a copy that did not end has left in the store."""

from dataclasses import dataclass

__all__ = ["Leftover"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object that is part of no whole segment, so that no reader ever sees it.

    Attributes:
        key: The object's key, relative to the store.
        size: Its bytes.
        reason: What it is, and what it lacks.
    """

    key: str
    size: int
    reason: str
