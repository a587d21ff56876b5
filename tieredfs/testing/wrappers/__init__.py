"""Wrappers for any storage, which can be nested in any order."""

from tieredfs.testing.wrappers.calls import REMOTE_CALLS, StorageCall
from tieredfs.testing.wrappers.counting import CallCounter, CountingStorage
from tieredfs.testing.wrappers.faults import Chance, Fault, FaultyStorage
from tieredfs.testing.wrappers.latency import DelayedStorage
from tieredfs.testing.wrappers.read_only import ReadOnlyStorage
from tieredfs.testing.wrappers.recording import CallLog, Recorded, RecordingStorage

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
