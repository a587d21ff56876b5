"""Check that what is installed is the lowest that a distribution's bounds allow.

Usage: python check_bounds.py DISTRIBUTION EXTRA…; other extras are left out.
"""

import sys
from importlib.metadata import requires, version

from packaging.requirements import Requirement
from packaging.version import Version


def main(distribution: str, extras: list[str]) -> None:
    """Print what is at its lowest, and fail where something is not."""
    lowest: dict[str, Version] = {}
    for line in requires(distribution) or ():
        needed = Requirement(line)
        marker = needed.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        bounds = [each for each in needed.specifier if each.operator == ">="]
        assert len(bounds) == 1, f"{needed} has no lower bound"
        bound = Version(bounds[0].version)
        lowest[needed.name] = max(bound, lowest.get(needed.name, bound))
    higher = {
        name: f"{version(name)}, not {bound}"
        for name, bound in lowest.items()
        if Version(version(name)) != bound
    }
    assert not higher, higher
    print(f"{distribution}: {len(lowest)} packages, each of the lowest version")


main(sys.argv[1], sys.argv[2:])
