"""The steps that list partitions and segments."""

from functools import partial

from hypothesis.stateful import rule

from tieredfs.testing.faults import Effect, FaultPlan
from tieredfs.testing.plugin_machine.draws import HANDLES, OFFSETS, READ_FAULTS
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import PluginState, found

__all__ = ["Lists"]


class Lists(PluginState):
    """A machine that lists."""

    @rule(handle=HANDLES, faults=READ_FAULTS)
    @recorded
    def list_partitions(self, handle: int, faults: FaultPlan) -> None:
        """List all partitions."""
        storage = self.handles[handle].storage
        ended = self.try_call(handle, faults, storage.list_partitions)
        if ended is not None:
            # What may not be looked into is listed by its name alone.
            is_denied = any(fault.effect is Effect.DENIED for fault in faults.faults)
            self.model.check_partitions(ended[0], has_ids=not is_denied)

    @rule(handle=HANDLES, offset=OFFSETS, faults=READ_FAULTS)
    @recorded
    def list_from(self, handle: int, offset: int, faults: FaultPlan) -> None:
        """List the segments of each partition from an offset on, and seek it."""
        for partition in self.partitions:
            storage = self.handles[handle].storage
            listing = partial(storage.list_segments, partition, offset)
            ended = self.try_call(handle, faults, partial(found, listing))
            if ended is not None:
                self.model.check_segments(partition, ended[0], offset)
            seeking = partial(storage.seek, partition, offset)
            ended = self.try_call(handle, faults, partial(found, seeking))
            if ended is not None:
                self.model.check_seek(partition, ended[0], offset)
