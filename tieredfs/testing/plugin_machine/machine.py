"""The machine of a plugin: all its steps together."""

from hypothesis.stateful import precondition, rule

from tieredfs.testing.plugin_machine.draws import HANDLES
from tieredfs.testing.plugin_machine.fetching import Fetches
from tieredfs.testing.plugin_machine.limited_search import Search
from tieredfs.testing.plugin_machine.listing import Lists
from tieredfs.testing.plugin_machine.meanwhile import Meanwhile
from tieredfs.testing.plugin_machine.pool import CROWD
from tieredfs.testing.plugin_machine.recorded_step import recorded
from tieredfs.testing.plugin_machine.state import Setup, has_segments
from tieredfs.testing.rule import MakeStorage
from tieredfs.testing.stores import OpenStore, scratch_store

__all__ = ["PluginMachine", "plugin_machine"]


def _can_be_out_of_date(machine: "PluginMachine") -> bool:
    """Return whether there is what a storage may remember, and one that is not new."""
    return has_segments(machine) and machine.steps[-1].name != "restart"


class PluginMachine(Meanwhile, Lists, Fetches):
    """Two handles, one store, and the calls of the contract."""

    # Else it is most of what is drawn: it has the fewest arguments.
    @precondition(_can_be_out_of_date)
    @rule(handle=HANDLES)
    @recorded
    def restart(self, handle: int) -> None:
        """Begin again, as another process would."""
        self.handles[handle].storage.close()
        self.handles[handle] = self.open_handle()


def plugin_machine(
    make_storage: MakeStorage,
    *,
    open_store: OpenStore = scratch_store,
    search: Search | None = None,
    crowd: int = CROWD,
) -> type[PluginMachine]:
    """Return the machine of a plugin, whose methods are the steps.

    Args:
        make_storage: Makes the plugin's storage over a store.
        open_store: Opens a store without objects, and removes it afterwards.
        search: What the machine takes part in; None for one of its own, without limits.
        crowd: Segments of the largest partition.
    """
    used = Search() if search is None else search
    setup = Setup(make_storage, open_store, used, crowd)
    return type("PluginMachine", (PluginMachine,), {"setup": setup})
