"""A tier at length: ten thousand histories, and no record lost, hidden or doubled.

Processes append, push, delete, read, die and overtake one another over a store that
fails; beside them stands a model of the records alone.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tier.machine import KafkaLocalMachine, SingleObjectMachine, TierMachine


@pytest.mark.parametrize(
    ("machine", "histories"), [(SingleObjectMachine, 8000), (KafkaLocalMachine, 2000)]
)
def test_a_tier_holds_what_it_was_given_whatever_happens_to_it(
    machine: type[TierMachine], histories: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=30,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
