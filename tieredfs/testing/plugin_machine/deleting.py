"""The steps that delete segments, and what failed calls have left."""

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.testing.faults import FaultPlan
from tieredfs.testing.plugin_machine.draws import (
    HANDLES,
    SEGMENTS,
    WRITE_FAULTS,
    partition_numbers,
)
from tieredfs.testing.plugin_machine.promise import Promise, keep
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import PluginState, can_write
from tieredfs.testing.samples import Sample

__all__ = ["Deletes"]


class Deletes(PluginState):
    """A machine that deletes segments."""

    @precondition(can_write)
    @rule(number=SEGMENTS, handle=HANDLES, faults=WRITE_FAULTS)
    @recorded
    def delete_segment(self, number: int, handle: int, faults: FaultPlan) -> None:
        """Delete a segment, which need not be there."""
        self.delete_sample(self.pool[number], handle, faults)

    @precondition(can_write)
    @rule(number=partition_numbers(), handle=HANDLES, faults=WRITE_FAULTS)
    @recorded
    def delete_partition(self, number: int, handle: int, faults: FaultPlan) -> None:
        """Delete a partition."""
        partition = self.partition(number)
        self.model.begin_delete(self.model.of(partition))
        storage = self.handles[handle].storage
        ended = self.try_call(
            handle, faults, lambda: storage.delete_partition(partition)
        )
        if ended is None:
            self.model.fail_delete(partition)
        else:
            self.model.end_delete_partition(partition)
            self.check_clean(partition)

    @rule(
        number=partition_numbers(),
        handle=HANDLES,
        faults=WRITE_FAULTS,
        removes=st.booleans(),
    )
    @recorded
    def scrub(self, number: int, handle: int, faults: FaultPlan, removes: bool) -> None:  # noqa: FBT001 - hypothesis names it
        """Find what failed calls have left, and remove it; without one, nothing."""
        partition, storage = self.partition(number), self.handles[handle].storage
        ended = self.try_call(handle, faults, lambda: [*storage.scrub(partition)])
        if ended is not None and self.model.is_clean(partition):
            keep(
                Promise.LEFTOVERS_ARE_REMOVED,
                not ended[0],
                f"scrub of {partition} found {ended[0]}",
            )
        if not removes or not can_write(self):
            return
        storage = self.handles[handle].storage  # another one after a crash
        removed = self.try_call(
            handle, faults, lambda: storage.cancel_copying(partition)
        )
        if removed is not None:
            self.model.clean(partition)
            self.check_clean(partition)

    def delete_sample(self, one: Sample, handle: int, faults: FaultPlan) -> None:
        """Delete any segment, while requests fail as planned."""
        metadata = self.known(one)
        self.model.begin_delete([one])
        storage = self.handles[handle].storage
        ended = self.try_call(
            handle, faults, lambda: storage.delete_log_segment(metadata)
        )
        if ended is None:
            self.model.fail_delete(metadata.partition)
        else:
            self.model.end_delete(one)
