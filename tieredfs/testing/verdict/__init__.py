"""The verdict on a plugin: of each rule whether it holds, and how it is broken."""

from collections.abc import Callable, Iterator
from typing import Final

from tieredfs.errors import UnsupportedOperationError
from tieredfs.testing.verdict.profile import EXTENTS, Extent, Profile
from tieredfs.testing.verdict.rules import rule_verdicts
from tieredfs.testing.verdict.subject import Recipe, Subject
from tieredfs.testing.verdict.verdict import Outcome, Verdict

__all__ = [
    "EXTENTS",
    "PRODUCERS",
    "Extent",
    "Outcome",
    "Profile",
    "Recipe",
    "Subject",
    "Verdict",
    "VerdictProducer",
    "promise_verdicts",
    "rule_verdicts",
]

VerdictProducer = Callable[[Subject], Iterator[Verdict]]
"""Tests some rules with a plugin, and yields a verdict on each.

It raises the TieredFSError of a store that fails: that is no verdict on a plugin.
"""


def promise_verdicts(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each promise that takes a sequence of calls to be broken.

    Raises:
        UnsupportedOperationError: hypothesis is not installed.
    """
    try:
        # The only verdict that needs hypothesis, which takes long to import.
        from tieredfs.testing.verdict import promises  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise UnsupportedOperationError(
            "hypothesis is not installed, and sequences of calls need it: "
            "pip install 'tieredfs[testing]'"
        ) from None
    yield from promises.promise_verdicts(subject)


PRODUCERS: Final[tuple[VerdictProducer, ...]] = (rule_verdicts, promise_verdicts)
"""All that have a say in the verdict on a plugin, in this order."""
