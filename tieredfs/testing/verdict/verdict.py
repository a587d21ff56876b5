"""What was found out about one rule."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Outcome", "Verdict"]


class Outcome(StrEnum):
    """What was found out about a rule."""

    HELD = "held"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found out about one rule.

    Attributes:
        name: The name of what tests the rule, such as a check's.
        rule: The rule, a sentence.
        outcome: Whether it holds.
        reason: How it is broken, why it does not apply or is undecided, or how far it
            was looked into; may be empty if it holds.
        code: Python that breaks it again; empty unless it is broken.
    """

    name: str
    rule: str
    outcome: Outcome
    reason: str = ""
    code: str = ""
