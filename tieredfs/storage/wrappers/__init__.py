"""Wrappers that stand in front of any storage, and of each other, in any order."""

from tieredfs.storage.wrappers.calls import REMOTE_CALLS, StorageCall
from tieredfs.storage.wrappers.counting import CallCounter, CountingStorage
from tieredfs.storage.wrappers.faults import Chance, Fault, FaultyStorage
from tieredfs.storage.wrappers.latency import DelayedStorage
from tieredfs.storage.wrappers.read_only import ReadOnlyStorage
from tieredfs.storage.wrappers.recording import CallLog, Recorded, RecordingStorage

__all__ = [
    "REMOTE_CALLS",
    "CallCounter",
    "CallLog",
    "Chance",
    "CountingStorage",
    "DelayedStorage",
    "Fault",
    "FaultyStorage",
    "ReadOnlyStorage",
    "Recorded",
    "RecordingStorage",
    "StorageCall",
]
