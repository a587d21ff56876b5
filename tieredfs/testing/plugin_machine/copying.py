"""The steps that copy segments."""

from dataclasses import replace
from functools import partial

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tieredfs.errors import UnsupportedOperationError
from tieredfs.model import LogSegmentData
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.copies import Copy, copy_log_segment, copy_open_log
from tieredfs.testing.faults import NO_FAULTS, FaultPlan
from tieredfs.testing.plugin_machine.draws import (
    CONTENTS,
    COUNTS,
    HANDLES,
    SEGMENTS,
    STORED,
    WRITE_FAULTS,
)
from tieredfs.testing.plugin_machine.model import name_of
from tieredfs.testing.plugin_machine.pool import CROWDED, build_pool, one_of_a_crowd
from tieredfs.testing.plugin_machine.promise import Promise, keep
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import (
    PluginState,
    can_write,
    found,
    run_concurrently,
)
from tieredfs.testing.samples import Sample
from tieredfs.testing.segment_plan import SegmentPlan

__all__ = ["Copies", "copy_or_refuse"]


class Copies(PluginState):
    """A machine that copies segments."""

    @initialize(contents=CONTENTS, stored=STORED)
    @recorded
    def begin(self, contents: list[SegmentPlan], stored: tuple[int, ...]) -> None:
        """Make segments, and copy some; those of a read-only layout are there."""
        self.search.failures.sequences += 1
        if not can_write(self):
            self._adopt()
            return
        self.pool = build_pool(contents[0], contents[-1])
        for number in stored:
            self.copy_sample(self.pool[number], 0, NO_FAULTS)

    @precondition(can_write)
    @rule(number=SEGMENTS, handle=HANDLES, faults=WRITE_FAULTS, is_open=st.booleans())
    @recorded
    def copy(
        self,
        number: int,
        handle: int,
        faults: FaultPlan,
        is_open: bool = False,  # noqa: FBT001, FBT002 - hypothesis names it
    ) -> None:
        """Copy a segment, or copy it again; its log is open where ``push`` copies."""
        copy = copy_open_log if is_open else copy_log_segment
        self.copy_sample(self.pool[number], handle, faults, copy)

    @precondition(can_write)
    @rule(numbers=st.tuples(SEGMENTS, SEGMENTS), handles=st.tuples(HANDLES, HANDLES))
    @recorded
    def copy_concurrently(
        self, numbers: tuple[int, int], handles: tuple[int, int]
    ) -> None:
        """Copy two segments concurrently, or one twice."""
        ones = [self.pool[number] for number in numbers]
        calls = [
            partial(copy_or_refuse, self.handles[handle].storage, one)
            for handle, one in zip(handles, ones, strict=True)
        ]
        customs = run_concurrently(calls)
        for one, custom in zip(ones, customs, strict=True):
            self.end_copy(one, custom)

    @precondition(can_write)
    @rule(count=COUNTS, handle=HANDLES)
    @recorded
    def copy_a_crowd(self, count: int, handle: int) -> None:
        """Copy many segments to a partition of their own, list them and delete it."""
        for number in range(min(count, self.setup.crowd)):
            self.copy_sample(one_of_a_crowd(number), handle, NO_FAULTS)
        storage = self.handles[handle].storage
        listed = found(partial(storage.list_segments, CROWDED))
        self.model.check_segments(CROWDED, listed)
        self.model.begin_delete(self.model.of(CROWDED))
        storage.delete_partition(CROWDED)
        self.model.end_delete_partition(CROWDED)

    def copy_sample(
        self,
        one: Sample,
        handle: int,
        faults: FaultPlan,
        copy: Copy = copy_log_segment,
    ) -> None:
        """Copy any segment, while requests fail as planned."""
        name = name_of(one.metadata)
        was_whole = name in self.model.whole
        storage = self.handles[handle].storage
        self.model.begin_copy(one)
        ended = self.try_call(
            handle, faults, partial(copy_or_refuse, storage, one, copy)
        )
        if ended is None:
            if Capability.ATOMIC_COPY not in self.capabilities:
                self.model.fail_copy(one)
            return
        (custom,) = ended
        if custom is not None and was_whole and name in self.custom:
            keep(
                Promise.REPEATED_COPIES_AGREE,
                custom == self.custom[name],
                f"copying {one.metadata} again returned {custom!r}, "
                f"not {self.custom[name]!r}",
            )
        self.end_copy(one, custom)

    def end_copy(self, one: Sample, custom: bytes | None) -> None:
        """Take note that a copy has ended.

        Args:
            one: What was copied.
            custom: What the copy returned; None if the layout cannot store the segment,
                of which it has nothing then.
        """
        name = name_of(one.metadata)
        if custom is not None:
            self.model.end_copy(one)
            self.custom[name] = custom
            return
        keep(
            Promise.CALLS_SUCCEED,
            name not in self.model.whole,
            f"copying {one.metadata} again is refused",
        )
        self.model.refuse_copy(one)

    def _adopt(self) -> None:
        """Take what a layout that is read only holds for what it has to hold."""
        storage = self.handles[0].storage
        self.partitions = storage.list_partitions()
        for partition in self.partitions:
            for listed in found(partial(storage.list_segments, partition)) or ():
                described = storage.describe(listed)
                log = bytes(storage.fetch_log_segment(listed))
                fetched = storage.fetch_all_indexes(listed)
                indexes = {kind: bytes(index) for kind, index in fetched.items()}
                plain = replace(described, version="", custom_metadata=b"")
                self.pool.append(Sample(listed, LogSegmentData(log, indexes), plain))
        self.model.adopt(self.partitions, self.pool)


def copy_or_refuse(
    storage: RemoteStorageManager, one: Sample, copy: Copy = copy_log_segment
) -> bytes | None:
    """Copy a segment; return None if the layout cannot store such a log."""
    try:
        return copy(storage, one.metadata, one.data)
    except UnsupportedOperationError:
        return None
