"""The index cache at length: whatever is done to it, no byte comes out wrong.

Eight processes share a directory for a minute, are killed and see bits flipped on disk;
and handles do everything in any order, beside a model that says what has to come of it.
"""

import os
from pathlib import Path

import pytest

from cache.crowd import run_crowd
from proofs.extent import extent
from testing.running import run_machine
from tieredfs.testing import cache_machine_test

_SECONDS = extent(60, 3)
_PROCESSES = 8


def test_a_crowd_of_killed_processes_sees_no_wrong_byte(
    tmp_path: Path,
) -> None:
    seed = int.from_bytes(os.urandom(4))
    told = run_crowd(tmp_path, _SECONDS, _PROCESSES, seed)
    assert told["kills"] > extent(20, 2), f"seed {seed}"
    assert told["acts"] > extent(1000, 10), f"seed {seed}"


@pytest.mark.parametrize("ttl", [None, 100.0])
def test_a_cache_does_as_its_model_whatever_is_done_to_it(ttl: float | None) -> None:
    run_machine(cache_machine_test(ttl=ttl, examples=extent(1000, 5), steps=60))
