"""A store whose user is interrupted at one of its writes: it dies, or stands still."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from typing_extensions import override

from tieredfs import ObjectStore, StorageUnavailableError
from tieredfs.objects import ObjectInfo
from tieredfs.testing.stores import WRITES, InterceptedStore

__all__ = ["Clock", "Interrupted", "Interruption"]

_T = TypeVar("_T")


@dataclass(slots=True)
class Interruption:
    """What happens at one write of a run.

    Attributes:
        at: The number of the write, from 0.
        is_landed: Whether the store does it first.
        act: What is done then; None if the run dies.
    """

    at: int
    is_landed: bool
    act: Callable[[], object] | None


@dataclass(slots=True)
class Clock:
    """The clock of a store, and when each object was written.

    Attributes:
        seconds: The time.
        written: When each object was written, by its key.
    """

    seconds: float = 0.0
    written: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    """What the views of one store share."""

    interruption: Interruption | None
    watch: Callable[[str, Sequence[str]], object]
    writes: int = 0
    is_dead: bool = False


class Interrupted(InterceptedStore):
    """A store with a clock, where a run is interrupted at one of its writes."""

    clock: Clock
    _run: _Run

    @classmethod
    def made(
        cls,
        store: ObjectStore,
        clock: Clock,
        interruption: Interruption | None = None,
        *,
        watch: Callable[[str, Sequence[str]], object] = lambda _verb, _keys: None,
    ) -> Self:
        """Return another store over the objects of ``store``.

        Args:
            store: The objects.
            clock: Gives them their times.
            interruption: What happens; None for nothing.
            watch: Called with verb and keys before each write.
        """
        one = cls._onto(store)
        one.clock = clock
        one._run = _Run(interruption, watch)
        return one

    @property
    def is_dead(self) -> bool:
        """Whether the run has died."""
        return self._run.is_dead

    def begin(self, interruption: Interruption | None) -> None:
        """Begin another run."""
        self._run.interruption, self._run.writes = interruption, 0

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        run = self._run
        if run.is_dead:
            raise StorageUnavailableError("the process is dead")
        if verb not in WRITES:
            return execute()
        run.watch(verb, keys)
        number, run.writes = run.writes, run.writes + 1
        cut = run.interruption
        if cut is None or cut.at != number:
            return self._done(verb, keys, execute)
        if cut.is_landed:
            answer = self._done(verb, keys, execute)
            if cut.act is not None:
                cut.act()
                return answer
        elif cut.act is not None:
            cut.act()
            return self._done(verb, keys, execute)
        run.is_dead = True
        raise StorageUnavailableError("the process dies")

    def _done(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        answer = execute()
        if verb == "put":
            self.clock.written[keys[0]] = self.clock.seconds
        return answer

    @override
    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        modified = self.clock.written.get(key, 0.0)
        return ObjectInfo(key, found.size, found.version, int(modified * 1000))
