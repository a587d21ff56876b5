"""Segments whose indexes follow from their ids, and a storage that counts the asking.

Any process knows what the indexes of a segment have to be, so that one wrong byte is
seen, and counts in a file that all of them share.
"""

from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tieredfs import (
    IndexType,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.cache import RemoteIndexCache
from tieredfs.testing.cache_machine.damage import entry_files as files_in
from tieredfs.testing.cache_machine.samples import (
    BASE,
    PARTITION,
    Clock,
    content_of,
    made_segment,
)

__all__ = [
    "BASE",
    "PARTITION",
    "Clock",
    "Made",
    "bytes_of",
    "content_of",
    "entry_size",
    "files_in",
    "get_together",
    "made_segment",
    "open_cache",
]

_STORE = "memory://index-cache-tests"


def bytes_of(found: Mapping[IndexType, memoryview]) -> dict[IndexType, bytes]:
    """Copy what was found, to compare it."""
    return {kind: bytes(data) for kind, data in found.items()}


class Made(RemoteStorageManager):
    """A storage of made segments.

    Attributes:
        asked: A file that gets a line for each fetch of all indexes of a segment.
        entries: How many each index has.
        layout: What it wants to see again.
        damage: Indexes that are served in place of the true ones; None for one that is
            not there.
        before: Called before each fetch.
        seen_layouts: What came back with each fetch of a log.
    """

    def __init__(self, asked: Path, url: str = _STORE, entries: int = 20) -> None:
        """Count in a file; the store is never asked."""
        super().__init__(ObjectStore(url, policy=RequestPolicy(deadline=30)))
        self.asked = asked
        self.entries = entries
        self.layout = b""
        self.damage: dict[IndexType, bytes | None] = {}
        self.before: Callable[[], object] = int
        self.seen_layouts: list[bytes] = []

    @property
    def fetches(self) -> int:
        """How often all indexes of a segment were asked for, by all processes."""
        return self.asked.stat().st_size if self.asked.exists() else 0

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return what was made, or the damage."""
        with self.asked.open("ab", buffering=0) as file:
            file.write(b".")
        self.before()
        true: Mapping[IndexType, bytes | None] = content_of(metadata, self.entries)
        found = {**true, **self.damage}
        return SegmentIndexes(
            {k: memoryview(data) for k, data in found.items() if data is not None},
            self.layout,
        )

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one of them."""
        try:
            return self.fetch_all_indexes(metadata)[index_type]
        except KeyError:
            msg = f"not found: {index_type}"
            raise NotFoundError(msg) from None

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return nothing, and note the layout."""
        del metadata, start, end
        self.seen_layouts.append(layout)
        return memoryview(b"")

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the one there is."""
        return [PARTITION] if topic in {None, PARTITION.topic} else []

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return a few."""
        del partition, min_offset
        return [made_segment(number) for number in range(3)]

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Do as if."""

    def __reduce__(self) -> tuple[object, ...]:
        """Take along where to count."""
        return partial(type(self), self.asked, self.store.url, self.entries), ()


def open_cache(
    tmp_path: Path, *, max_bytes: int = 1 << 30, **options: float | Clock | None
) -> tuple[Made, RemoteIndexCache]:
    """Open a cache in a folder of a test, and the storage that it asks."""
    made = Made(tmp_path / "asked")
    cache = RemoteIndexCache(
        made,
        tmp_path / "cache",
        max_bytes=max_bytes,
        **options,  # type: ignore[arg-type] # ttl and clock, as their names say
    )
    return made, cache


def entry_size() -> int:
    """Return the bytes that the entry of a made segment takes."""
    # The head, a table of five sections, a checksum, all up to a multiple of eight.
    sizes = [len(data) for data in content_of(made_segment(0)).values()]
    return 184 + sum(-(-size // 8) * 8 for size in sizes)


def get_together(tmp_path: Path, start: Barrier, count: int) -> None:
    """Get segments at the same time as other processes, and compare every byte."""
    _, cache = open_cache(tmp_path)
    for number in range(count):
        segment = made_segment(number)
        start.wait(60)
        assert bytes_of(cache.get(segment).indexes) == content_of(segment)
