"""The tail of a segment object: its indexes, its manifest, and the trailer.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
One range read of the tail returns everything but the log.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptIndexError,
    CorruptObjectError,
    UnsupportedFormatError,
)
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import crc32c
from tieredfs.model import EpochEntry, IndexType

__all__ = [
    "Chunks",
    "LogPart",
    "Manifest",
    "SegmentFacts",
    "Tail",
    "TailPart",
    "build_tail",
    "parse_manifest",
    "parse_tail",
]

TRAILER_SIZE: Final = 32
VERSION: Final = 1
_MAGIC: Final = b"TIEREDFS"
_POSITION: Final = struct.Struct(">QI")
_REST: Final = struct.Struct(">IHH8s")
_CRC: Final = struct.Struct(">I")


class Chunks(NamedTuple):
    """The chunks of a transformed log.

    Attributes:
        original_size: Bytes of the log in each chunk but the last.
        codec: Codec that compresses each chunk.
        lengths: Stored size of each chunk in bytes, in order.
    """

    original_size: int
    codec: str
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogPart:
    """The stored log of a segment.

    Attributes:
        length: Stored size in bytes.
        original_length: Size of the original log in bytes.
        crc32c: CRC-32C of the stored bytes.
        chunks: The chunks of a transformed log; None when it is stored unchanged.
    """

    length: int
    original_length: int
    crc32c: int
    chunks: Chunks | None = None


class TailPart(NamedTuple):
    """One index in the tail.

    Attributes:
        position: Position of its first byte in the object.
        length: Size in bytes.
        crc32c: CRC-32C of its bytes.
    """

    position: int
    length: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The description of a segment in its manifest.

    Attributes:
        topic: The topic's name.
        topic_id: The topic's id.
        partition: The partition's number.
        id: The segment's id.
        start_offset: First offset.
        end_offset: Last offset, inclusive.
        record_count: Number of records in the log, including control records.
        first_timestamp_ms: Timestamp of the first record; -1 for none.
        max_timestamp_ms: Largest record timestamp; -1 for none.
        broker_id: Id of the broker that copied the segment; -1 for none.
        leader_epochs: Leader epochs with their first offsets.
    """

    topic: str
    topic_id: str
    partition: int
    id: str
    start_offset: int
    end_offset: int
    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    broker_id: int
    leader_epochs: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a segment object.

    Attributes:
        segment: Description of the segment.
        log: Description of the stored log.
        indexes: Location of each index, by the name of its type. A newer writer may
            have types that this release does not know.
    """

    segment: SegmentFacts
    log: LogPart
    indexes: Mapping[str, TailPart]

    def encode(self) -> bytes:
        """Encode the manifest as canonical JSON."""
        facts, chunks = self.segment, self.log.chunks
        members = {
            "version": VERSION,
            "segment": {
                name: getattr(facts, name)
                for name in SegmentFacts.__dataclass_fields__
                if name != "leader_epochs"
            }
            | {"leader_epochs": {str(e): start for e, start in facts.leader_epochs}},
            "log": {
                "length": self.log.length,
                "original_length": self.log.original_length,
                "crc32c": self.log.crc32c,
                "chunks": None if chunks is None else chunks._asdict(),
            },
            "indexes": {
                str(kind): {
                    "position": part.position,
                    "length": part.length,
                    "crc32c": part.crc32c,
                }
                for kind, part in self.indexes.items()
            },
        }
        text = json.dumps(
            members, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return text.encode()

    @classmethod
    def parse(cls, data: Buffer, *, name: str = "manifest") -> "Manifest":
        """Parse a manifest; unknown members are ignored.

        Raises:
            CorruptObjectError: The data is not JSON, or a member is missing or
                invalid.
            UnsupportedFormatError: The version is not 1.
        """
        try:
            members = json.loads(bytes(byte_view(data)))
            if members["version"] != VERSION:
                msg = f"{name}: unsupported version {members['version']!r}"
                raise UnsupportedFormatError(msg)
            segment, log = members["segment"], members["log"]
            epochs = segment["leader_epochs"].items()
            return cls(
                SegmentFacts(
                    **{
                        field: _typed(kind, segment[field])
                        for field, kind in _FACTS.items()
                    },
                    leader_epochs=LeaderEpochs.of(
                        sorted(
                            (int(epoch), _typed(int, start)) for epoch, start in epochs
                        )
                    ).entries,
                ),
                LogPart(
                    _count(log["length"]),
                    _count(log["original_length"]),
                    _count(log["crc32c"]),
                    _chunks(log["chunks"]),
                ),
                {
                    _typed(str, kind): TailPart(
                        *(_count(part[n]) for n in ("position", "length", "crc32c"))
                    )
                    for kind, part in members["indexes"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            msg = f"{name}: invalid manifest: {type(e).__name__}: {e}"
            raise CorruptObjectError(msg) from e


_FACTS: Final[dict[str, type]] = {
    name: str if name in {"topic", "topic_id", "id"} else int
    for name in SegmentFacts.__dataclass_fields__
    if name != "leader_epochs"
}


class Tail(NamedTuple):
    """A parsed tail.

    Attributes:
        manifest: The manifest.
        manifest_bytes: The manifest as stored.
        indexes: The bytes of each index of a known type.
    """

    manifest: Manifest
    manifest_bytes: memoryview
    indexes: Mapping[IndexType, memoryview]


def build_tail(
    segment: SegmentFacts,
    log: LogPart,
    indexes: Mapping[IndexType, Buffer],
    flags: int,
) -> bytes:
    """Build the tail that follows a log.

    Args:
        segment: Description of the segment.
        log: Description of the log that is stored before the tail.
        indexes: The bytes of each index; an empty index is stored as well.
        flags: The flags in the segment's key.
    """
    parts: dict[str, TailPart] = {}
    pieces: list[bytes] = []
    position = log.length
    for kind in IndexType:
        if kind in indexes:
            data = bytes(byte_view(indexes[kind]))
            parts[kind] = TailPart(position, len(data), crc32c(data))
            pieces.append(data)
            position += len(data)
    manifest = Manifest(segment, log, parts).encode()
    size = position - log.length + len(manifest) + TRAILER_SIZE
    lead = _POSITION.pack(position, len(manifest))
    rest = _REST.pack(size, VERSION, flags, _MAGIC)
    crc = crc32c(manifest + lead + rest)
    return b"".join((*pieces, manifest, lead, _CRC.pack(crc), rest))


def parse_manifest(data: Buffer, log_length: int, flags: int, *, name: str) -> Manifest:
    """Parse the manifest in a tail; check it and the trailer, but not the indexes.

    Args:
        data: The tail, from the end of the log to the end of the object.
        log_length: Stored size of the log, as given in the key.
        flags: The flags in the key.
        name: Object name used in error messages.

    Raises:
        CorruptObjectError: The trailer or the manifest is malformed, fails its
            checksum, or contradicts the key.
        UnsupportedFormatError: The version is not 1.
    """
    return _read_manifest(byte_view(data), log_length, flags, name)[0]


def parse_tail(data: Buffer, log_length: int, flags: int, *, name: str) -> Tail:
    """Parse a tail and check every byte of it.

    Args:
        data: The tail, from the end of the log to the end of the object.
        log_length: Stored size of the log, as given in the key.
        flags: The flags in the key.
        name: Object name used in error messages.

    Raises:
        CorruptObjectError: The trailer or the manifest is malformed, fails its
            checksum, or contradicts the key.
        CorruptIndexError: An index fails its checksum or is out of place in the tail.
        UnsupportedFormatError: The version is not 1.
    """
    view = byte_view(data)
    manifest, manifest_bytes, position = _read_manifest(view, log_length, flags, name)
    indexes: dict[IndexType, memoryview] = {}
    expected = 0
    for kind, part in sorted(manifest.indexes.items(), key=lambda item: item[1]):
        start = part.position - log_length
        found = view[start : start + part.length] if start >= 0 else view[:0]
        crc = crc32c(found)
        if start != expected or start + part.length > position or crc != part.crc32c:
            msg = (
                f"{name}: {kind} index at position {part.position} fails its checksum "
                "or is out of place"
            )
            raise CorruptIndexError(msg)
        expected += part.length
        if kind in IndexType.__members__:
            indexes[IndexType(kind)] = found
    if expected != position:
        msg = f"{name}: {position - expected} bytes of the tail belong to no index"
        raise CorruptObjectError(msg)
    return Tail(manifest, manifest_bytes, indexes)


def _read_manifest(
    view: memoryview, log_length: int, flags: int, name: str
) -> tuple[Manifest, memoryview, int]:
    """Return the manifest, its bytes, and their position in the tail."""
    position, length = _check_trailer(view, log_length, flags, name)
    stored = view[position : position + length]
    manifest = Manifest.parse(stored, name=f"{name}: manifest")
    if manifest.log.length != log_length:
        msg = (
            f"{name}: the manifest gives a log of {manifest.log.length} bytes, "
            f"the key {log_length}"
        )
        raise CorruptObjectError(msg)
    return manifest, stored, position


def _check_trailer(
    view: memoryview, log_length: int, flags: int, name: str
) -> tuple[int, int]:
    """Check the trailer; return position and length of the manifest in the tail."""
    if len(view) < TRAILER_SIZE:
        msg = f"{name}: a tail of {len(view)} bytes is too short for a trailer"
        raise CorruptObjectError(msg)
    trailer = view[-TRAILER_SIZE:]
    position, length = _POSITION.unpack_from(trailer)
    (crc,) = _CRC.unpack_from(trailer, _POSITION.size)
    rest = _REST.unpack_from(trailer, _POSITION.size + _CRC.size)
    size, version, stored_flags, magic = rest
    if magic != _MAGIC:
        msg = f"{name}: the object does not end in {_MAGIC.decode()}"
        raise CorruptObjectError(msg)
    start = position - log_length
    if start < 0 or start + length != len(view) - TRAILER_SIZE or size != len(view):
        msg = f"{name}: the trailer contradicts the size of the tail"
        raise CorruptObjectError(msg)
    checked = bytes(view[start : start + length + _POSITION.size])
    checked += bytes(trailer[_POSITION.size + _CRC.size :])
    if crc32c(checked) != crc:
        msg = f"{name}: the manifest fails its checksum"
        raise CorruptObjectError(msg)
    if version != VERSION:
        msg = f"{name}: unsupported version {version}"
        raise UnsupportedFormatError(msg)
    if stored_flags != flags:
        msg = f"{name}: the flags are {stored_flags:04x}, but {flags:04x} in the key"
        raise CorruptObjectError(msg)
    return start, length


def _chunks(member: object) -> Chunks | None:
    if member is None:
        return None
    fields: dict[str, Any] = dict(member) if isinstance(member, dict) else {}
    lengths: Sequence[object] = fields["lengths"]
    return Chunks(
        _count(fields["original_size"]),
        str(_typed(str, fields["codec"])),
        tuple(map(_count, lengths)),
    )


def _typed(kind: type, value: object) -> Any:  # noqa: ANN401 - of the given type
    if not isinstance(value, kind) or isinstance(value, bool):
        msg = f"{value!r} is not {kind.__name__}"
        raise TypeError(msg)
    if isinstance(value, str):
        value.encode()  # JSON can contain a lone surrogate, which has no encoding
    return value


def _count(value: object) -> int:
    number: int = _typed(int, value)
    if number < 0:
        raise ValueError(number)
    return number
