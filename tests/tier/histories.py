"""Histories of a state machine: a sample in the tests, thousands in the proofs."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["run_histories"]


def run_histories(
    machine: type[RuleBasedStateMachine],
    count: int,
    *,
    steps: int,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> None:
    """Try as many histories of a machine, each of at most so many steps."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            suppress_health_check=[HealthCheck.too_slow],
            phases=phases,
        ),
    )
