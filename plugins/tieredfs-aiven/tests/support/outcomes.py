"""A store in which the put of an object meets one of four outcomes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Self, TypeVar

from tieredfs import (
    AlreadyExistsError,
    DeadlineExceededError,
    ObjectStore,
    StorageUnavailableError,
)
from tieredfs.testing.stores import InterceptedStore

__all__ = ["Outcome", "OutcomeStore"]

_T = TypeVar("_T")


class Outcome(StrEnum):
    """What becomes of a put."""

    STORED = "stored"
    FAILED = "failed"
    LANDED = "landed"
    HUNG = "hung"


class OutcomeStore(InterceptedStore):
    """The same objects, where puts meet outcomes by the suffixes of their keys.

    Attributes:
        held: Each performs a put that hangs, long after it was given up.
    """

    outcomes: Mapping[str, Outcome]
    held: list[Callable[[], object]]

    @classmethod
    def over(cls, store: ObjectStore, outcomes: Mapping[str, Outcome]) -> Self:
        """Return another store over the objects of ``store``."""
        made = cls._onto(store)
        made.outcomes = outcomes
        made.held = []
        return made

    @property
    def is_local(self) -> bool:
        """Return False, so that objects are put concurrently."""
        return False

    def land(self) -> None:
        """Perform the puts that hang, as a store may do at any time."""
        for perform in self.held:
            with suppress(AlreadyExistsError):
                perform()

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        key = keys[0]
        outcome = self.outcomes.get(key.rpartition(".")[2], Outcome.STORED)
        if not verb.startswith("put") or outcome is Outcome.STORED:
            return execute()
        if outcome is Outcome.HUNG:
            self.held.append(execute)
            raise DeadlineExceededError(f"{verb} {key}: no answer")
        if outcome is Outcome.LANDED:
            execute()
        raise StorageUnavailableError(f"{verb} {key}: {outcome}")
