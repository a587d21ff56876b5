"""Make a sequence of steps shorter while it still fails.

Hypothesis makes sequences shorter as well, but not in a given time; and what it ends at
may have long arguments that the failure does not need.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tieredfs.testing.faults import NO_FAULTS, FaultPlan
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.segment_plan import BatchPlan, SegmentPlan

__all__ = ["shorten"]

_Steps = tuple[Step, ...]

_SIMPLE: Final = SegmentPlan((BatchPlan(),))


def shorten(steps: _Steps, fails: Callable[[_Steps], bool]) -> _Steps:
    """Return fewer steps, with simpler arguments, that still fail.

    Args:
        steps: Steps that fail; the first begins the sequence, and stays.
        fails: Whether other steps fail as these do.
    """
    steps = _fewer(steps, fails)
    simpler = _simpler(steps, fails)
    # A fault that is gone may have been what other steps were needed for.
    return steps if simpler == steps else _fewer(simpler, fails)


def _fewer(steps: _Steps, fails: Callable[[_Steps], bool]) -> _Steps:
    """Leave out every step without which the others fail."""
    for number in reversed(range(1, len(steps))):
        shorter = steps[:number] + steps[number + 1 :]
        if fails(shorter):
            steps = shorter
    return steps


def _simpler(steps: _Steps, fails: Callable[[_Steps], bool]) -> _Steps:
    """Take for each argument the first simpler one with which the steps fail."""
    for number, step in enumerate(steps):
        for place, (name, value) in enumerate(step.arguments):
            for simple in _simpler_values(name, value):
                given = list(steps[number].arguments)
                given[place] = (name, simple)
                changed = replace(step, arguments=tuple(given))
                simpler = (*steps[:number], changed, *steps[number + 1 :])
                if fails(simpler):
                    steps = simpler
                    break
    return steps


def _simpler_values(name: str, value: object) -> Iterator[object]:
    """Yield values of the same type that are simpler, the simplest first."""
    if isinstance(value, FaultPlan) and value != NO_FAULTS:
        yield NO_FAULTS
    elif isinstance(value, list) and isinstance(value[0], SegmentPlan):
        if value != [_SIMPLE]:
            yield [_SIMPLE]
        for plan in value:
            yield from ([replace(plan, batches=(one,))] for one in plan.batches)
        if len(value) > 1:
            yield from ([plan] for plan in value)
    elif name == "stored" and isinstance(value, tuple):  # others have a fixed length
        yield from (value[:size] for size in range(len(value)))
    elif type(value) in {bool, int} and value:
        yield type(value)()
