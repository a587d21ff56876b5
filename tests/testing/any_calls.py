"""The state machine of the kit over stores of a test's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from hypothesis import Phase, settings

from servers import Bucket
from support.stores import open_store
from testing.layouts import LAYOUTS
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import state_machine_test

__all__ = ["WRITABLE", "try_any_calls"]

WRITABLE: Final = ("single-object", "single-object-zstd", "kafka-local")
_CROWD: Final = 3  # one that fills a page would take minutes over a server


def try_any_calls(
    layout: str, make_place: Callable[[str], Bucket], *, examples: int = 5
) -> None:
    """Try any calls of a layout in any order.

    Args:
        layout: Its name.
        make_place: Makes a place for each sequence, with a name of its own.
        examples: How many sequences.
    """
    numbers = count()

    class Case:
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return LAYOUTS[layout](store)

    @contextmanager
    def open_place() -> Iterator[ObjectStore]:
        yield open_store(make_place(str(next(numbers))))

    machine: Any = state_machine_test(
        Case, open_store=open_place, examples=examples, steps=15, crowd=_CROWD
    )
    # Found here, it is made shorter in memory: a server would take minutes.
    machine.settings = settings(machine.settings, phases=[Phase.generate])
    machine("runTest").runTest()
