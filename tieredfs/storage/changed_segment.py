"""The error for a segment that its broker has changed since it was listed."""

from tieredfs.errors import StorageUnavailableError
from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager

__all__ = ["changed_error"]


def changed_error(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> StorageUnavailableError:
    """Return the error for a segment whose end may have changed since it was listed."""
    return StorageUnavailableError(
        f"{storage.name_of(segment)}: the broker is replacing this segment or the next "
        "one: read again"
    )
