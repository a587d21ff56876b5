"""How thoroughly a plugin is tested."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["EXTENTS", "Extent", "Profile"]


class Profile(StrEnum):
    """A name for how thoroughly a plugin is tested."""

    QUICK = "quick"
    FULL = "full"
    NIGHTLY = "nightly"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a plugin is tested, and how long that may take.

    How much is tested is a number, so that a verdict is the same on a busy machine.
    Times only end what takes far too long.

    Attributes:
        rounds: How often each rule is tested: a race is not lost each time.
        sequences: How many sequences of calls are tried.
        steps: Maximum calls of each sequence.
        call_seconds: After so long a rule, or one call of a sequence, is taken for one
            that hangs.
        search_seconds: After so long the sequences are given up, and nothing is decided
            about the promises.
        shrink_seconds: How long hypothesis may take to make a failure shorter; and as
            long again may the sequence of each broken promise be shortened after that.
    """

    rounds: int
    sequences: int
    steps: int
    call_seconds: float
    search_seconds: float
    shrink_seconds: float


EXTENTS: Final = {
    Profile.QUICK: Extent(1, 60, 30, 60.0, 900.0, 10.0),
    Profile.FULL: Extent(5, 600, 40, 300.0, 7200.0, 60.0),
    Profile.NIGHTLY: Extent(25, 6000, 50, 900.0, 28_800.0, 300.0),
}
"""What each profile stands for."""
