"""The steps of a failure, made again and made shorter."""

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from time import monotonic
from typing import Final

from tieredfs.testing.plugin_machine.limited_search import Failure, Search
from tieredfs.testing.plugin_machine.machine import PluginMachine, plugin_machine
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.verdict.shortening import shorten
from tieredfs.testing.verdict.subject import Subject

__all__ = ["fails_in_memory", "shortened"]

_TRIES: Final = 3
"""How often shorter steps are tried: a race is not lost each time."""


def fails_in_memory(failure: Failure, subject: Subject) -> bool:
    """Return whether steps break the same promise over a store in memory."""
    with scratch_store() as store:
        subject.fill(store)
        search = Search()
        machine = plugin_machine(
            subject.make_storage, open_store=lambda: nullcontext(store), search=search
        )
        # What cannot be made in memory at all does not fail so there.
        with suppress(Exception):
            subject.within(lambda: _make(machine(), failure.steps))
        again = search.failures.shortest.get(failure.error.promise)
        return again is not None and again.raised is failure.raised


def _make(machine: PluginMachine, steps: Iterable[Step]) -> None:
    """Make steps until one fails."""
    with suppress(AssertionError):
        for step in steps:
            getattr(machine, step.name)(**dict(step.arguments))


def shortened(failure: Failure, subject: Subject) -> Failure:
    """Leave out steps, and take simpler arguments, while it fails as well in memory."""
    if not fails_in_memory(failure, subject):
        return failure
    end = monotonic() + subject.extent.shrink_seconds

    def fails(steps: tuple[Step, ...]) -> bool:
        shorter = replace(failure, steps=steps)
        return monotonic() < end and any(
            fails_in_memory(shorter, subject) for _ in range(_TRIES)
        )

    return replace(failure, steps=shorten(failure.steps, fails))
