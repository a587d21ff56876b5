"""Ten thousand histories of a broker's log directory that is pushed as it changes."""

from proofs.extent import extent
from tier.broker_machine import BrokerMachine
from tier.histories import run_histories


def test_what_is_served_is_what_a_broker_would_have_served() -> None:
    run_histories(BrokerMachine, extent(10_000, 5), steps=12)
