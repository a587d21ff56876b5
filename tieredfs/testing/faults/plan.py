"""Which requests fail, and how: decided about each one before it is made.

The repr of a plan is one line that makes it again, so that a failure is repeated by
pasting it.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from tieredfs.testing.faults.effect import Effect

__all__ = [
    "NO_FAULTS",
    "FaultPlan",
    "KeyPlan",
    "Plan",
    "SeededPlan",
    "StoreFault",
    "StoreRequest",
]


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """One request to a store.

    Attributes:
        verb: The method of the store.
        key: Its key, or the prefix of a listing; the first one of several.
        number: How many requests came before.
        write: How many writes came before, if it is one; None for reads.
        repeat: How many requests with this verb and key came before.
        effect: What happened to it; None if it was executed.
        keys: How many keys it names.
    """

    verb: str
    key: str
    number: int
    write: int | None
    repeat: int
    effect: Effect | None = None
    keys: int = 1


@dataclass(frozen=True, slots=True)
class StoreFault:
    """What happens to one request.

    Attributes:
        effect: What happens.
        at: Number of the request, from 0.
        of_writes: Whether ``at`` counts only writes.
        seconds: How long a delay takes.
        key: Of a deletion that is cut, the number of the only key that is deleted, in
            their order; None for the first half of them.
    """

    effect: Effect
    at: int
    of_writes: bool = False
    seconds: float = 0.0
    key: int | None = None

    def __post_init__(self) -> None:
        """Take the name of an effect for the effect.

        Raises:
            ValueError: No effect has this name.
        """
        known = Effect(self.effect)  # type: ignore[call-arg] # it is looked up
        object.__setattr__(self, "effect", known)

    def strikes(self, request: StoreRequest) -> bool:
        """Return whether a request is the one."""
        return self.at == (request.write if self.of_writes else request.number)


class Plan(Protocol):
    """Decides what happens to each request."""

    def fault(self, request: StoreRequest) -> StoreFault | None:
        """Return what happens to a request; None to execute it."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Let the listed requests fail, and execute all others.

    Attributes:
        faults: What happens; of several faults of one request the first one.
    """

    faults: tuple[StoreFault, ...] = ()

    def fault(self, request: StoreRequest) -> StoreFault | None:
        """Return the fault of a request."""
        return next((fault for fault in self.faults if fault.strikes(request)), None)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """Let every write of one key fail, and execute all other requests.

    Attributes:
        key: The key.
        effect: What happens to them.
    """

    key: str
    effect: Effect = Effect.ERROR

    def fault(self, request: StoreRequest) -> StoreFault | None:
        """Return the fault of a request."""
        if request.write is None or request.key != self.key:
            return None
        return StoreFault(self.effect, request.number)


NO_FAULTS: Final = FaultPlan()
"""Execute every request."""


@dataclass(frozen=True, slots=True)
class SeededPlan:
    """Let a share of the requests fail, which a seed determines.

    What happens to a request follows from the seed, the verb, the key, and how often
    both were sent, so that it does not depend on the order of concurrent requests.

    Attributes:
        seed: Any number.
        rate: Share of the requests that fail, from 0 to 1.
        effects: What may happen.
        verbs: Verbs that may fail; empty for all.
        seconds: The longest delay.
    """

    seed: int
    rate: float = 0.1
    effects: tuple[Effect, ...] = (Effect.ERROR, Effect.CUT, Effect.LOST_REPLY)
    verbs: tuple[str, ...] = ()
    seconds: float = 0.0

    def fault(self, request: StoreRequest) -> StoreFault | None:
        """Return the fault of a request."""
        random = Random(f"{self.seed}/{request.verb}/{request.key}/{request.repeat}")  # noqa: S311 - repeatable, not secret
        if self.verbs and request.verb not in self.verbs:
            return None
        if random.random() >= self.rate:
            return None
        effect = random.choice(self.effects)
        return StoreFault(
            effect, request.number, seconds=random.uniform(0, self.seconds)
        )
