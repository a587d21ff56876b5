"""A machine of hypothesis as a test case, which pytest and unittest run."""

import unittest

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

__all__ = ["machine_case"]


def machine_case(
    machine: type[RuleBasedStateMachine], examples: int | None, steps: int
) -> type[unittest.TestCase]:
    """Return a machine as a test case, which has its name.

    Args:
        machine: The machine.
        examples: How many sequences of steps are tried; None for as many as the profile
            of hypothesis says.
        steps: Maximum steps of each.
    """
    test: type[unittest.TestCase] = machine.TestCase
    test.settings = settings(  # type: ignore[attr-defined] # hypothesis reads it
        max_examples=settings().max_examples if examples is None else examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return test
