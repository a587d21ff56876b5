"""What the contract promises of calls in any order, and the error that names it."""

from enum import Enum
from typing import Final

from tieredfs.storage import Capability

__all__ = ["BrokenPromiseError", "Promise", "keep"]


class Promise(Enum):
    """A rule that takes a sequence of calls to be broken; its value says it."""

    COPIES_STAY = (
        "What was copied is listed by every storage until it is deleted, whatever "
        "else is copied or deleted."
    )
    NOTHING_ELSE_IS_LISTED = (
        "A listing has no segment that was deleted, or that was not copied."
    )
    LISTINGS_ARE_SORTED = (
        "A listing is in the order of start offsets, and has each segment once."
    )
    LISTED_FIELDS_ARE_TRUE = (
        "Every field in a listing is either unknown or equal to what was copied."
    )
    SEEK_FINDS_THE_FIRST = (
        "`seek` returns at least the segment with the smallest end offset that is at "
        "or after the offset."
    )
    READS_ARE_EXACT = (
        "Logs, indexes and descriptions are read as they were copied, by concurrent "
        "calls as well, and never before the copy is complete."
    )
    REPEATED_COPIES_AGREE = (
        "A copy of what is stored returns what its first copy returned."
    )
    LEFTOVERS_ARE_REMOVED = (
        "What failed calls leave behind is found by `scrub`, and removed by "
        "`cancel_copying` and `delete_partition`."
    )
    OUTAGES_ARE_REPORTED = (
        "A request of the store that fails makes the call fail, or another answers it; "
        "it is never taken for an answer."
    )
    CALLS_SUCCEED = (
        "A call succeeds when the store does, whatever was called before, and raises "
        "the contract's error for what is not there."
    )

    @property
    def rule(self) -> str:
        """Its name in a verdict."""
        return f"promise_{self.name.lower()}"

    @property
    def needs(self) -> frozenset[Capability]:
        """The capabilities that it is about."""
        return frozenset({Capability.WRITE} if self in _OF_WRITERS else ())

    @property
    def excludes(self) -> frozenset[Capability]:
        """The capabilities without which it means something: any."""
        return frozenset()


_OF_WRITERS: Final = frozenset(
    {
        Promise.COPIES_STAY,
        Promise.REPEATED_COPIES_AGREE,
        Promise.LEFTOVERS_ARE_REMOVED,
    }
)


class BrokenPromiseError(AssertionError):
    """A promise was broken.

    Attributes:
        promise: Which one.
        sentence: How.
    """

    def __init__(self, promise: Promise, sentence: str) -> None:
        """Take the promise, and how it was broken."""
        super().__init__(f"{promise.value} {sentence}")
        self.promise = promise
        self.sentence = sentence


def keep(promise: Promise, condition: bool, sentence: str) -> None:  # noqa: FBT001 - reads as assert
    """Raise BrokenPromiseError with a sentence unless a condition holds."""
    if not condition:
        raise BrokenPromiseError(promise, sentence)
