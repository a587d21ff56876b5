"""A broker's log directory that changes while it is pushed: a sample of histories."""

from tier.broker_machine import BrokerMachine
from tier.histories import run_histories


def test_what_is_served_is_what_a_broker_would_have_served_or_an_error() -> None:
    run_histories(BrokerMachine, 100, steps=12)
