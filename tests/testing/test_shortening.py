"""Steps that fail are made fewer, and their arguments simpler."""

from tieredfs.testing.faults import NO_FAULTS, Effect, FaultPlan, StoreFault
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.segment_plan import BatchPlan, PlannedRecord, SegmentPlan
from tieredfs.testing.verdict.shortening import shorten

SIMPLE = SegmentPlan((BatchPlan(),))
LONG = SegmentPlan((BatchPlan((PlannedRecord(7, b"key"),) * 3), BatchPlan()), 5)
LATE = FaultPlan((StoreFault(Effect.DELAY, 3),))

BEGIN = Step("begin", (("contents", [LONG, SIMPLE]), ("stored", (0, 1))))
COPY = Step("copy", (("number", 3), ("handle", 1), ("faults", LATE)))
DELETE = Step("delete", (("number", 3), ("handle", 0)))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [step.name for step in steps]


def test_steps_that_are_not_needed_are_left_out_but_for_the_first() -> None:
    steps = (BEGIN, COPY, DELETE, COPY, DELETE)
    made = shorten(steps, lambda some: "delete" in names(some))
    assert names(made) == ["begin", "delete"]
    assert names(shorten(steps, lambda _: True)) == ["begin"]


def test_arguments_become_the_simplest_with_which_the_steps_fail() -> None:
    made = shorten((BEGIN, COPY), lambda some: "copy" in names(some))
    assert dict(made[0].arguments) == {"contents": [SIMPLE], "stored": ()}
    assert dict(made[1].arguments) == {"number": 0, "handle": 0, "faults": NO_FAULTS}


def test_what_a_failure_needs_stays() -> None:
    steps = (BEGIN, COPY, DELETE)
    assert shorten(steps, lambda some: some == steps) == steps
    made = shorten(steps, lambda some: ("number", 3) in some[-1].arguments)
    assert names(made) == ["begin", "copy"]
    assert dict(made[-1].arguments) == {"number": 3, "handle": 0, "faults": NO_FAULTS}


def test_steps_that_a_simpler_argument_makes_needless_are_left_out_then() -> None:
    def fails(some: tuple[Step, ...]) -> bool:
        is_late = dict(some[1].arguments).get("faults") == LATE if some[1:] else False
        return len(some) == 3 or (len(some) == 2 and not is_late)

    made = shorten((BEGIN, COPY, DELETE), fails)
    assert len(made) == 2
