"""What a verdict is about: a plugin, the stores to test it on, and how thoroughly."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability
from tieredfs.testing.rule import MakeStorage
from tieredfs.testing.stuck import call_within
from tieredfs.testing.verdict.profile import EXTENTS, Extent, Profile

__all__ = ["Recipe", "Subject"]


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How code makes what was tested, so that a verdict can be repeated in a test.

    Attributes:
        imports: Names to import from ``tieredfs``.
        lines: Python that defines the function ``make_storage``.
        store: An expression for an empty store of the kind that was used.
        store_imports: Modules, and the names in them that the expression needs.
    """

    imports: tuple[str, ...]
    lines: str
    store: str
    store_imports: tuple[tuple[str, str], ...] = (("tieredfs", "ObjectStore"),)


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin and the stores to test it on.

    Attributes:
        make_storage: Makes the plugin's storage over a store.
        make_store: Makes a store that nothing else uses: empty, or with segments if the
            plugin is read only.
        fill: Puts into an empty store what ``make_store`` begins with.
        recipe: How code makes the same.
        extent: How thoroughly to test.
        seed: What is drawn at random follows from it.
        only: Names of the rules that a verdict is wanted on; empty for all.
    """

    make_storage: MakeStorage
    make_store: Callable[[], ObjectStore]
    fill: Callable[[ObjectStore], None]
    recipe: Recipe
    extent: Extent = EXTENTS[Profile.QUICK]
    seed: int = 0
    only: frozenset[str] = frozenset()

    def wants(self, name: str) -> bool:
        """Return whether a verdict on a rule is wanted."""
        return not self.only or name in self.only

    def capabilities(self) -> frozenset[Capability]:
        """Return what the plugin can do, as a new storage says it.

        Raises:
            StuckCallError: No storage was made in time.
        """
        store = self.make_store()
        return self.within(lambda: self.make_storage(store).capabilities)

    def within(self, call: Callable[[], _T]) -> _T:
        """Return what a call of the plugin returns; give up one that hangs.

        Raises:
            StuckCallError: It did not end in time.
        """
        return call_within(self.extent.call_seconds, call)
