"""Plugins that copy in a wrong way."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native, PushesInItsOwnWay
from testing.layouts import read_only
from tieredfs import (
    Capability,
    CorruptIndexError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RemoteStorageManager,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.errors import AlreadyExistsError
from tieredfs.format.segment.key_scheme import OWN_FOLDER
from tieredfs.storage import Leftover, StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.testing.stores import scratch_store

__all__ = ["BROKEN", "CopiesOnce", "ListsHalves", "RemembersWhatItCopied", "Staging"]


class ListsHalves(KafkaLocal):
    """Takes a log for a segment; writes it first, and deletes it last."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        files, empty = self._files(partition)
        if empty:
            raise NotFoundError(str(partition))
        return [
            SegmentMetadata(partition, made, start, size=parts["log"].size)
            for (start, made), parts in sorted(files.items())
            if "log" in parts
        ]

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        assert not isinstance(data.log, Path)
        self.store.put(self._key(metadata, "log"), data.log, overwrite=True)
        return super().copy_log_segment(metadata, data)

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        for suffix in ("index", "timeindex", "snapshot", "txnindex"):
            self.store.delete([self._key(metadata, suffix)])
        super().delete_log_segment(metadata)


class CopiesOnce(Native):
    """Takes a repeated copy for a mistake."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with suppress(NotFoundError):
            listed = self.list_segments(metadata.partition)
            if metadata.id in {segment.id for segment in listed}:
                raise AlreadyExistsError(str(metadata))
        return super().copy_log_segment(metadata, data)


class MovesTheLog(SingleObject):
    """Removes the file whose log it has stored."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        custom = super().copy_log_segment(metadata, data)
        if isinstance(data.log, Path):
            data.log.unlink()
        return custom


class FindsIndexesOfListedSegments(KafkaLocal):
    """Fetches an index only of a segment whose size is known, as from a listing."""

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        if metadata.size is None:
            raise NotFoundError(str(metadata))
        return super().fetch_index(metadata, index_type)


class KeepsForeignMetadata(KafkaLocal):
    """Returns the custom metadata that a segment had in another storage."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        custom = super().copy_log_segment(metadata, data)
        return metadata.custom_metadata or custom


class BelievesAClaimedSize(KafkaLocal):
    """Stores as many bytes of a log as its metadata claim."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        custom = super().copy_log_segment(metadata, data)
        key = self._key(metadata, "log")
        if metadata.size is not None:
            log = self.store.get(key)[: metadata.size]
            self.store.put(key, log, overwrite=True)
        return custom


class RemembersWhatItCopied(SingleObject):
    """Does not copy again what it has copied, though it may be deleted by now."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.copied: dict[SegmentId, bytes] = {}

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if metadata.id not in self.copied:
            custom = super().copy_log_segment(metadata, data)
            self.copied[metadata.id] = custom
        return self.copied[metadata.id]


class TakesOutagesForLostReplies(KafkaLocal):
    """Takes a write that failed for one whose reply was lost."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with suppress(StorageUnavailableError):
            return super().copy_log_segment(metadata, data)
        return b""


class WritesManyParts(SingleObject):
    """Stores a log in many parts, and takes an outage at the last one for success."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        for number in range(120):
            key = f"{OWN_FOLDER}parts/{number}"
            self.store.put(key, b"a part", overwrite=True)
        with suppress(StorageUnavailableError):
            return super().copy_log_segment(metadata, data)
        return b""


class LeavesALock(KafkaLocal):
    """Locks a copy by an object that ``cancel_copying`` leaves, so that none begins."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        lock = self._key(metadata, "lock")
        files, _ = self._files(metadata.partition)
        if (metadata.start_offset, metadata.id) not in files:
            self.store.put(lock, b"", overwrite=False)
        custom = super().copy_log_segment(metadata, data)
        self.store.delete([lock])
        return custom


