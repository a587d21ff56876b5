"""Small segments made by hand, and their records."""

import uuid
from collections.abc import Sequence

import google_crc32c

from support.wire import WireRecord
from tieredfs import Uuid

__all__ = ["empty_snapshot", "records", "segment"]


def segment(
    folder: str,
    start: int,
    log: bytes,
    *,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    name: str = "",
) -> dict[str, bytes]:
    """Return the files of a segment in Kafka's LocalTieredStorage, indexes empty.

    Args:
        folder: The folder of the partition, without a slash at its end.
        start: First offset.
        log: The batches.
        epochs: The checkpoint's entries.
        name: Tells apart segments of one start.
    """
    made = uuid.uuid5(uuid.NAMESPACE_OID, f"{folder}{start}{name}").bytes
    stem = f"{folder}/{start:020d}-{Uuid.from_bytes(made)}"
    entries = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
    return {
        f"{stem}.log": log,
        f"{stem}.index": b"",
        f"{stem}.timeindex": b"",
        f"{stem}.snapshot": empty_snapshot(),
        f"{stem}.leader_epoch_checkpoint": f"0\n{len(epochs)}\n{entries}".encode(),
    }


def empty_snapshot() -> bytes:
    """Encode a producer snapshot of no producers."""
    content = (0).to_bytes(4, "big")
    crc = google_crc32c.value(content).to_bytes(4, "big")
    return b"\0\1" + bytes(crc) + content


def records(
    first: int, count: int, *, timestamp: int = 1_700_000_000_000, value: str = "v"
) -> list[WireRecord]:
    """Make records of rising offsets and timestamps; each value says its offset."""
    return [
        WireRecord(
            offset, timestamp + offset - first, None, f"{value}{offset}".encode()
        )
        for offset in range(first, first + count)
    ]
