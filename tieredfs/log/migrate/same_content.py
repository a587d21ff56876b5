"""Whether a target without ids of its own has the log of the source, or another one."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from tieredfs.errors import AlreadyExistsError
from tieredfs.format.checksum import crc32c
from tieredfs.log.planning.same_log import LogCopy, check_same_log
from tieredfs.log.push.source_log import UNUSABLE
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["Checksum", "check_one_log", "check_same_content"]


class Checksum:
    """The CRC-32C and the number of bytes that have been read."""

    def __init__(self, watch: Callable[[memoryview], object] = lambda _: None) -> None:
        """Begin with no byte.

        Args:
            watch: Called with each piece.
        """
        self._watch = watch
        self.crc = 0
        self.size = 0

    def add(self, piece: memoryview) -> None:
        """Add the next bytes."""
        self.crc = crc32c(piece, self.crc)
        self.size += len(piece)
        self._watch(piece)

    def add_log(self, storage: RemoteStorageManager, segment: SegmentMetadata) -> None:
        """Read a whole log, and add it."""
        for piece in storage.stream_log(segment):
            self.add(piece)

    def __str__(self) -> str:
        """Describe it in an error message."""
        return f"{self.size} bytes with the CRC-32C {self.crc:08x}"


def check_one_log(
    source: RemoteStorageManager,
    segments: Sequence[SegmentMetadata],
    target: RemoteStorageManager,
    stored: Collection[SegmentMetadata],
) -> None:
    """Check that the logs of a partition in the source and the target are the same one.

    They are compared where they share offsets, at the end of these, until records of
    one leader epoch are found: in most cases the first comparison decides.

    Args:
        source: The source.
        segments: The partition's segments in the source, sorted by start offset.
        target: The target, which does not keep the topic id.
        stored: The partition's segments in the target, as listed.

    Raises:
        AlreadyExistsError: The target has another log of this name.
        StorageUnavailableError: A store failed in all attempts of its policy.
    """
    ends = (one.start_offset if (e := one.end_offset) is None else e for one in stored)
    reach = max(ends, default=-1)
    shared = [one for one in segments if one.start_offset <= reach]
    for listed in reversed(shared):
        with suppress(*UNUSABLE):  # reported when it is copied
            copy = LogCopy.stored(source, source.describe(listed))
            if check_same_log(copy, source.name_of(listed), target, stored):
                return


def check_same_content(
    source: RemoteStorageManager,
    segment: SegmentMetadata,
    target: RemoteStorageManager,
    stored: SegmentMetadata,
    watch: Callable[[memoryview], object],
) -> None:
    """Check that a stored log has the bytes of a segment of the source.

    The log in the source is read, and the stored one where its checksum is not listed.

    Args:
        source: The source.
        segment: The segment.
        target: The target.
        stored: The segment with the same offsets in the target, as listed.
        watch: Called with each piece that is read from the source.

    Raises:
        AlreadyExistsError: It is another log.
        CorruptDataError: A log is corrupt.
        NotFoundError: A segment is gone.
    """
    there = Checksum()
    crc = target.log_checksum(stored)
    if crc is None or stored.size is None:
        there.add_log(target, stored)
    else:
        there.crc, there.size = crc, stored.size
    here = Checksum(watch)
    here.add_log(source, source.describe(segment) if segment.size is None else segment)
    if str(here) != str(there):
        raise AlreadyExistsError(
            f"already exists: {target.name_of(stored)} is another log than "
            f"{source.name_of(segment)}: it has {there}, and that {here}; "
            "a topic that was recreated needs its own URL"
        )