class Staging(SingleObject):
    """Stages a segment beside the others; a cleaner removes what is left there."""

    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        yield from super().scrub(partition)
        for entry in self.store.list(f"{OWN_FOLDER}staged/{partition}/"):
            yield Leftover(entry.key, entry.size or 0, "of a copy that has died")

    def stage(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[str, str, bytes]:
        """Return the staged object's key, the segment's key, and what a copy says."""
        with scratch_store() as place:
            custom = SingleObject(place).copy_log_segment(metadata, data)
            (whole,) = place.list()
            content = place.get(whole.key)
        staged = f"{OWN_FOLDER}staged/{metadata.partition}/{metadata.id}"
        self.store.put(staged, content, overwrite=True)
        return staged, whole.key, custom


class BelievesItsCopyComplete(Staging):
    """Takes a staged copy that is gone for one that another writer has completed."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        staged, key, custom = self.stage(metadata, data)
        with suppress(NotFoundError):
            self.store.copy(staged, key)
            self.store.delete([staged])
        return custom


class ClaimsOneWrite(KafkaLocal):
    """Claims one write, and makes one for each index."""

    capabilities = KafkaLocal.capabilities | {Capability.ATOMIC_COPY}


class TakesNoFiles(Native):
    """Stores nothing of a log that is a file."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if isinstance(data.log, Path):
            data = LogSegmentData(b"", {})
        return super().copy_log_segment(metadata, data)


class ReturnsText(SingleObject):
    """Returns custom metadata as text."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        return super().copy_log_segment(metadata, data).decode()  # type: ignore[return-value]  # that is the bug


class SaysTooMuch(Native):
    """Returns custom metadata that are longer than a broker keeps."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        return super().copy_log_segment(metadata, data) + b"..."


class GuessesTheEnd(Native):
    """Makes up an end offset."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if metadata.end_offset is None:
            metadata = replace(metadata, end_offset=metadata.start_offset + 19)
        return super().copy_log_segment(metadata, data)


class MakesUpMissingLogs(Native):
    """Stores an empty log where the file is missing."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if isinstance(data.log, Path) and not data.log.exists():
            data = replace(data, log=b"")
        return super().copy_log_segment(metadata, data)


class SeesNoLeftovers(KafkaLocal):
    """Has the default of ``scrub``, which is right for one object a segment."""

    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        yield from ()


class SeesEmptyLeftovers(KafkaLocal):
    """Says that leftovers take no room."""

    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        return (replace(found, size=0) for found in super().scrub(partition))


class SeesWholePartitions(KafkaLocal):
    """Has no leftovers where no segment is."""

    @override
    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().leftover_partitions(topic)
        return [partition for partition in found if self.list_segments(partition)]


class ScrubsWhatBeginsAlike(KafkaLocal):
    """Takes the leftovers of partition 10 for those of partition 1, too."""

    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        number = str(partition.partition)
        for one in self.leftover_partitions(partition.topic):
            if str(one.partition).startswith(number):
                yield from super().scrub(one)


class StoresElsewhere(SingleObject):
    """Stores what it copies where nobody told it to."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(ObjectStore(f"{store.url}-elsewhere"))


class CutsWholeSegments(KafkaLocal):
    """Cancels copies that are complete."""

    @override
    def cancel_copying(self, partition: TopicIdPartition) -> None:
        files, _ = self._files(partition)
        self.store.delete([e.key for parts in files.values() for e in parts.values()])


class WritesAllTheSame(StorageWrapper):
    """Claims to be read only, and writes."""

    def __init__(self, inner: RemoteStorageManager) -> None:
        super().__init__(inner)
        self.capabilities = inner.capabilities - {Capability.WRITE}

    @classmethod
    def make(cls, store: ObjectStore) -> "WritesAllTheSame":
        """Open what a broker tiered."""
        filled = read_only(store)
        assert isinstance(filled, StorageWrapper)
        return cls(filled.inner)


class PushesTheLogFirst(PushesInItsOwnWay):
    """Stores an open log before its indexes."""

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        content = b"".join(log.pieces())
        self.store.put(self._key(metadata, "log"), content, overwrite=True)
        return super().copy_open_log(metadata, log, indexes)


class NeedsEveryIndex(KafkaLocal):
    """Takes an index that a broker always has for one that is always given."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if not data.indexes[IndexType.LEADER_EPOCH]:
            raise CorruptIndexError("it has no epoch")
        return super().copy_log_segment(metadata, data)


class GivesUp(KafkaLocal):
    """Tries a copy three times, and then goes on without it."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        for _ in range(3):
            with suppress(StorageUnavailableError, PermissionDeniedError):
                return super().copy_log_segment(metadata, data)
        return b""


class CachesWhatItWasGiven(SingleObject):
    """Says that what it was given is what it has stored, its manifest left out."""

    @override
    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        given = {kind: memoryview(index) for kind, index in data.indexes.items()}
        return self.copy_log_segment(metadata, data), SegmentIndexes(given)


BROKEN: Final = (
    Broken(
        rules.check_copied_segment_is_read_back,
        CachesWhatItWasGiven,
        "which a cache keeps, and fetch_all_indexes returns",
    ),
    Broken(
        rules.check_copied_segment_is_read_back,
        FindsIndexesOfListedSegments,
        "With the metadata of the copy, fetch_all_indexes of .* returned none",
    ),
    Broken(rules.check_log_may_be_a_file, TakesNoFiles, "what was copied"),
    Broken(rules.check_log_may_be_a_file, MovesTheLog, "is not what it was"),
    Broken(
        rules.check_copy_believes_the_log,
        KeepsForeignMetadata,
        "It returned b'of another storage', and without them b''",
    ),
    Broken(
        rules.check_copy_believes_the_log,
        BelievesAClaimedSize,
        "was given other claims",
    ),
    Broken(
        rules.check_custom_metadata_is_small,
        ReturnsText,
        r"copy_log_segment returned '.*', not bytes",
    ),
    Broken(
        rules.check_custom_metadata_is_small,
        SaysTooMuch,
        "copy_log_segment returned b'",
    ),
    Broken(
        rules.check_copy_is_idempotent,
        CopiesOnce,
        "AlreadyExistsError",
        bug="not idempotent",
    ),
    Broken(rules.check_copy_without_an_end_is_refused, GuessesTheEnd, "returned b'"),
    Broken(
        rules.check_copy_of_a_missing_file_is_not_found,
        MakesUpMissingLogs,
        "not NotFoundError",
    ),
    Broken(
        rules.check_copy_is_visible_only_whole,
        ListsHalves,
        "copy_log_segment failed at write 2, and then it was listed",
        bug="a half-visible copy",
    ),
    Broken(
        rules.check_leftovers_are_found_and_removed,
        SeesNoLeftovers,
        r"failed at write 2 scrub found \[\], but",
    ),
    Broken(
        rules.check_leftovers_are_found_and_removed,
        SeesEmptyLeftovers,
        r"has 0 bytes, it has \d+",
    ),
    Broken(
        rules.check_leftovers_of_a_new_partition_are_found,
        ScrubsWhatBeginsAlike,
        r"A copy to orders-10 failed at write 2\. Of orders-1, scrub found",
    ),
    Broken(
        rules.check_leftovers_of_a_new_partition_are_found,
        SeesWholePartitions,
        r"leftover_partitions\(None\) has no orders-1-0",
    ),
    Broken(
        rules.check_copied_segment_is_read_back,
        StoresElsewhere,
        "has no more objects than before",
    ),
    Broken(
        rules.check_leftovers_are_found_and_removed,
        CutsWholeSegments,
        "Of whole segments it removed",
    ),
    Broken(rules.check_copy_is_one_write, ClaimsOneWrite, "made 5 writes, not 1"),
    Broken(
        rules.check_read_only_refuses_to_write,
        WritesAllTheSame.make,
        "copy_log_segment returned",
    ),
    Broken(
        rules.check_delete_is_seen_whole,
        ListsHalves,
        "delete_log_segment failed at write 2. .* returned no OFFSET",
    ),
    Broken(
        rules.check_copy_after_a_delete_is_stored,
        RemembersWhatItCopied,
        "delete_log_segment, the copy returned",
    ),
    Broken(
        rules.check_copy_that_returns_is_whole,
        TakesOutagesForLostReplies,
        r"Write 1 of a copy failed \(error\), and it returned",
    ),
    Broken(
        rules.check_copy_that_returns_is_whole,
        WritesManyParts,
        r"Write 121 of a copy failed \(error\), and it returned",
    ),
    Broken(
        rules.check_cancelled_copy_can_be_repeated,
        LeavesALock,
        "copy raised AlreadyExists",
        bug="cancel leaves an orphan that blocks a retry",
    ),
    Broken(
        rules.check_copy_survives_a_cleaner,
        BelievesItsCopyComplete,
        "was copied and is not listed",
    ),
    Broken(
        rules.check_copy_is_visible_only_whole,
        PushesTheLogFirst,
        "copy_open_log failed .* no TRANSACTION",
    ),
    Broken(
        rules.check_copy_without_indexes_is_stored,
        NeedsEveryIndex,
        "KeyError",
    ),
    Broken(
        rules.check_copy_that_returns_is_whole,
        GivesUp,
        "cannot be written, and a copy returned",
    ),
)
