"""Control records: the records that a broker itself writes into a log.

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
    """The type of a control record; UNKNOWN for types newer than this release."""

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
        type: The record's type.
        coordinator_epoch: Epoch of the transaction coordinator, for ABORT and COMMIT.
    """

    type: ControlType
    coordinator_epoch: int | None = None


def parse_control_record(
    key: Buffer, value: Buffer | None, *, name: str = "control record"
) -> ControlRecord:
    """Parse the key and value of a record in a control batch.

    Raises:
        CorruptBatchError: The key, or the value of a transaction marker, is too short,
            or the key's version is negative.
    """
    view = byte_view(key)
    if len(view) < _KEY.size:
        msg = f"{name}: key of {len(view)} bytes is too short for a control record"
        raise CorruptBatchError(msg)
    version, number = _KEY.unpack_from(view)
    if version < 0:
        msg = f"{name}: negative control key version: {version}"
        raise CorruptBatchError(msg)
    known = ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS
    kind = ControlType(number) if known else ControlType.UNKNOWN
    if kind not in {ControlType.ABORT, ControlType.COMMIT}:
        return ControlRecord(kind)
    marker = byte_view(b"" if value is None else value)
    if len(marker) < _MARKER.size:
        msg = f"{name}: transaction marker of {len(marker)} bytes is too short"
        raise CorruptBatchError(msg)
    return ControlRecord(kind, _MARKER.unpack_from(marker)[1])
