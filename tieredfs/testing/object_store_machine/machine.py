"""The machine of an object store: all its steps together."""

from collections.abc import Sequence

from hypothesis.stateful import initialize, rule

from tieredfs.testing.object_store_machine.draws import HANDLES, SOME_KEYS
from tieredfs.testing.object_store_machine.putting import Puts
from tieredfs.testing.object_store_machine.reading import Reads
from tieredfs.testing.object_store_machine.refusing import Refuses
from tieredfs.testing.object_store_machine.removing import Removes
from tieredfs.testing.object_store_machine.samples import KEYS
from tieredfs.testing.object_store_machine.state import Setup, can_write
from tieredfs.testing.stores import OpenStore

__all__ = ["ObjectStoreMachine", "object_store_machine"]


class ObjectStoreMachine(Puts, Removes, Reads, Refuses):
    """Two handles on one store, and all its verbs."""

    @initialize(keys=SOME_KEYS)
    def begin(self, keys: list[str]) -> None:
        """Choose the keys that this sequence is about."""
        self.keys = keys if can_write(self) else [*self.model.objects, *keys]

    @rule(handle=HANDLES)
    def restart(self, handle: int) -> None:
        """Begin again, as another process would."""
        self.says("opening the store again")
        self.handles[handle] = self.open_handle()


def object_store_machine(
    open_store: OpenStore, keys: Sequence[str] = KEYS
) -> type[ObjectStoreMachine]:
    """Return the machine of a store, whose methods are the steps.

    Args:
        open_store: Opens a store without objects, and removes it afterwards; one that
            is read only has some.
        keys: The keys to draw from.
    """
    setup = Setup(open_store, tuple(keys))
    return type("AnyStore", (ObjectStoreMachine,), {"setup": setup})
