"""What the steps of a machine share: two handles, and what the store has to hold."""

import pickle
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tieredfs.objects import ObjectStore, StoreCapability
from tieredfs.testing.object_store_machine.model import ObjectModel
from tieredfs.testing.stores import OpenStore

__all__ = [
    "ObjectStoreState",
    "Setup",
    "can",
    "can_create",
    "can_write",
    "cannot",
]


@dataclass(frozen=True, slots=True)
class Setup:
    """What a machine is made of.

    Attributes:
        open_store: Opens a store, and removes it afterwards.
        keys: The keys to draw from.
    """

    open_store: OpenStore
    keys: tuple[str, ...]


def can(*needs: StoreCapability) -> Callable[[Any], bool]:
    """Return the condition that a store has capabilities."""
    return lambda machine: machine.capabilities.issuperset(needs)


def cannot(capability: StoreCapability) -> Callable[[Any], bool]:
    """Return the condition that a store does not have a capability."""
    return lambda machine: capability not in machine.capabilities


can_write = can(StoreCapability.WRITE)
can_create = can(StoreCapability.WRITE, StoreCapability.EXCLUSIVE_CREATE)


class ObjectStoreState(RuleBasedStateMachine):
    """Two handles on one store, and the model of what it holds; it has no steps.

    Attributes:
        handles: The two stores that take turns.
        capabilities: Those of the store.
        model: What the store has to hold.
        keys: The keys that the steps are about.
        folder: A local folder, for files to put.
    """

    setup: ClassVar[Setup]

    def __init__(self) -> None:
        """Begin with the store as it is opened."""
        super().__init__()
        self._opened = ExitStack()
        self._store = self._opened.enter_context(self.setup.open_store())
        self.folder = Path(self._opened.enter_context(TemporaryDirectory()))
        self.handles = [self.open_handle(), self.open_handle()]
        self._is_checked = False
        self.capabilities = self._store.probe_capabilities()
        found = {e.key: bytes(self._store.get(e.key)) for e in self._store.list()}
        self.model = ObjectModel(found)
        self.keys = list(self.setup.keys)
        self.says("opening the store")

    def teardown(self) -> None:
        """Remove the store."""
        self._opened.close()

    @invariant()
    def another_process_reads_what_the_model_holds(self) -> None:
        """List and read all with a handle that is new."""
        if self._is_checked:
            return  # the last step wrote nothing
        fresh = self.open_handle()
        self.model.check_listing(self.after("a new handle's list()"), fresh.list())
        for key in self.model.objects:
            said = self.after(f"a new handle's get({key!r})")
            self.model.check_content(said, key, fresh.get(key))
        self._is_checked = True

    def open_handle(self) -> ObjectStore:
        """Return the store as another process gets it: only the objects are shared."""
        made: ObjectStore = pickle.loads(pickle.dumps(self._store))  # noqa: S301 - our own
        return made

    def says(self, step: str) -> str:
        """Take note of the last step that may have changed the store."""
        self._last = step
        self._is_checked = False
        return step

    def after(self, said: str) -> str:
        """Say what was called, and after which step."""
        return f"after {self._last} {said}"
