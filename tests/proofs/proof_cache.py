"""The index cache at length: whatever is done to it, no byte comes out wrong.

Eight processes share a directory for a minute, are killed and see bits flipped on disk;
and one does everything in any order, beside a model that says what has to come of it.
"""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from cache.crowd import run_crowd
from cache.machine import Machine
from proofs.extent import extent

_SECONDS = extent(60, 3)
_PROCESSES = 8


def test_a_crowd_of_killed_processes_sees_no_wrong_byte(
    tmp_path: Path,
) -> None:
    seed = int.from_bytes(os.urandom(4))
    told = run_crowd(tmp_path, _SECONDS, _PROCESSES, seed)
    assert told["kills"] > extent(20, 2), f"seed {seed}"
    assert told["acts"] > extent(1000, 10), f"seed {seed}"


def test_a_cache_does_as_its_model_whatever_is_done_to_it() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=extent(1000, 5),
            stateful_step_count=60,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
