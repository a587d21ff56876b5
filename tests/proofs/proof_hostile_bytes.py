"""Ten million mutated inputs: no crash, bounded memory, a typed error or the truth.

Each shard runs in a process of its own, which gets no more memory than is stated.
"""

from pathlib import Path

import pytest

from fuzzing.campaign import TARGETS, attack_apart
from proofs.extent import WHOLE, extent

_SHARD = 50_000
_SHARDS = [
    (name, first)
    for name, target in TARGETS.items()
    for first in range(0, target.inputs, _SHARD)
]
_TRIED = _SHARDS if WHOLE else [shard for shard in _SHARDS if shard[1] == 0]


def test_the_inputs_are_ten_million() -> None:
    tried = sum(min(_SHARD, TARGETS[name].inputs - first) for name, first in _SHARDS)
    assert tried == sum(target.inputs for target in TARGETS.values()) == 10_000_000


@pytest.mark.parametrize(("name", "first"), _TRIED)
def test_a_mutated_input_gives_a_typed_error_or_a_right_answer(
    name: str, first: int, tmp_path: Path
) -> None:
    target = TARGETS[name]
    count = min(extent(_SHARD, 100), target.inputs - first)
    tally = attack_apart(target, first, count, tmp_path)
    assert tally.tried == count
    assert 0 < tally.read < count
