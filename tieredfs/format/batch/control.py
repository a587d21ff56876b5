"""Control records: what a broker writes into a log for itself.

Source: Kafka's ControlRecordType and EndTransactionMarker; KIP-98, KIP-595.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from tieredfs.errors import CorruptBatchError
from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["ControlRecord", "ControlType", "parse_control_record"]

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says; UNKNOWN for types newer than this release."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One control record.

    Attributes:
        type: What it says.
        coordinator_epoch: Of the transaction coordinator, for ABORT and COMMIT.
    """

    type: ControlType
    coordinator_epoch: int | None = None


def parse_control_record(
    key: Buffer, value: Buffer | None, *, name: str = "control record"
) -> ControlRecord:
    """Parse the key and value of a record in a control batch.

    Raises:
        CorruptBatchError: The key, or a marker's value, is too short or negative.
    """
    view = byte_view(key)
    if len(view) < _KEY.size:
        msg = f"{name}: a control key of {len(view)} bytes"
        raise CorruptBatchError(msg)
    version, number = _KEY.unpack_from(view)
    if version < 0:
        msg = f"{name}: control key version {version}"
        raise CorruptBatchError(msg)
    known = ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS
    kind = ControlType(number) if known else ControlType.UNKNOWN
    if kind not in {ControlType.ABORT, ControlType.COMMIT}:
        return ControlRecord(kind)
    marker = byte_view(b"" if value is None else value)
    if len(marker) < _MARKER.size:
        msg = f"{name}: a transaction marker of {len(marker)} bytes"
        raise CorruptBatchError(msg)
    return ControlRecord(kind, _MARKER.unpack_from(marker)[1])
