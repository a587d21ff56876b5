"""Plugins with one realistic bug each, and the rule of the kit that names it.

They are in the modules beside this one, by subject, as the rules are; each module ends
with a table of its plugins. A plugin may break other rules besides.
"""

from typing import Final

from testing.broken import (
    appending,
    copying,
    damage,
    deleting,
    foreign,
    freshness,
    indexes,
    listing,
    logs,
    names,
    outages,
    reading,
    sharing,
    signatures,
    verifying,
)
from testing.broken.plugin import Broken

__all__ = ["BROKEN", "BUGS"]

BROKEN: Final = (
    *listing.BROKEN,
    *foreign.BROKEN,
    *freshness.BROKEN,
    *logs.BROKEN,
    *names.BROKEN,
    *reading.BROKEN,
    *outages.BROKEN,
    *damage.BROKEN,
    *indexes.BROKEN,
    *copying.BROKEN,
    *appending.BROKEN,
    *deleting.BROKEN,
    *sharing.BROKEN,
    *signatures.BROKEN,
    *verifying.BROKEN,
)
"""Every broken plugin, with the rule that has to find it."""

BUGS: Final[dict[str, Broken]] = {one.bug: one for one in BROKEN if one.bug}
"""What authors of plugins get wrong most, and a plugin that does."""
