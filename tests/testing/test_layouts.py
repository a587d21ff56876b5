"""Every layout keeps every rule, in memory and in a folder.

``proof_layouts.py`` asks the same over the object stores of the clouds.
"""

from pathlib import Path

import pytest

from servers import Bucket
from support.stores import make_place, open_store
from testing.any_calls import WRITABLE, try_any_calls
from testing.layouts import LAYOUTS, WRAPPED
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import CHECKS, Check, MakeStorage, RemoteStorageTests

IN_MEMORY = {
    **WRAPPED,
    **{name: LAYOUTS[name] for name in ("single-object-zstd", "kafka-log-compacted")},
}


@pytest.fixture(params=["local", "memory"])
def tieredfs_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of both kinds, in a place of this test's own."""
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


@pytest.mark.parametrize("layout", WRITABLE)
def test_any_calls_in_a_folder_agree_with_the_model(
    layout: str, tmp_path: Path
) -> None:
    """As test_machine.py in memory, there with many more examples."""
    try_any_calls(layout, lambda folder: Bucket(str(tmp_path / folder), {}))
