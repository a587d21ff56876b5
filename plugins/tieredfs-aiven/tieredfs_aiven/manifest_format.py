"""The text of a manifest as the plugin writes it: no white space, one order of fields.

The plugin's reader rejects a manifest with a field more or, where it is not
``encryption``, a field less. In ``remoteLogSegmentMetadata`` it reads nothing.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tieredfs import EpochEntry
from tieredfs_aiven.manifest import INDEX_FIELDS, Manifest, SegmentFacts

__all__ = ["BrokerFacts", "epochs_within", "format_manifest"]

_NO_BROKER: Final = -1
"""The broker's id where no broker has copied the segment, as in Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What a manifest states of a segment, and no reader of it needs.

    Attributes:
        segment: What readers of ours need.
        event_timestamp_ms: When the copy began.
        leader_epochs: The epochs of the segment, with the first offset of each.
        is_txn_index_empty: Whether the segment has no aborted transaction.
    """

    segment: SegmentFacts
    event_timestamp_ms: int
    leader_epochs: tuple[EpochEntry, ...]
    is_txn_index_empty: bool


def epochs_within(
    entries: Iterable[EpochEntry], start_offset: int, end_offset: int
) -> tuple[EpochEntry, ...]:
    """Return the epochs of a checkpoint that a segment has, as Kafka cuts them.

    Args:
        entries: Entries of the checkpoint, in order.
        start_offset: First offset of the segment.
        end_offset: Last offset of the segment, inclusive.

    Returns:
        The epochs, the first one from the segment's start if it began before.
    """
    found: list[EpochEntry] = []
    for entry in entries:
        if entry.start_offset > end_offset:
            break
        if entry.start_offset <= start_offset:
            found.clear()
        first = max(entry.start_offset, start_offset)
        found.append(EpochEntry(entry.epoch, first))
    return tuple(found)


def format_manifest(manifest: Manifest, facts: BrokerFacts) -> bytes:
    """Return the bytes of a manifest, of version 1.

    Args:
        manifest: How the segment is stored.
        facts: The broker's metadata of the segment.
    """
    fields: dict[str, object] = {
        "version": "1",
        "chunkIndex": manifest.chunks.format(),
        "segmentIndexes": _indexes(manifest),
        "compression": manifest.is_compressed,
    }
    key = manifest.wrapped_key
    if key is not None:
        fields["encryption"] = {
            "dataKey": f"{key.key_id}:{base64.b64encode(key.wrapped).decode()}",
            "aad": base64.b64encode(key.aad).decode(),
        }
    fields["remoteLogSegmentMetadata"] = _facts(facts)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _indexes(manifest: Manifest) -> dict[str, object]:
    """Return the position of each index; null for one that does not exist."""
    places = manifest.indexes
    return {
        field: {"position": places[kind].start, "size": len(places[kind])}
        if kind in places
        else None
        for kind, field in INDEX_FIELDS.items()
    }


def _facts(facts: BrokerFacts) -> dict[str, object]:
    segment = facts.segment
    partition = segment.partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": str(partition.topic_id),
                "topicPartition": {
                    "topic": partition.topic,
                    "partition": partition.partition,
                },
            },
            "id": str(segment.id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": _NO_BROKER,
        "eventTimestampMs": facts.event_timestamp_ms,
        "segmentLeaderEpochs": {
            str(entry.epoch): entry.start_offset for entry in facts.leader_epochs
        },
        "txnIdxEmpty": facts.is_txn_index_empty,
    }
