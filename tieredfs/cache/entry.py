"""An entry of the cache: its names, and the indexes of a segment ready for lookups.

An entry has a key in the memory of a process and, among the entries of all stores, a
file name on disk.
"""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeVar

from cachetools import LRUCache

from tieredfs.cache.description import SegmentDescription
from tieredfs.errors import NotFoundError
from tieredfs.format.buffers import Int64Array
from tieredfs.format.index.offset import OffsetIndex, OffsetPosition
from tieredfs.format.index.parse import parse_index
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import CollectedAborts, TransactionIndex
from tieredfs.model import IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = [
    "CachedIndexes",
    "EntryKey",
    "EntryName",
    "check_indexes",
    "entry_name",
    "key_of",
]

EntryKey = tuple[str, str, int, str, int, str, str]


class EntryName(NamedTuple):
    """The unique name of an entry among the entries of all stores.

    Attributes:
        name: Name of its file, 32 hexadecimal digits.
        identity: The identity in the file's header, 32 bytes.
    """

    name: str
    identity: bytes


def key_of(metadata: SegmentMetadata) -> EntryKey:
    """Return the key of a segment within its store.

    The key is a tuple of plain values, because hashing a dataclass takes as long as a
    whole lookup. It includes the plugin's custom metadata: two objects may have one id
    and different ends.
    """
    partition = metadata.partition
    return (
        partition.topic,
        partition.topic_id,
        partition.partition,
        metadata.id,
        metadata.start_offset,
        metadata.version,
        metadata.custom_metadata.decode("latin-1"),
    )


def entry_name(identity: str, metadata: SegmentMetadata) -> EntryName:
    """Return the name of a segment's entry.

    Args:
        identity: Identity of the storage: ``RemoteStorageManager.identity``.
        metadata: Metadata of the segment.
    """
    text = "\0".join((identity, *map(str, key_of(metadata))))
    # A listing may contain invalid text, such as a version with a lone surrogate.
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return EntryName(digest[:16].hex(), digest)


def _size(index: OffsetIndex | TimeIndex | TransactionIndex) -> int:
    """Estimate the memory of a parsed index in bytes."""
    if isinstance(index, TransactionIndex):
        return 256 * (1 + len(index.entries))
    return 16 * (1 + len(index))


_MAX_PARSED_BYTES: Final = 64 << 20
"""Memory of the indexes that a process holds parsed: those of about eight segments of
1 GiB."""

_Index = TypeVar("_Index", OffsetIndex, TimeIndex, TransactionIndex)

_lock = make_lock()
_recently_parsed: LRUCache[tuple[object, IndexType], Any] = LRUCache(
    _MAX_PARSED_BYTES, getsizeof=_size
)


class CachedIndexes:
    """The indexes of one segment, mapped from a file of the cache.

    They stay readable as long as this object exists, whatever happens to the cache, the
    file or the segment. A lookup parses its index, unless it is among those that were
    parsed last.

    Attributes:
        indexes: The bytes of each index, read-only, and the layout's data.
        description: What the segment's listing does not contain; None if it was not
            asked for.
    """

    def __init__(
        self,
        indexes: SegmentIndexes,
        base_offset: int,
        description: SegmentDescription | None = None,
    ) -> None:
        """Wrap indexes that ``check_indexes`` accepts."""
        self.indexes = indexes
        self.description = description
        self._base_offset = base_offset
        self._token = object()

    def describe(self, listed: SegmentMetadata) -> SegmentMetadata | None:
        """Return the segment with every field known; None if the entry cannot tell.

        Args:
            listed: The segment, as it is listed now: a description that contradicts it
                is not used.
        """
        return self.description.describe(listed) if self.description else None

    def lookup_offset(self, offset: int) -> OffsetPosition:
        """Return the last index entry at or below ``offset``.

        A read of the log from its position finds the batch that contains ``offset``.
        Below the first entry, the result is the start of the segment.
        """
        return self._offsets.lookup(offset)

    def lookup_offsets(self, offsets: Int64Array) -> Int64Array:
        """Return the positions of many offsets; both arrays are int64."""
        return self._offsets.lookup_positions(offsets)

    def lookup_timestamp(self, timestamp: int, start_offset: int = 0) -> OffsetPosition:
        """Return where to start the search for the first record at or after a time.

        Args:
            timestamp: Milliseconds since 1970 UTC.
            start_offset: Records below this offset are ignored.
        """
        floor = self._times.lookup(timestamp).offset
        return self._offsets.lookup(max(start_offset, floor))

    def aborted_transactions(self, start: int, end: int) -> CollectedAborts:
        """Collect the aborted transactions that touch the offsets ``[start, end)``."""
        return self._aborts.collect(start, end)

    @property
    def _offsets(self) -> OffsetIndex:
        return self._parsed(IndexType.OFFSET, OffsetIndex.parse)

    @property
    def _times(self) -> TimeIndex:
        return self._parsed(IndexType.TIMESTAMP, TimeIndex.parse)

    @property
    def _aborts(self) -> TransactionIndex:
        return self._parsed(IndexType.TRANSACTION, TransactionIndex.parse)

    def _parsed(
        self, kind: IndexType, parse: Callable[[memoryview, int], _Index]
    ) -> _Index:
        key = self._token, kind
        with _lock:
            known: _Index | None = _recently_parsed.get(key)
        if known is not None:
            return known
        data = self.indexes.get(kind, memoryview(b""))
        index = parse(data, self._base_offset)
        with _lock, suppress(ValueError):  # larger than all that is held
            _recently_parsed[key] = index
        return index

    def index(self, index_type: IndexType, name: str) -> memoryview:
        """Return the bytes of one index.

        Raises:
            NotFoundError: The segment ``name`` has no index of this type.
        """
        try:
            return self.indexes[index_type]
        except KeyError:
            msg = f"not found: {name}: {index_type} index"
            raise NotFoundError(msg) from None


def check_indexes(indexes: SegmentIndexes, segment: SegmentMetadata, name: str) -> None:
    """Check that every index is one that Kafka can have written for a segment.

    Args:
        indexes: The indexes returned by the storage.
        segment: Metadata of their segment.
        name: Segment name used in error messages.

    Raises:
        CorruptIndexError: One is malformed, or points outside the segment.
        UnsupportedFormatError: One is of a newer version.
    """
    base, end, size = segment.start_offset, segment.end_offset, segment.size
    for kind, data in indexes.indexes.items():
        parse_index(kind, data, base, end, size, name)
