"""The rules of the plugin contract, by what they are about; each is a check."""

from typing import Final

from tieredfs.testing.rule import Check, checks_in
from tieredfs.testing.rules import (
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

__all__ = ["CHECKS"]

CHECKS: Final[tuple[Check, ...]] = (
    *checks_in(listing),
    *checks_in(foreign),
    *checks_in(freshness),
    *checks_in(logs),
    *checks_in(names),
    *checks_in(reading),
    *checks_in(outages),
    *checks_in(damage),
    *checks_in(indexes),
    *checks_in(copying),
    *checks_in(appending),
    *checks_in(deleting),
    *checks_in(sharing),
    *checks_in(signatures),
    *checks_in(verifying),
)
"""Every check, by subject."""
