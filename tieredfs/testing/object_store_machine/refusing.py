"""The steps that make calls which a store has to refuse."""

from functools import partial

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.errors import InvalidArgumentError, UnsupportedOperationError
from tieredfs.objects import StoreCapability
from tieredfs.testing.object_store_machine.draws import HANDLES, ONE_KEY
from tieredfs.testing.object_store_machine.refused_calls import WRITES, WRONG
from tieredfs.testing.object_store_machine.state import ObjectStoreState, cannot
from tieredfs.testing.rule import expect_error

__all__ = ["Refuses"]


class Refuses(ObjectStoreState):
    """A machine that makes calls which are refused."""

    @rule(handle=HANDLES)
    def call_wrongly(self, handle: int) -> None:
        """Make every call whose arguments are wrong: none reaches the store."""
        self.says("calls whose arguments are wrong")
        for wrong, call in WRONG.items():
            expect_error(
                partial(call, self.handles[handle]),
                InvalidArgumentError,
                f"a wrong argument is refused: {wrong}",
            )

    @precondition(cannot(StoreCapability.WRITE))
    @rule(verb=st.sampled_from(sorted(WRITES)), key=ONE_KEY, handle=HANDLES)
    def write_to_what_is_read_only(self, verb: str, key: str, handle: int) -> None:
        """Ask a store that is read only to write."""
        self.says(f"{verb} of {key!r}")
        expect_error(
            partial(WRITES[verb], self.handles[handle], key),
            UnsupportedOperationError,
            f"a store without WRITE refuses to write: {verb} of {key!r}",
        )

    @precondition(cannot(StoreCapability.EXCLUSIVE_CREATE))
    @rule(key=ONE_KEY, handle=HANDLES)
    def create_without_exclusion(self, key: str, handle: int) -> None:
        """Ask a store that cannot create exclusively to do so."""
        said = self.says(f"put({key!r}, overwrite=False)")
        expect_error(
            lambda: self.handles[handle].put(key, b"refused", overwrite=False),
            UnsupportedOperationError,
            f"a store without EXCLUSIVE_CREATE refuses to create: {said}",
        )
