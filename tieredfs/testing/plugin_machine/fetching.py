"""The steps that fetch logs and indexes."""

from functools import partial

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.errors import CorruptObjectError, InvalidArgumentError, NotFoundError
from tieredfs.model import IndexType
from tieredfs.testing.faults import FaultPlan
from tieredfs.testing.plugin_machine.draws import (
    HANDLES,
    KINDS,
    PERMILLE,
    READ_FAULTS,
    SEGMENTS,
)
from tieredfs.testing.plugin_machine.model import name_of
from tieredfs.testing.plugin_machine.reading_back import keep_bytes, keep_indexes
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import (
    PluginState,
    has_segments,
    run_concurrently,
)
from tieredfs.testing.rule import expect_error
from tieredfs.testing.samples import Sample

__all__ = ["Fetches"]


def _gone(machine: PluginState) -> list[Sample]:
    """Return the segments that were listed once, and of which nothing is left."""
    return [
        one
        for one in machine.pool
        if (name := name_of(one.metadata)) in machine.listed
        and machine.model.is_gone(name)
    ]


def _has_gone(machine: PluginState) -> bool:
    return bool(_gone(machine))


class Fetches(PluginState):
    """A machine that fetches."""

    @precondition(has_segments)
    @rule(
        number=SEGMENTS,
        handle=HANDLES,
        start=PERMILLE,
        end=PERMILLE,
        faults=READ_FAULTS,
    )
    @recorded
    def fetch_range(
        self, number: int, handle: int, start: int, end: int, faults: FaultPlan
    ) -> None:
        """Fetch a range of a log, and ranges that it does not have."""
        one, storage = self.whole(number), self.handles[handle].storage
        size, metadata = len(one.log), self.known(one)
        low, high = sorted((size * start // 1000, size * end // 1000))
        ended = self.try_call(
            handle, faults, lambda: storage.fetch_log_segment(metadata, low, high)
        )
        if ended is not None:
            keep_bytes(f"[{low}, {high}) of {metadata}", ended[0], one.log[low:high])
        for wrong, error in (
            ((low, size + 1), CorruptObjectError),
            ((high + 1, high), InvalidArgumentError),
        ):
            call = partial(storage.fetch_log_segment, metadata, *wrong)
            expect_error(
                call, error, f"fetching [{wrong[0]}, {wrong[1]}) of {metadata}"
            )

    @precondition(has_segments)
    @rule(number=SEGMENTS, handle=HANDLES, kinds=KINDS, faults=READ_FAULTS)
    @recorded
    def fetch_indexes(
        self, number: int, handle: int, kinds: set[IndexType], faults: FaultPlan
    ) -> None:
        """Fetch some indexes of a segment: together, and one by one."""
        one, storage = self.whole(number), self.handles[handle].storage
        metadata = self.known(one)
        ended = self.try_call(
            handle, faults, lambda: storage.fetch_indexes(metadata, sorted(kinds))
        )
        if ended is not None:
            wanted = {k: v for k, v in one.data.indexes.items() if k in kinds}
            keep_indexes(metadata, ended[0], wanted)
        for kind in sorted(kinds):
            fetch = partial(storage.fetch_index, metadata, kind)
            if kind not in one.data.indexes:
                expect_error(fetch, NotFoundError, f"fetching {kind} of {metadata}")
                continue
            fetched = self.try_call(handle, faults, fetch)
            if fetched is not None:
                wanted = {kind: one.data.indexes[kind]}
                keep_indexes(metadata, {kind: fetched[0]}, wanted)

    @precondition(has_segments)
    @rule(numbers=st.tuples(SEGMENTS, SEGMENTS), handle=HANDLES)
    @recorded
    def fetch_indexes_concurrently(self, numbers: tuple[int, int], handle: int) -> None:
        """Fetch the indexes of two segments concurrently, with one storage."""
        storage = self.handles[handle].storage
        ones = [self.whole(number) for number in numbers]
        calls = [partial(storage.fetch_all_indexes, self.known(one)) for one in ones]
        for one, fetched in zip(ones, run_concurrently(calls), strict=True):
            keep_indexes(one.metadata, fetched, one.data.indexes)

    @precondition(_has_gone)
    @rule(number=SEGMENTS, handle=HANDLES)
    @recorded
    def fetch_what_is_gone(self, number: int, handle: int) -> None:
        """Fetch a segment of which nothing is left, not even by a failed delete."""
        storage, gone = self.handles[handle].storage, _gone(self)
        if not gone:  # in steps that were made fewer
            return
        metadata = self.known(gone[number % len(gone)])
        for said, call in (
            ("its log", partial(storage.fetch_log_segment, metadata)),
            ("an index", partial(storage.fetch_index, metadata, IndexType.OFFSET)),
        ):
            expect_error(call, NotFoundError, f"{metadata} is gone: fetching {said}")
