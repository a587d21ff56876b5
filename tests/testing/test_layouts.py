"""Every layout keeps every rule, on every store."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from support.stores import KINDS, make_place, open_store
from testing.layouts import LAYOUTS, WRAPPED
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import (
    CHECKS,
    Check,
    MakeStorage,
    RemoteStorageTests,
    state_machine_test,
)
from tieredfs.testing.plugin_machine.pool import CROWD

IN_MEMORY = {
    **WRAPPED,
    **{name: LAYOUTS[name] for name in ("single-object-zstd", "kafka-log-compacted")},
}


@pytest.fixture(params=KINDS)
def tieredfs_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind, in a place of this test's own."""
    return open_store(make_place(str(request.param), request, tmp_path))


class TestSingleObject(RemoteStorageTests):
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return LAYOUTS["single-object"](store)


class TestKafkaLocal(RemoteStorageTests):
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return LAYOUTS["kafka-local"](store)


class TestKafkaLog(RemoteStorageTests):
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return LAYOUTS["kafka-log-epochs"](store)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", IN_MEMORY.values(), ids=IN_MEMORY)
def test_variants_keep_every_rule_in_memory(check: Check, make: MakeStorage) -> None:
    check(make)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "layout", ["single-object", "single-object-zstd", "kafka-local"]
)
def test_any_calls_in_any_order_agree_with_the_model(
    layout: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """As test_machine.py in memory, there with many more examples."""
    numbers = count()

    class Case:
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return LAYOUTS[layout](store)

    @contextmanager
    def open_place() -> Iterator[ObjectStore]:
        folder = tmp_path / str(next(numbers))
        yield open_store(make_place(kind, request, folder))

    machine: Any = state_machine_test(
        Case,
        open_store=open_place,
        examples=5 if kind in {"local", "memory"} else 3,  # a server takes seconds each
        steps=15,
        crowd=CROWD if kind == "memory" else 3,
    )
    # Found here, it is made shorter in memory: a server would take minutes.
    machine.settings = settings(machine.settings, phases=[Phase.generate])
    machine("runTest").runTest()
