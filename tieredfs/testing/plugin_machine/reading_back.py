"""Whether what is read back is what was copied."""

from collections.abc import Mapping
from dataclasses import replace

from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.plugin_machine.promise import Promise, keep
from tieredfs.testing.requirement import difference, in_words
from tieredfs.testing.samples import Sample

__all__ = ["keep_bytes", "keep_indexes", "keep_whole"]


def keep_whole(
    storage: RemoteStorageManager, listed: SegmentMetadata, one: Sample
) -> None:
    """Require that a segment is read back as it was copied.

    Args:
        storage: What reads.
        listed: The segment as it was listed.
        one: What was copied.
    """
    found = replace(storage.describe(listed), version="", custom_metadata=b"")
    keep(
        Promise.READS_ARE_EXACT,
        found == one.described,
        f"describe of {listed} does not return what was copied: "
        f"{difference(found, one.described)}",
    )
    keep_bytes(f"the log of {listed}", storage.fetch_log_segment(listed), one.log)
    keep_indexes(listed, storage.fetch_all_indexes(listed), one.data.indexes)


def keep_bytes(what: str, found: memoryview, wanted: bytes) -> None:
    """Require that bytes are read back as they were copied."""
    keep(
        Promise.READS_ARE_EXACT,
        found == wanted,
        f"{what} is not what was copied: {len(found)} bytes came, not {len(wanted)}, "
        "or others",
    )


def keep_indexes(
    listed: SegmentMetadata,
    found: Mapping[IndexType, memoryview],
    wanted: Mapping[IndexType, bytes],
) -> None:
    """Require that indexes are read back as they were copied, and no others."""
    keep(
        Promise.READS_ARE_EXACT,
        found.keys() == wanted.keys(),
        f"fetching the indexes of {listed} returned {in_words(found)}, "
        f"not {in_words(wanted)}",
    )
    for kind in wanted:
        keep_bytes(f"{kind} of {listed}", found[kind], wanted[kind])
