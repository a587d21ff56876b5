"""The steps that delete objects."""

from functools import partial

from hypothesis.stateful import precondition, rule

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.testing.object_store_machine.draws import COUNTS, HANDLES, KEY_LISTS
from tieredfs.testing.object_store_machine.outcomes import Outcomes
from tieredfs.testing.object_store_machine.state import can_write

__all__ = ["Removes"]


class Removes(Outcomes):
    """A machine that deletes objects."""

    @precondition(can_write)
    @rule(keys=KEY_LISTS, handle=HANDLES)
    def delete(self, keys: list[str], handle: int) -> None:
        """Delete objects, of which some need not exist."""
        self.says(f"delete({keys})")
        self.handles[handle].delete(iter(keys))
        self.model.delete(keys)

    @precondition(can_write)
    @rule(count=COUNTS, handle=HANDLES)
    def put_a_crowd(self, count: int, handle: int) -> None:
        """Put many objects below one prefix, list them and delete them."""
        said = self.says(f"put of {count} objects below 'crowd/'")
        store = self.handles[handle]
        keys = [f"crowd/{number:04}" for number in range(count)]
        with DaemonExecutor(8) as pool:
            put = partial(store.put, data=b"", overwrite=True)
            for key, _ in zip(keys, pool.map(put, keys), strict=True):
                self.model.put(key, b"")
        for after in ("", keys[1]):
            found = store.list("crowd/", start_after=after)
            self.model.check_listing(
                f"after {said} list('crowd/', start_after={after!r})",
                found,
                prefix="crowd/",
                start_after=after,
            )
        self.says(f"delete of {count} objects below 'crowd/'")
        store.delete(keys)
        self.model.delete(keys)
