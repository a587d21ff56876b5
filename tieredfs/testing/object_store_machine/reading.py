"""The steps that read and list objects."""

from collections.abc import Sequence
from functools import partial

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.errors import CorruptObjectError
from tieredfs.model import ByteRange
from tieredfs.testing.object_store_machine.draws import (
    BEGINNINGS,
    HANDLES,
    ONE_KEY,
    RANGES,
)
from tieredfs.testing.object_store_machine.outcomes import Outcomes
from tieredfs.testing.rule import expect_error, require

__all__ = ["Reads"]


class Reads(Outcomes):
    """A machine that reads and lists objects."""

    @rule(handle=HANDLES)
    def get(self, handle: int) -> None:
        """Get every object whole, and its description, or what does not exist."""
        store = self.handles[handle]
        for key in self.keys:
            if key not in self.model.objects:
                self.expect_miss(key, store)
                continue
            said = self.after(f"get({key!r})")
            self.model.check_content(said, key, store.get(key))
            info, (listed, *_) = store.head(key), store.list(key)
            self.model.check_info(self.after(f"head({key!r})"), info)
            require(
                info == listed,
                f"head describes an object as a listing does: of {key!r} came {info}, "
                f"listed is {listed}",
            )

    @rule(key=ONE_KEY, handle=HANDLES, ranges=RANGES)
    def get_ranges(
        self, key: str, handle: int, ranges: Sequence[tuple[int, int]]
    ) -> None:
        """Get ranges of an object, one by one and together, and some past its end."""
        store = self.handles[handle]
        if key not in self.model.objects:
            self.expect_miss(key, store)
            return
        size = len(self.model.objects[key])
        spans = [
            ByteRange(*sorted((size * low // 1000, size * high // 1000)))
            for low, high in ranges
        ]
        together = store.get_ranges(key, spans)
        for found, span in zip(together, spans, strict=True):
            start, end = span.start, span.end
            said = self.after(f"[{start}, {end}) of get_ranges({key!r}, {spans})")
            self.model.check_part(said, key, found, start, end)
            said = self.after(f"get_range({key!r}, {start}, {end})")
            alone = store.get_range(key, start, end)
            self.model.check_part(said, key, alone, start, end)
        for start in {0, max(size - 1, 0), size, size + 1000}:
            end = max(size, start) + 1
            expect_error(
                partial(store.get_range, key, start, end),
                CorruptObjectError,
                f"a range past the end is an error: get_range({key!r}, {start}, {end}) "
                f"of {size} bytes",
            )

    @rule(
        prefix=ONE_KEY,
        beginning=BEGINNINGS,
        mark=ONE_KEY,
        handle=HANDLES,
        delimiter=st.sampled_from(["", "/"]),
        is_after=st.booleans(),
    )
    def list(
        self,
        prefix: str,
        beginning: int,
        mark: str,
        handle: int,
        delimiter: str,
        is_after: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """List the keys that begin as another one does, all or after a key."""
        begins, after = prefix[:beginning], mark if is_after else ""
        if begins in {".", ".."}:
            begins = ""  # no key is only that, and so it is no prefix of one
        said = self.after(
            f"list({begins!r}, start_after={after!r}, delimiter={delimiter!r})"
        )
        found = self.handles[handle].list(
            begins, start_after=after, delimiter=delimiter
        )
        self.model.check_listing(
            said, found, prefix=begins, start_after=after, delimiter=delimiter
        )
        self.model.check_listing(self.after("list()"), self.handles[handle].list())
