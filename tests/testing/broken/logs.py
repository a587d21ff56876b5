"""Storages that store a log which they should not, or not as they should."""

from collections.abc import Mapping

from typing_extensions import override

from testing.broken.plugin import Broken, PushesInItsOwnWay
from tieredfs import (
    CorruptDataError,
    IndexType,
    LogSegmentData,
    SegmentMetadata,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_files import SUFFIXES
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource

__all__ = ["BROKEN"]


class TakesAnyLog(KafkaLocal):
    """Stores a log as it is given, whatever is in it."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        try:
            return super().copy_log_segment(metadata, data)
        except CorruptDataError:
            return b""


class PushesAnyLog(PushesInItsOwnWay):
    """Stores an open log as it is given, whatever is in it."""

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        try:
            return super().copy_open_log(metadata, log, indexes)
        except CorruptDataError:
            return b""


class StoresBeforeItLooks(KafkaLocal):
    """Stores the indexes before it has read the log."""

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        for kind, index in indexes.items():
            key = self._key(metadata, SUFFIXES[kind])
            self.store.put(key, index, overwrite=True)
        return super().copy_open_log(metadata, log, indexes)


class LosesIndexesOfOpenLogs(SingleObject):
    """Copies an open log with only the index that it cannot rebuild."""

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        kept = {kind: indexes[kind] for kind in indexes if "EPOCH" in kind}
        return super().copy_open_log(metadata, log, kept)


BROKEN = (
    Broken(
        rules.check_malformed_log_is_refused,
        TakesAnyLog,
        "copy_log_segment of a log with a wrong bit returned",
    ),
    Broken(
        rules.check_malformed_log_is_refused,
        PushesAnyLog,
        "copy_open_log of a log with a wrong bit returned",
    ),
    Broken(
        rules.check_malformed_log_is_refused,
        StoresBeforeItLooks,
        "was refused, and it has stored",
    ),
    Broken(rules.check_copied_segment_is_read_back, LosesIndexesOfOpenLogs, ""),
)
