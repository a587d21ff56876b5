"""A sample of what can be done to a tier, in any order; the proofs try more."""

import pytest
from hypothesis import Phase

from tier.histories import run_histories
from tier.machine import KafkaLocalMachine, SingleObjectMachine, TierMachine

# A history that fails is told as it was: to shorten it takes minutes.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.parametrize(
    ("machine", "histories"), [(SingleObjectMachine, 120), (KafkaLocalMachine, 60)]
)
def test_a_tier_holds_what_it_was_given_whatever_happens_to_it(
    machine: type[TierMachine], histories: int
) -> None:
    run_histories(machine, histories, steps=20, phases=_PHASES)
