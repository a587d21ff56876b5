"""Whether a rule says anything about a layout."""

from collections.abc import Collection
from typing import Protocol

from tieredfs.storage import Capability

__all__ = ["NotApplicableError", "why_not_applicable"]


class NotApplicableError(Exception):
    """The rule says nothing about this layout; the message says why."""


class _AboutSome(Protocol):
    @property
    def needs(self) -> Collection[Capability]:
        """Capabilities a layout must have for it to apply."""

    @property
    def excludes(self) -> Collection[Capability]:
        """Capabilities a layout must not have for it to apply."""


def why_not_applicable(rule: _AboutSome, capabilities: Collection[Capability]) -> str:
    """Return why a rule does not apply to a layout; an empty text if it does.

    Args:
        rule: A check, or a promise.
        capabilities: Those of the layout.
    """
    missing = sorted(one.name for one in set(rule.needs) - set(capabilities))
    if missing:
        return f"the layout does not have {' and '.join(missing)}"
    present = sorted(one.name for one in set(rule.excludes) & set(capabilities))
    return f"the layout has {' and '.join(present)}" if present else ""
