"""A storage that cannot be written to."""

from collections.abc import Mapping
from typing import NoReturn

from tieredfs.errors import UnsupportedOperationError
from tieredfs.model import IndexType, LogSegmentData, SegmentMetadata, TopicIdPartition
from tieredfs.storage.contract import Capability, RemoteStorageManager
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.wrapper import StorageWrapper

__all__ = ["ReadOnlyStorage"]

_OF_WRITERS = frozenset({Capability.WRITE, Capability.ATOMIC_COPY})


class ReadOnlyStorage(StorageWrapper):
    """Refuse to copy and to delete; no write reaches the wrapped storage.

    Its capabilities are those of the other without `WRITE`.
    """

    def __init__(self, inner: RemoteStorageManager) -> None:
        """Wrap ``inner``."""
        super().__init__(inner)
        self.capabilities = inner.capabilities - _OF_WRITERS

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Refuse to copy a segment."""
        del data
        self._refuse(f"copy {metadata}")

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Refuse to copy a segment."""
        del log, indexes
        self._refuse(f"copy {metadata}")

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Refuse to replace a segment."""
        del log, indexes
        self._refuse(f"replace {metadata}")

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Refuse to append a segment."""
        del data
        self._refuse(f"append {metadata}")

    def cancel_copying(self, partition: TopicIdPartition) -> None:
        """Refuse to remove what copies left."""
        self._refuse(f"remove incomplete copies of {partition}")

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Refuse to delete a segment."""
        self._refuse(f"delete {metadata}")

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Refuse to delete a partition."""
        self._refuse(f"delete {partition}")

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{self!r} is opened read only: it cannot {what}"
        raise UnsupportedOperationError(msg)
