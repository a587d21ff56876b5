"""A parser under attack: how its inputs are made, and how it is judged."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

__all__ = ["Target", "check_name"]


@dataclass(frozen=True, slots=True)
class Target:
    """A parser, its inputs and its judge.

    Attributes:
        name: What it is called.
        make: Makes an input.
        check: Gives it to the parser and raises unless the answer is right: an
            AssertionError, or whatever the parser should not have raised. Says whether
            the input was read, rather than refused.
        inputs: How many the proofs try, of all their ten million.
        memory: Bytes that the parser and its judge may hold at once for any input, but
            for those of the input.
    """

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes, Random], bool]
    inputs: int
    memory: int


def check_name(error: Exception) -> None:
    """Check that an error can be shown, and begins with what the input is called: x."""
    assert str(error).encode().startswith(b"x: "), error
