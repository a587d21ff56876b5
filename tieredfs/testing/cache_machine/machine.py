"""The machine of a cache of indexes: all its steps together."""

from hypothesis.stateful import initialize

from tieredfs.testing.cache_machine.crowding import Crowds
from tieredfs.testing.cache_machine.damaging import Damages
from tieredfs.testing.cache_machine.describing import Describes
from tieredfs.testing.cache_machine.draws import LIMITS
from tieredfs.testing.cache_machine.failing import Fails
from tieredfs.testing.cache_machine.interrupting import Interrupts
from tieredfs.testing.cache_machine.keeping import Keeps
from tieredfs.testing.cache_machine.reading import Reads
from tieredfs.testing.cache_machine.replacing import Replaces
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE, OpenCache, Setup
from tieredfs.testing.cache_machine.viewing import Views
from tieredfs.testing.cache_machine.waiting import Waits

__all__ = ["CacheMachine", "cache_machine"]


class CacheMachine(
    Reads, Describes, Crowds, Interrupts, Waits, Views, Keeps, Damages, Fails, Replaces
):
    """Two handles on one directory and one over another store, and all they can do."""

    @initialize(limit=LIMITS)
    def begin(self, limit: int) -> None:
        """Open the handles."""
        for handle in (0, 1, OTHER_HANDLE):
            self.reopen(handle, limit)


def cache_machine(open_cache: OpenCache, ttl: float | None) -> type[CacheMachine]:
    """Return the machine of a cache, whose methods are the steps.

    Args:
        open_cache: Opens a cache, as ``cache_machine_test`` takes it.
        ttl: Seconds without use after which an entry is no longer served; None for no
            limit.
    """
    return type("AnyCache", (CacheMachine,), {"setup": Setup(open_cache, ttl)})
