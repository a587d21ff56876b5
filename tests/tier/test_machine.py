"""A sample of what can be done to a tier, in any order; the proofs try more."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tier.machine import KafkaLocalMachine, SingleObjectMachine, TierMachine


@pytest.mark.parametrize(
    ("machine", "histories"), [(SingleObjectMachine, 120), (KafkaLocalMachine, 60)]
)
def test_a_tier_holds_what_it_was_given_whatever_happens_to_it(
    machine: type[TierMachine], histories: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=20,
            suppress_health_check=[HealthCheck.too_slow],
            # A history that fails is told as it was: to shorten it takes minutes.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
        ),
    )
