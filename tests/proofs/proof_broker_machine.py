"""Ten thousand histories of a broker's log directory that is pushed as it changes."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tier.broker_machine import BrokerMachine


def test_in_10_000_histories_what_is_served_is_what_a_broker_would_have_served() -> (
    None
):
    run_state_machine_as_test(
        BrokerMachine,
        settings=settings(
            max_examples=10_000,
            stateful_step_count=12,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
