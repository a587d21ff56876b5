"""Ask the conformance kit alone about layouts: does it notice that one was changed?

    python ask_kit.py LAYOUT...

It exits with 1 as soon as a rule or a promise is broken.
"""

import sys
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from testing.layouts import LAYOUTS
from tieredfs.testing import CHECKS, Check, check_listing_has_every_page
from tieredfs.testing.plugin_machine.machine import plugin_machine

_SEARCH: Final = settings(
    phases=[Phase.generate],
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=40,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)


def _is_slow(check: Check) -> bool:
    return check is check_listing_has_every_page


def main(*layouts: str) -> None:
    """Check every rule with each layout, the slowest last, and then try any calls."""
    for layout in layouts:
        make = LAYOUTS[layout]
        for check in sorted(CHECKS, key=_is_slow):
            check(make)
    for layout in layouts:
        machine = plugin_machine(LAYOUTS[layout])
        run_state_machine_as_test(machine, settings=_SEARCH)


main(*sys.argv[1:])
