"""Code that makes a step again has what the step was given, and no more."""

from tieredfs.model import IndexType
from tieredfs.testing.faults import Effect, FaultPlan, StoreFault
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.segment_plan import SegmentPlan


def names(step: Step) -> set[str]:
    return {name for _, name in step.imports}


def test_a_field_that_has_its_default_is_neither_written_nor_imported() -> None:
    step = Step("begin", (("contents", [SegmentPlan()]), ("stored", (0, 1))))
    assert step.code == "state.begin(contents=[SegmentPlan()], stored=(0, 1,))"
    assert names(step) == {"SegmentPlan"}


def test_what_is_written_is_imported() -> None:
    faults = FaultPlan((StoreFault(Effect.CUT, 1),))
    kinds = {IndexType.OFFSET}
    step = Step("fetch_indexes", (("kinds", kinds), ("faults", faults)))
    assert names(step) == {"IndexType", "FaultPlan", "StoreFault", "Effect"}
    for name in names(step):
        assert name in step.code
