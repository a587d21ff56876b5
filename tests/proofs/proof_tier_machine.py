"""A tier at length: ten thousand histories, and no record lost, hidden or doubled.

Processes append, push, delete, read, die and overtake one another over a store that
fails; beside them stands a model of the records alone.
"""

import pytest

from proofs.extent import extent
from tier.histories import run_histories
from tier.machine import KafkaLocalMachine, SingleObjectMachine, TierMachine


@pytest.mark.parametrize(
    ("machine", "histories"),
    [
        (SingleObjectMachine, extent(8000, 5)),
        (KafkaLocalMachine, extent(2000, 5)),
    ],
)
def test_a_tier_holds_what_it_was_given_whatever_happens_to_it(
    machine: type[TierMachine], histories: int
) -> None:
    run_histories(machine, histories, steps=30)
