"""The step in which another process copies in the middle of a call."""

from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.faults import Effect, FaultPlan, StoreFault
from tieredfs.testing.plugin_machine.copying import Copies, copy_or_refuse
from tieredfs.testing.plugin_machine.deleting import Deletes
from tieredfs.testing.plugin_machine.draws import HANDLES, SEGMENTS, WRITES
from tieredfs.testing.plugin_machine.pool import neighbour
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import can_write
from tieredfs.testing.samples import Sample

__all__ = ["Meanwhile"]

_LOCK_SECONDS: Final = 0.2


@dataclass(slots=True)
class _Beside:
    """A copy by another process, in the middle of a call.

    Attributes:
        one: What it copies.
        pool: Its thread.
        copied: Its result, once it has begun.
    """

    one: Sample
    pool: DaemonExecutor
    copied: Future[bytes | None] | None = None


class Meanwhile(Copies, Deletes):
    """A machine that copies and deletes while another process copies."""

    _beside: _Beside | None = None

    @precondition(can_write)
    @rule(number=SEGMENTS, handle=HANDLES, write=WRITES, deletes=st.booleans())
    @recorded
    def copy_beside(self, number: int, handle: int, write: int, deletes: bool) -> None:  # noqa: FBT001 - hypothesis names it
        """Copy or delete a segment while another process copies its neighbour."""
        faults = FaultPlan((StoreFault(Effect.DELAY, write, of_writes=True),))
        with DaemonExecutor(1) as pool:
            self._beside = _Beside(neighbour(self.pool, number), pool)
            if deletes:
                self.delete_sample(self.pool[number], handle, faults)
            else:
                self.copy_sample(self.pool[number], handle, faults)
            beside, self._beside = self._beside, None
            if beside.copied is not None:
                self.end_copy(beside.one, beside.copied.result())

    def act_meanwhile(self, storage: RemoteStorageManager) -> None:
        """Copy, once in each step that asks for it, and list everything."""
        beside = self._beside
        if beside is not None and beside.copied is None:
            self.model.begin_copy(beside.one)
            beside.copied = beside.pool.submit(copy_or_refuse, storage, beside.one)
            # One that waits for a lock of the process goes on when the call has ended.
            wait([beside.copied], timeout=_LOCK_SECONDS)
        super().act_meanwhile(storage)
