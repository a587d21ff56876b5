"""Every bit and every cut of a small segment: an error, or no other answer."""

import pytest

from proofs.extent import extent
from support.damaged_log import DamagedLog, make_log
from support.kafka_data import REMOTE


@pytest.fixture(scope="module")
def one_batch() -> DamagedLog:
    """A segment of one batch that a broker tiered."""
    return make_log(
        "plain", REMOTE, "kafka-local", lambda key: "/00000000000000000298" in key
    )


@pytest.mark.parametrize(
    "suffix", ["log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"]
)
def test_every_bit_of_a_small_segment(one_batch: DamagedLog, suffix: str) -> None:
    (key,) = [key for key in one_batch.files if key.endswith(f".{suffix}")]
    content = one_batch.files[key]
    for at in range(0, len(content), extent(1, 8)):
        one_batch.check(key, content[:at])
    for bit in range(0, 8 * len(content), extent(1, 9)):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        one_batch.check(key, bytes(wrong))
    one_batch.check(key, content + b"\0")
