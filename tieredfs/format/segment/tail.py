"""The tail of a segment object: its indexes, its manifest, and the trailer.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
One range read of the tail gives everything but the log.
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
    """How a transformed log is stored.

    Attributes:
        original_size: Bytes of the log in each chunk but the last.
        codec: How each is compressed.
        lengths: Stored bytes of each, in order.
    """

    original_size: int
    codec: str
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogPart:
    """The log of a segment as it is stored.

    Attributes:
        length: Stored bytes.
        original_length: Bytes of the log.
        crc32c: Of the stored bytes.
        chunks: None when it is stored as it was.
    """

    length: int
    original_length: int
    crc32c: int
    chunks: Chunks | None = None


class TailPart(NamedTuple):
    """One index in the tail.

    Attributes:
        position: Of its first byte in the object.
        length: Bytes.
        crc32c: Of its bytes.
    """

    position: int
    length: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What the manifest says of a segment.

    Attributes:
        topic: The topic's name.
        topic_id: The topic's id.
        partition: The partition's number.
        id: The segment's id.
        start_offset: First offset.
        end_offset: Last offset, inclusive.
        record_count: Records in the log, control records among them.
        first_timestamp_ms: Of the first record; -1 for none.
        max_timestamp_ms: Largest; -1 for none.
        broker_id: Of the broker that copied it; -1 for none.
        leader_epochs: Its epochs with their first offsets.
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
        segment: What it says of the segment.
        log: What it says of the log.
        indexes: Where each index is, by the name of its type; a newer writer may have
            types that this release does not know.
    """

    segment: SegmentFacts
    log: LogPart
    indexes: Mapping[str, TailPart]

    def encode(self) -> bytes:
        """Write it as canonical JSON."""
        facts, chunks = self.segment, self.log.chunks
        told = {
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
            told, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return text.encode()

    @classmethod
    def parse(cls, data: Buffer, *, name: str = "manifest") -> "Manifest":
        """Parse a manifest; members it does not know are ignored.

        Raises:
            CorruptObjectError: It is not JSON, or a member is missing or is not what
                it has to be.
            UnsupportedFormatError: A version other than 1.
        """
        try:
            told = json.loads(bytes(byte_view(data)))
            if told["version"] != VERSION:
                msg = f"{name}: version {told['version']!r}"
                raise UnsupportedFormatError(msg)
            segment, log = told["segment"], told["log"]
            epochs = segment["leader_epochs"].items()
            return cls(
                SegmentFacts(
                    **{
                        field: _of(kind, segment[field])
                        for field, kind in _FACTS.items()
                    },
                    leader_epochs=LeaderEpochs.of(
                        sorted((int(epoch), _of(int, start)) for epoch, start in epochs)
                    ).entries,
                ),
                LogPart(
                    _count(log["length"]),
                    _count(log["original_length"]),
                    _count(log["crc32c"]),
                    _chunks(log["chunks"]),
                ),
                {
                    _of(str, kind): TailPart(
                        *(_count(part[n]) for n in ("position", "length", "crc32c"))
                    )
                    for kind, part in told["indexes"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            msg = f"{name}: not a manifest: {type(e).__name__}: {e}"
            raise CorruptObjectError(msg) from e


_FACTS: Final[dict[str, type]] = {
    name: str if name in {"topic", "topic_id", "id"} else int
    for name in SegmentFacts.__dataclass_fields__
    if name != "leader_epochs"
}


class Tail(NamedTuple):
    """A tail, taken apart.

    Attributes:
        manifest: The manifest.
        manifest_bytes: As they are stored.
        indexes: The bytes of each index there is.
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
    """Write the tail that follows a log.

    Args:
        segment: What is known of the segment.
        log: The log as it is stored before the tail.
        indexes: The bytes of each index there is; one that is empty comes back so.
        flags: As in the key.
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
    """Read the manifest in a tail, and check it and the trailer; no index is looked at.

    Args:
        data: The tail, from the end of the log to the end of the object.
        log_length: Stored bytes of the log, as the key says.
        flags: As the key says.
        name: How to call the object in an error.

    Raises:
        CorruptObjectError: The trailer or the manifest is malformed, fails its
            checksum, or says other than the key.
        UnsupportedFormatError: A version other than 1.
    """
    return _read_manifest(byte_view(data), log_length, flags, name)[0]


def parse_tail(data: Buffer, log_length: int, flags: int, *, name: str) -> Tail:
    """Take a tail apart and check every byte of it.

    Args:
        data: The tail, from the end of the log to the end of the object.
        log_length: Stored bytes of the log, as the key says.
        flags: As the key says.
        name: How to call the object in an error.

    Raises:
        CorruptObjectError: The trailer or the manifest is malformed, fails its
            checksum, or says other than the key.
        CorruptIndexError: An index fails its checksum or lies outside the tail.
        UnsupportedFormatError: A version other than 1.
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
            msg = f"{name}: {kind} index at {part.position} is not as it was written"
            raise CorruptIndexError(msg)
        expected += part.length
        if kind in IndexType.__members__:
            indexes[IndexType(kind)] = found
    if expected != position:
        msg = f"{name}: {position - expected} bytes of the tail belong to nothing"
        raise CorruptObjectError(msg)
    return Tail(manifest, manifest_bytes, indexes)


def _read_manifest(
    view: memoryview, log_length: int, flags: int, name: str
) -> tuple[Manifest, memoryview, int]:
    """Return the manifest, its bytes, and where in the tail they begin."""
    position, length = _check_trailer(view, log_length, flags, name)
    stored = view[position : position + length]
    manifest = Manifest.parse(stored, name=f"{name}: manifest")
    if manifest.log.length != log_length:
        msg = f"{name}: the manifest has a log of {manifest.log.length} bytes"
        raise CorruptObjectError(msg)
    return manifest, stored, position


def _check_trailer(
    view: memoryview, log_length: int, flags: int, name: str
) -> tuple[int, int]:
    """Return position and length of the manifest in the tail."""
    if len(view) < TRAILER_SIZE:
        msg = f"{name}: a tail of {len(view)} bytes has no trailer"
        raise CorruptObjectError(msg)
    trailer = view[-TRAILER_SIZE:]
    position, length = _POSITION.unpack_from(trailer)
    (crc,) = _CRC.unpack_from(trailer, _POSITION.size)
    size, version, said, magic = _REST.unpack_from(trailer, _POSITION.size + _CRC.size)
    if magic != _MAGIC:
        msg = f"{name}: it does not end in {_MAGIC.decode()}"
        raise CorruptObjectError(msg)
    start = position - log_length
    if start < 0 or start + length != len(view) - TRAILER_SIZE or size != len(view):
        msg = f"{name}: its trailer and its size disagree"
        raise CorruptObjectError(msg)
    checked = bytes(view[start : start + length + _POSITION.size])
    checked += bytes(trailer[_POSITION.size + _CRC.size :])
    if crc32c(checked) != crc:
        msg = f"{name}: its manifest fails its checksum"
        raise CorruptObjectError(msg)
    if version != VERSION:
        msg = f"{name}: version {version}"
        raise UnsupportedFormatError(msg)
    if said != flags:
        msg = f"{name}: its flags are {said:04x}, the key says {flags:04x}"
        raise CorruptObjectError(msg)
    return start, length


def _chunks(told: object) -> Chunks | None:
    if told is None:
        return None
    fields: dict[str, Any] = dict(told) if isinstance(told, dict) else {}
    lengths: Sequence[object] = fields["lengths"]
    return Chunks(
        _count(fields["original_size"]),
        str(_of(str, fields["codec"])),
        tuple(map(_count, lengths)),
    )


def _of(kind: type, value: object) -> Any:  # noqa: ANN401 - of the type asked for
    if not isinstance(value, kind) or isinstance(value, bool):
        msg = f"{value!r} is not {kind.__name__}"
        raise TypeError(msg)
    if isinstance(value, str):
        value.encode()  # JSON can name half a character, which nobody can write
    return value


def _count(value: object) -> int:
    number: int = _of(int, value)
    if number < 0:
        raise ValueError(number)
    return number
