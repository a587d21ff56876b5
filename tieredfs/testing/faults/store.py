"""An object store that fails as planned, and records every request."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self, TypeVar

from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.testing.faults.effect import CRASHES, CrashError, Effect
from tieredfs.testing.faults.plan import NO_FAULTS, Plan, StoreFault, StoreRequest
from tieredfs.testing.stores import WRITES, InterceptedStore

__all__ = ["FaultyStore"]

_T = TypeVar("_T")


class FaultyStore(InterceptedStore):
    """The same objects, where requests fail as planned and are recorded.

    Views under another policy follow the same plan, and are recorded with it.
    """

    _journal: "_Journal"

    @classmethod
    def over(
        cls,
        store: ObjectStore,
        plan: Plan = NO_FAULTS,
        *,
        during_pause: Callable[[], object] | None = None,
    ) -> Self:
        """Return another store over the objects of ``store``, on its connections.

        Args:
            store: Any store.
            plan: What happens to each request.
            during_pause: Is called where a request is late, instead of waiting; None
                to wait as long as the plan says.
        """
        made = cls._onto(store)
        made._journal = _Journal(plan, during_pause)  # noqa: SLF001 - of this class
        return made

    @property
    def requests(self) -> tuple[StoreRequest, ...]:
        """The requests since the current plan began, in the order they were sent."""
        return tuple(self._journal.requests)

    def follow(self, plan: Plan = NO_FAULTS) -> None:
        """Follow another plan from now on, which counts requests from 0.

        A store whose process has died stays dead.
        """
        self._journal.follow(plan)

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``."""
        found = super(InterceptedStore, self).list(
            prefix, start_after=start_after, delimiter=delimiter
        )
        return self._yielded(prefix, found)

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        """Send one request, or let it fail."""
        fault = self._journal.begin(verb, keys)
        if fault is None or fault.effect.raised is None:
            self._journal.pause(fault)
            return execute()
        if fault.effect.executed == "half" and verb == "delete":
            one = fault.key
            half = slice(len(keys) // 2) if one is None else slice(one, one + 1)
            super(InterceptedStore, self).delete(keys[half])
        elif fault.effect.executed == "all":
            execute()
        raise self._failure(verb, keys[0], fault.effect, fault.effect.raised)

    def _yielded(
        self, prefix: str, found: Iterator[ObjectInfo]
    ) -> Iterator[ObjectInfo]:
        """Yield a listing; its request is sent when the first entry is needed."""
        fault = self._journal.begin("list", [prefix])
        if fault is None or fault.effect.raised is None:
            self._journal.pause(fault)
            yield from found
            return
        entries = [*found] if fault.effect.executed == "half" else []
        yield from entries[: len(entries) // 2]
        raise self._failure("list", prefix, fault.effect, fault.effect.raised)

    def _failure(
        self, verb: str, key: str, effect: Effect, raised: type[BaseException]
    ) -> BaseException:
        """Return what a request raises; after a crash every later one raises it."""
        where = f"{verb} {self.url}/{key}"
        if effect in CRASHES:
            self._journal.is_dead = True
            return raised(f"{where}: the process died")
        return raised(f"{where}: a fault was injected: {effect}")

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs to create the same store."""
        return super().__getstate__() | {"journal": self._journal}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Create the same store in this process; requests are counted from 0."""
        super().__setstate__(state)
        vars(self).update(_journal=state["journal"])


class _Journal:
    """The requests of a store and its views; safe to share between threads."""

    def __init__(
        self, plan: Plan, during_pause: Callable[[], object] | None = None
    ) -> None:
        self.is_dead = False
        self._during_pause = during_pause
        self._lock = threading.Lock()
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Begin another plan."""
        with self._lock:
            self._plan = plan
            self.requests: list[StoreRequest] = []
            self._writes = 0
            self._repeats = Counter[tuple[str, str]]()

    def pause(self, fault: StoreFault | None) -> None:
        """Let a request be late, if it has a fault."""
        if fault is None:
            return
        if self._during_pause is None:
            time.sleep(fault.seconds)
        else:
            self._during_pause()

    def begin(self, verb: str, keys: Sequence[str]) -> StoreFault | None:
        """Record a request, and return what happens to it.

        Raises:
            CrashError: The process has died.
        """
        key = keys[0]
        with self._lock:
            if self.is_dead:
                raise CrashError(f"{verb} {key}: the process is dead")
            is_write = verb in WRITES
            request = StoreRequest(
                verb,
                key,
                len(self.requests),
                self._writes if is_write else None,
                self._repeats[verb, key],
                keys=len(keys),
            )
            self._writes += is_write
            self._repeats[verb, key] += 1
            fault = self._plan.fault(request)
            effect = None if fault is None else fault.effect
            self.requests.append(replace(request, effect=effect))
            return fault

    def __reduce__(self) -> "tuple[type[_Journal], tuple[Plan]]":
        """Count anew in another process, and wait by its clock."""
        return _Journal, (self._plan,)
