"""Ten thousand histories of a broker's log directory that is pushed as it changes."""

from tier.broker_machine import BrokerMachine
from tier.histories import run_histories


def test_in_10_000_histories_what_is_served_is_what_a_broker_would_have_served() -> (
    None
):
    run_histories(BrokerMachine, 10_000, steps=12)
