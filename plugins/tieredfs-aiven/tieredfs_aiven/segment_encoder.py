"""The three objects of a segment, as the plugin would write them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import urandom
from typing import Final

from tieredfs import (
    ByteRange,
    IndexType,
    InvalidArgumentError,
    SegmentMetadata,
    UnsupportedOperationError,
    parse_leader_epochs,
)
from tieredfs.storage import (
    Inspection,
    LogContent,
    LogSource,
    inspect_copy,
    is_put_in_place,
    open_spool,
)
from tieredfs_aiven.chunk_index import ChunkIndex
from tieredfs_aiven.chunk_sizes import MAX_SIZES
from tieredfs_aiven.chunk_writer import ChunkWriter
from tieredfs_aiven.compression import pack
from tieredfs_aiven.encryption import (
    OVERHEAD,
    DataKey,
    KeyRing,
    RandomBytes,
    WrappedKey,
)
from tieredfs_aiven.fields import MAX_INT32
from tieredfs_aiven.manifest import INDEX_FIELDS, Manifest, SegmentFacts
from tieredfs_aiven.manifest_format import BrokerFacts, epochs_within, format_manifest

__all__ = ["DEFAULT_CHUNK_SIZE", "MAX_CHUNK_SIZE", "EncodedSegment", "SegmentEncoder"]

DEFAULT_CHUNK_SIZE: Final = 4 << 20
"""The chunk size that the plugin's documentation recommends; it has no default."""

MAX_CHUNK_SIZE: Final = (1 << 30) - 1
"""The largest chunk size that the plugin accepts."""

_FRAME: Final = 32
"""More than zstd adds to a chunk of which it compresses nothing, however small."""

_TIME_ENTRY: Final = 12
_TIME: Final = 8
_NO_TIME: Final = -1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """A segment as it is to be stored.

    Attributes:
        layout: How it is stored.
        log: Content of the log's object.
        indexes: Content of the indexes' object.
        manifest: Content of the manifest's object.
        plain_log: The log, as it was given.
        plain_indexes: Each index that the segment has, as Kafka writes it.
    """

    layout: Manifest
    log: bytes | LogContent
    indexes: bytes
    manifest: bytes
    plain_log: LogSource
    plain_indexes: Mapping[IndexType, bytes]


