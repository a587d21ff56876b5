"""Read a copy back, and find out what is wrong with it before it is deleted."""

from collections.abc import Callable, Iterable

from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["wrong_copy"]


def wrong_copy(
    target: RemoteStorageManager,
    copied: SegmentMetadata,
    compare: Callable[[Iterable[memoryview]], str | None],
) -> str | None:
    """Return what is wrong with a copy; None if it is what was stored.

    A copy that is wrong is read a second time. Another migration to the same place may
    be copying the segment too, and replace this copy while it is read: then parts of
    two copies do not fit, and what would be deleted is the other one, which is whole.

    Args:
        target: Where the copy is.
        copied: The copy.
        compare: Reads its log, and returns how it differs; None if it does not.
    """
    detail: str | None = None
    for _ in range(2):
        try:
            detail = compare(target.stream_log(copied))
        except (CorruptDataError, NotFoundError) as error:
            detail = str(error)
        if detail is None:
            return None
    return detail
