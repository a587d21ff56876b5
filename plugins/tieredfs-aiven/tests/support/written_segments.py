"""Segments as the plugin writes them, for tests of what the samples do not have."""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import zstandard
from Crypto.Cipher import AES, PKCS1_OAEP
from Crypto.Hash import SHA3_512
from Crypto.PublicKey import RSA
from Crypto.Random import get_random_bytes

from support.samples import DATA
from tieredfs import IndexType, SegmentId, SegmentMetadata, TopicIdPartition, Uuid

__all__ = [
    "MAX_TIMESTAMP",
    "PUBLIC",
    "Written",
    "encode_custom_metadata",
    "encode_sizes",
    "pack_sizes",
    "varint",
    "wrap",
]

PUBLIC = RSA.import_key((DATA / "keys" / "TEST-KEY-k1.public.pem").read_bytes())

MAX_TIMESTAMP = 1_700_000_000_000

_NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}


def encode_sizes(sizes: Sequence[int]) -> bytes:
    """Write a list of sizes compactly."""
    count = len(sizes).to_bytes(4, "big")
    if not sizes:
        return count
    *others, last = sizes
    end = last.to_bytes(4, "big")
    if not others:
        return count + end
    base = min(others)
    width = max(1, *(-(-(size - base).bit_length() // 8) for size in others))
    values = b"".join((size - base).to_bytes(width, "big") for size in others)
    return count + base.to_bytes(4, "big") + bytes([width]) + values + end


def pack_sizes(sizes: Sequence[int]) -> str:
    """Write a list of sizes as a manifest has it."""
    frame = zstandard.ZstdCompressor().compress(encode_sizes(sizes))
    return base64.b64encode(frame).decode()


def varint(number: int) -> bytes:
    """Write an unsigned varint."""
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(data) + bytes([number])


def encode_custom_metadata(fields: Mapping[int, bytes | str]) -> bytes:
    """Write tagged fields."""
    data = varint(len(fields))
    for tag, value in fields.items():
        raw = value
        if isinstance(raw, str):
            raw = varint(len(raw.encode()) + 1) + raw.encode()
        data += varint(tag) + varint(len(raw)) + raw
    return data


def wrap(key: bytes, key_id: str = "k1", public: RSA.RsaKey = PUBLIC) -> str:
    """Wrap a data key as a manifest has it."""
    sealed = PKCS1_OAEP.new(public, hashAlgo=SHA3_512).encrypt(key)
    return f"{key_id}:{base64.b64encode(sealed).decode()}"


@dataclass(frozen=True)
class Written:
    """One segment, and how it is to be stored."""

    log: bytes
    chunk_size: int = 100
    is_compressed: bool = False
    is_encrypted: bool = False
    prefix: str = ""
    topic: str = "orders"
    start_offset: int = 5
    end_offset: int = 9
    max_timestamp_ms: int = MAX_TIMESTAMP
    indexes: Mapping[IndexType, bytes | None] = field(
        default_factory=lambda: {
            IndexType.OFFSET: b"offsets.",
            IndexType.TIMESTAMP: struct.pack(">qi", MAX_TIMESTAMP, 0),
            IndexType.PRODUCER_SNAPSHOT: b"producers",
            IndexType.LEADER_EPOCH: b"0\n2\n0 0\n3 7\n",
            IndexType.TRANSACTION: None,
        }
    )
    data_key: bytes = field(default_factory=lambda: get_random_bytes(32))
    aad: bytes = field(default_factory=lambda: get_random_bytes(32))
    number: int = 1

    @property
    def metadata(self) -> SegmentMetadata:
        """The segment as it is listed."""
        topic_id = Uuid.from_bytes(bytes([7] * 16))
        return SegmentMetadata(
            TopicIdPartition(self.topic, 0, topic_id),
            SegmentId.from_bytes(bytes([self.number] * 16)),
            self.start_offset,
        )

    @property
    def stem(self) -> str:
        """What its keys share."""
        name = f"{self.start_offset:020d}-{self.metadata.id}"
        partition = self.metadata.partition
        return f"{self.prefix}{self.topic}-{partition.topic_id}/0/{name}"

    def manifest(self) -> dict[str, Any]:
        """Return the fields of its manifest."""
        return self._store()[0]

    def objects(self, manifest: Mapping[str, Any] | None = None) -> dict[str, bytes]:
        """Return its objects by their keys, with its own manifest or another one."""
        mine, log, indexes = self._store()
        text = json.dumps(manifest or mine, separators=(",", ":")).encode()
        return {
            f"{self.stem}.log": log,
            f"{self.stem}.indexes": indexes,
            f"{self.stem}.rsm-manifest": text,
        }

    def with_(self, **changes: Any) -> "Written":  # noqa: ANN401 - of its fields
        """Return another segment."""
        return replace(self, **changes)

    def _store(self) -> tuple[dict[str, Any], bytes, bytes]:
        chunks = [
            self._chunk(self.log[at : at + self.chunk_size])
            for at in range(0, len(self.log), self.chunk_size)
        ]
        sizes = [len(chunk) for chunk in chunks]
        index: dict[str, Any] = {
            "type": "variable" if self.is_compressed else "fixed",
            "originalChunkSize": self.chunk_size,
            "originalFileSize": len(self.log),
        }
        if self.is_compressed:
            index["transformedChunks"] = pack_sizes(sizes)
        else:
            whole = self.chunk_size + 28 * self.is_encrypted
            index["transformedChunkSize"] = whole
            index["finalTransformedChunkSize"] = sizes[-1] if sizes else 0
        stored: list[bytes] = []
        places: dict[str, Any] = {}
        for kind, name in _NAMES.items():
            data = self.indexes[kind]
            if data is None:
                places[name] = None
                continue
            data = self._seal(data) if data else data
            places[name] = {"position": sum(map(len, stored)), "size": len(data)}
            stored.append(data)
        manifest: dict[str, Any] = {
            "version": "1",
            "chunkIndex": index,
            "segmentIndexes": places,
            "compression": self.is_compressed,
            "remoteLogSegmentMetadata": self._facts(),
        }
        if self.is_encrypted:
            aad = base64.b64encode(self.aad).decode()
            manifest["encryption"] = {"dataKey": wrap(self.data_key), "aad": aad}
        return manifest, b"".join(chunks), b"".join(stored)

    def _chunk(self, data: bytes) -> bytes:
        if self.is_compressed:
            data = zstandard.ZstdCompressor().compress(data)
        return self._seal(data)

    def _seal(self, data: bytes) -> bytes:
        if not self.is_encrypted:
            return data
        cipher = AES.new(self.data_key, AES.MODE_GCM, nonce=get_random_bytes(12))
        cipher.update(self.aad)
        sealed, tag = cipher.encrypt_and_digest(data)
        return bytes(cipher.nonce) + sealed + tag

    def _facts(self) -> dict[str, Any]:
        partition = self.metadata.partition
        return {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": str(partition.topic_id),
                    "topicPartition": {"topic": partition.topic, "partition": 0},
                },
                "id": str(self.metadata.id),
            },
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "maxTimestampMs": self.max_timestamp_ms,
            "brokerId": 1,
            "eventTimestampMs": 1760000000000,
            "segmentLeaderEpochs": {"3": 7},
        }