@dataclass(frozen=True, slots=True)
class SegmentEncoder:
    """Encode segments as the plugin does with the same settings.

    Attributes:
        keys: The keys that wrap data keys.
        chunk_size: Bytes of the log in each chunk but the last.
        is_compressed: Whether chunks are compressed with zstd.
        key_id: Id of the key that wraps new data keys; None to encrypt nothing.
        random_bytes: Gives keys and what else encryption takes; never the same twice.
        now_ms: Returns the time, which a manifest states.
    """

    keys: KeyRing
    chunk_size: int = DEFAULT_CHUNK_SIZE
    is_compressed: bool = False
    key_id: str | None = None
    random_bytes: RandomBytes = urandom
    now_ms: Callable[[], int] = _now_ms

    @contextmanager
    def encode(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> Iterator[EncodedSegment]:
        """Yield a segment as it is to be stored, valid until the block ends.

        A large log that is stored unchanged is read from its place. Of any other only a
        chunk is in memory, besides what the spool keeps there.

        Args:
            metadata: The segment's partition, id, first and last offset.
            log: Its log.
            indexes: The bytes of each index that exists. One that Kafka always has and
                that is missing is rebuilt from the log.

        Raises:
            InvalidArgumentError: ``metadata`` has no end offset.
            CorruptBatchError: A batch is malformed or outside the segment.
            CorruptIndexError: An index is malformed or inconsistent with the log, or
                the log has an aborted transaction and the transaction index is missing.
            UnsupportedOperationError: The log is compacted, or too large for the
                plugin's reader.
            StorageFullError: This machine has no room for a transformed log.
        """
        if metadata.end_offset is None:
            raise InvalidArgumentError(f"{metadata}: the segment has no end offset")
        event_ms = self.now_ms()
        measured = replace(metadata, size=log.size)
        self._check_size(measured, log.size)
        data_key, wrapped_key = self._new_key()
        with self._encode_log(measured, log, indexes, data_key) as encoded:
            inspection, chunks, content = encoded
            _check_storable(measured, inspection, chunks)
            always = dict(inspection.rebuilt)
            always.pop(IndexType.TRANSACTION, None)
            plain = {**always, **indexes}
            stored, places = self._encode_indexes(plain, data_key)
            facts = _facts(measured, plain, inspection, event_ms)
            layout = Manifest(
                chunks, places, self.is_compressed, wrapped_key, facts.segment
            )
            manifest = format_manifest(layout, facts)
            yield EncodedSegment(layout, content, stored, manifest, log, plain)

    def _new_key(self) -> tuple[DataKey | None, WrappedKey | None]:
        if self.key_id is None:
            return None, None
        return self.keys.new_data_key(self.key_id, self.random_bytes)

    @contextmanager
    def _encode_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
        data_key: DataKey | None,
    ) -> Iterator[tuple[Inspection, ChunkIndex, bytes | LogContent]]:
        """Inspect a log, and yield its chunks and the content of its object."""
        overhead = 0 if data_key is None else OVERHEAD
        chunks = ChunkIndex.fixed(self.chunk_size, log.size, overhead)
        is_plain = data_key is None and not self.is_compressed
        if is_plain and is_put_in_place(log):
            inspection = inspect_copy(log, lambda _: None, metadata, indexes)
            yield inspection, chunks, LogContent(log)
            return
        added = chunks.count * (overhead + (_FRAME if self.is_compressed else 0))
        with open_spool(log.size + added) as spool:
            if is_plain:
                inspection = inspect_copy(log, spool.file.write, metadata, indexes)
                yield inspection, chunks, spool.content()
                return
            writer = ChunkWriter(
                self.chunk_size,
                lambda chunk: self._transform(chunk, data_key),
                spool.file.write,
            )
            inspection = inspect_copy(log, writer.add, metadata, indexes)
            sizes = writer.finish()
            if self.is_compressed:
                chunks = ChunkIndex.variable(self.chunk_size, log.size, sizes)
            yield inspection, chunks, spool.content()

    def _transform(self, chunk: bytes, data_key: DataKey | None) -> bytes:
        """Compress a chunk, and then encrypt it."""
        stored = pack(chunk) if self.is_compressed else chunk
        if data_key is None:
            return stored
        return data_key.encrypt(stored, self.random_bytes)

    def _encode_indexes(
        self, plain: Mapping[IndexType, bytes], data_key: DataKey | None
    ) -> tuple[bytes, dict[IndexType, ByteRange]]:
        """Return the content of the indexes' object, and the position of each.

        An index is encrypted as a whole, and one without bytes stays as it is.
        """
        stored: list[bytes] = []
        places: dict[IndexType, ByteRange] = {}
        end = 0
        for kind in INDEX_FIELDS:
            if kind not in plain:
                continue
            data = bytes(plain[kind])
            if data and data_key is not None:
                data = data_key.encrypt(data, self.random_bytes)
            places[kind] = ByteRange(end, end + len(data))
            end += len(data)
            stored.append(data)
        return b"".join(stored), places

    def _check_size(self, metadata: SegmentMetadata, size: int) -> None:
        """Check that the plugin's reader can address a log and its chunks.

        It computes positions, and the end of the last chunk if that were whole, in 31
        bits, and rejects a longer list of sizes.

        Raises:
            UnsupportedOperationError: It cannot.
        """
        count = -(-size // self.chunk_size)
        reached = size if count < 2 else count * self.chunk_size  # noqa: PLR2004 - it is not computed for one
        overhead = 0 if self.key_id is None else OVERHEAD
        is_listed = not self.is_compressed or count <= MAX_SIZES
        if max(reached, size + count * overhead) > MAX_INT32 or not is_listed:
            raise _too_large(metadata, size, self.chunk_size)


def _check_storable(
    metadata: SegmentMetadata, inspection: Inspection, chunks: ChunkIndex
) -> None:
    """Check what is known only when a log was read.

    Raises:
        UnsupportedOperationError: The log is compacted, or its chunks are too large for
            the plugin's reader.
    """
    if inspection.is_compacted:
        raise UnsupportedOperationError(
            f"{metadata}: its log is compacted, and aiven stores only logs without "
            "holes, as a broker tiers them"
        )
    if chunks.total_stored_size > MAX_INT32:
        raise _too_large(metadata, chunks.size, chunks.chunk_size)


def _too_large(
    metadata: SegmentMetadata, size: int, chunk_size: int
) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{metadata}: Aiven's plugin could not read its log of {size} bytes in chunks "
        f"of {chunk_size}: it addresses less than 2 GiB"
    )


def _facts(
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, bytes],
    inspection: Inspection,
    event_ms: int,
) -> BrokerFacts:
    """Return what a broker would state of a segment.

    The largest timestamp is the one that ends the time index, as a broker takes it,
    which begins with -1: no manifest of the plugin has less.
    """
    start, end = metadata.start_offset, metadata.end_offset or 0
    times = bytes(indexes[IndexType.TIMESTAMP])[-_TIME_ENTRY:]
    latest = inspection.facts.max_timestamp_ms
    if times:
        latest = int.from_bytes(times[:_TIME], "big", signed=True)
    epochs = parse_leader_epochs(indexes[IndexType.LEADER_EPOCH])
    stated = max(latest, _NO_TIME)
    return BrokerFacts(
        SegmentFacts(metadata.partition, metadata.id, start, end, stated),
        event_ms,
        epochs_within(epochs.entries, start, end),
        not indexes.get(IndexType.TRANSACTION),
    )
