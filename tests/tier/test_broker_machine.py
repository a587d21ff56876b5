"""A broker's log directory that changes while it is pushed: a sample of histories."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tier.broker_machine import BrokerMachine


def test_what_is_served_is_what_a_broker_would_have_served_or_an_error() -> None:
    run_state_machine_as_test(
        BrokerMachine,
        settings=settings(
            max_examples=100,
            stateful_step_count=12,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
