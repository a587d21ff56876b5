"""A sample of what tests/proofs runs at length."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from cache.machine import Machine


def test_a_cache_does_as_its_model_whatever_is_done_to_it() -> None:
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=50, stateful_step_count=50)
    )
