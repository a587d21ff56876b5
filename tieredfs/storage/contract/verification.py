"""What verification asks of a storage: how far a listing can be trusted.

The reader asks some of it too, before it returns an offset that only a listing states.
Each default is right for a layout that stores closed segments under names that are
never reused.
"""

from collections.abc import Iterator

from tieredfs.errors import NotFoundError, TieredFSError
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition
from tieredfs.storage.contract.author import StorageLayout
from tieredfs.storage.contract.leftover import Leftover

__all__ = ["StorageVerification"]


class StorageVerification(StorageLayout):
    """Answer what verification asks about the segments of a layout."""

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or the error that a reader of it would get.

        Implementers: the default stops at the first error. Where a name states the
        offsets of a segment that cannot be read, they are the error's ``offsets``.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            NotFoundError: There is no such partition.
        """
        yield from self.list_segments(partition)

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield what incomplete copies to a partition have left.

        A copy in progress looks the same. Readers skip all of it, so it costs only
        space. Whole segments that cannot be read are reported by ``survey``.

        Implementers: the default, nothing, is right where a copy is one put.

        Args:
            partition: Whose copies; it need not have a segment.
        """
        del partition
        yield from ()

    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return every partition of which ``scrub`` may yield something.

        They include partitions that have no segment yet, to which only a copy has begun
        that did not end.

        Implementers: the default, ``list_partitions``, is right where that lists a
        partition as soon as it has any object. A layout that stages objects elsewhere
        adds their partitions.

        Args:
            topic: Its name; None for all topics.

        Returns:
            The partitions, sorted.
        """
        return self.list_partitions(topic)

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Return whether a broker may still be writing a segment.

        It sends no request.

        Implementers: the default is right where only closed segments are stored.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return False

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether a segment is still the one that was listed.

        Implementers: the default is right where names are never reused.

        Args:
            metadata: As it was listed.
            last_offset: The last offset in its log, if the log has been read. If that
                is not the segment's end offset, the end offset is checked as well.
        """
        del metadata, last_offset
        return True

    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        """Return whether a layout's data can be those of a segment as it is listed.

        It sends no request. It is asked before data that were cached are used, which
        may be those of a copy that another process has replaced since.

        Implementers: the default is right where names are never reused, or where no
        layout's data are returned with the indexes.

        Args:
            metadata: As it was listed.
            layout: The ``layout`` that ``fetch_indexes`` returned some time ago.
        """
        del metadata, layout
        return True

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Return whether a cleaner may have removed batches of a partition.

        It is called when a segment's log ends before its end offset, which is an error
        unless this returns True.

        Implementers: the default, False, is right where only segments that Kafka would
        tier are stored. A layout that can be written to is given others too: it returns
        True, or refuses to copy a compacted log.

        Args:
            partition: As ``list_partitions`` gave it.
        """
        del partition
        return False

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment's end offset has been verified.

        It sends no request. If the end offset is not verified, the end of the log is
        read before an end offset that no other segment confirms is returned: that of
        the partition, and those of segments that overlap.

        Implementers: the default is right where the end is part of a key, or where
        ``describe`` has seen it in the log. Return False where only a manifest states
        it.

        Args:
            metadata: As ``describe`` returned it.
        """
        del metadata
        return True

    def note_checked_end(self, metadata: SegmentMetadata) -> None:
        """Take note that the end of a segment's log was read, and is its end offset.

        Implementers: the default does nothing. A cache keeps it, so that
        ``is_end_checked`` returns True in other processes as well.

        Args:
            metadata: As ``describe`` returned it.
        """
        del metadata

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, if it is listed.

        It sends no request. Where the segments of a partition have different epochs, a
        segment may belong to a history that a leader election has ended: then the
        segments are described before they are read.

        Implementers: the default, None, is right where a key does not contain it.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return None

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether the listing shows that a segment has no aborted transaction.

        It sends no request. False means that it is not known, or that there is one: a
        read of committed records then fetches the transaction index.

        Implementers: the default looks at the sizes of the indexes, where the listing
        contains them.

        Args:
            metadata: As it was listed, or described.
        """
        sizes = metadata.index_sizes
        return sizes is not None and not sizes.get(IndexType.TRANSACTION)

    @property
    def keeps_topic_ids(self) -> bool:
        """Whether topics of one name are distinguished by their ids.

        Implementers: the default, True, is right where ``list_partitions`` returns the
        topic id with which a segment was copied. Where it is False, segments of a topic
        and of one that was recreated under its name would become one log, so a copy is
        compared with what is stored.
        """
        return True

    def log_checksum(self, metadata: SegmentMetadata) -> int | None:
        """Return the CRC-32C of a segment's log, if it is listed.

        It sends no request. By it a segment is recognised where segments have no ids of
        their own.

        Implementers: the default, None, is right where a listing does not contain it:
        then the log is read.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return None

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare what a segment's key states beyond its metadata with its log.

        Implementers: the default is right where the metadata have all that a key
        states.

        Args:
            metadata: As it was listed.
            epoch: Highest leader epoch of the batches in the log; -1 for none.

        Raises:
            CorruptObjectError: The key contradicts the log.
        """
        del metadata, epoch

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the producer snapshot that was taken where a segment begins.

        Implementers: the default is right where a segment is stored only with the
        snapshot taken at its end.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            NotFoundError: There is no such snapshot.
        """
        msg = f"not found: a producer snapshot at the start of {self.name_of(metadata)}"
        raise NotFoundError(msg)
