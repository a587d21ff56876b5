"""The layouts under test, as checks take them; those that are read only come filled."""

from collections.abc import Mapping
from functools import partial

from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.stores import files_of, fill
from tieredfs import ObjectStore, RemoteStorageManager, open_storage
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.wrapper import StorageWrapper
from tieredfs.testing import MakeStorage
from tieredfs.testing.wrappers import (
    CountingStorage,
    ReadOnlyStorage,
    RecordingStorage,
)

__all__ = ["LAYOUTS", "WRAPPED", "read_only"]


def chunked(store: ObjectStore) -> RemoteStorageManager:
    """Open the native layout, with logs in compressed chunks."""
    return SingleObject(store, compression="zstd")


def log_directory(store: ObjectStore, topic: str) -> RemoteStorageManager:
    """Open a broker's log directory; put there what a real one wrote, if need be."""
    if not next(store.list(), None):
        fill(store, files_of(KAFKA / topic / LOCAL))
    return KafkaLog(store)


def read_only(store: ObjectStore) -> RemoteStorageManager:
    """Open what a broker tiered, but not to write."""
    if not next(store.list(), None):
        source = ObjectStore(str(KAFKA / "txn" / REMOTE))
        fill(store, {e.key: bytes(source.get(e.key)) for e in source.list()})
    return ReadOnlyStorage(open_storage(store, "kafka-local"))


def wrapped(store: ObjectStore) -> RemoteStorageManager:
    """Open the native layout behind wrappers that change nothing."""
    return CountingStorage(RecordingStorage(StorageWrapper(SingleObject(store))))


LAYOUTS: Mapping[str, MakeStorage] = {
    "single-object": SingleObject,
    "single-object-zstd": chunked,
    "kafka-local": KafkaLocal,
    "kafka-log-epochs": partial(log_directory, topic="epochs"),
    "kafka-log-compacted": partial(log_directory, topic="compacted"),
}

WRAPPED: Mapping[str, MakeStorage] = {"wrapped": wrapped, "read-only": read_only}
