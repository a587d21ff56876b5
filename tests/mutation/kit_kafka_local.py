"""The kit alone, asked about the layout kafka-local: does it notice a change of it?"""

from collections.abc import Iterator

import pytest
from hypothesis import Phase, seed, settings

from testing.layouts import LAYOUTS
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import RemoteStorageTests, state_machine_test
from tieredfs.testing.stores import scratch_store

settings.register_profile("mutation", phases=[Phase.generate], database=None)
settings.load_profile("mutation")


@pytest.fixture
def tieredfs_store() -> Iterator[ObjectStore]:
    """A store in memory."""
    with scratch_store() as store:
        yield store


class TestKafkaLocal(RemoteStorageTests):
    """Each rule."""

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        """Open the layout."""
        return LAYOUTS["kafka-local"](store)


TestKafkaLocalMachine = seed(0)(state_machine_test(TestKafkaLocal, examples=40))
