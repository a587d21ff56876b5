"""A sample of the mutated inputs of which the proofs try ten million."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from fuzzing.campaign import TARGETS, attack, input_of
from fuzzing.target import Target

_SHARE = 1000  # of the inputs of the proofs, one of so many

_every_target = pytest.mark.parametrize("name", TARGETS)


@_every_target
def test_a_mutated_input_gives_a_typed_error_or_a_right_answer(name: str) -> None:
    target = TARGETS[name]
    count = target.inputs // _SHARE
    tally = attack(target, range(count))
    assert tally.tried == count
    assert 0 < tally.read < count  # neither refused at the door, nor all harmless


@_every_target
def test_an_input_follows_from_its_target_and_number(name: str) -> None:
    target = TARGETS[name]
    rng = Random()  # noqa: S311 - to be repeated, not to be secret
    inputs = [input_of(target, at, rng) for at in range(20)]
    assert inputs[::-1] == [input_of(target, at, rng) for at in reversed(range(20))]
    assert len(set(inputs)) > 10


def _hold_arrow(_data: bytes, _: Random) -> bool:
    return bool(pa.allocate_buffer(2 << 20))


def _hold_bytes(_data: bytes, _: Random) -> bool:
    return bool(bytearray(2 << 20))


def _raise(data: bytes, _: Random) -> bool:
    return bool(data[len(data)])


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (_hold_arrow, "AssertionError: .* bytes held at once"),
        (_hold_bytes, "AssertionError: .* bytes held at once"),
        (_raise, "IndexError"),
    ],
)
def test_a_failure_is_reported_with_the_input_and_how_to_repeat_it(
    check: Callable[[bytes, Random], bool], message: str
) -> None:
    target = Target("planted", lambda _: b"\x00\xff", check, 0, 1 << 20)
    with pytest.raises(AssertionError, match=f"(?s){message}.*2 bytes: 00ff.*planted "):
        attack(target, range(100))
    attack(replace(target, check=lambda _data, _: True), range(100))
