"""An entry of a partition's journal: one change, and the state after it.

Each entry has the whole state, which is small, so a reader needs only the last one.
The form is JSON with sorted keys; a member that is not known is ignored. The member
``crc32c`` is the checksum of the others: a damaged digit is still valid JSON, and would
make an offset say that segments have expired which have not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    UnsupportedFormatError,
)
from tieredfs.format.checksum import crc32c
from tieredfs.log.journal.state import Leader, PartitionState, TrackedSegment
from tieredfs.model import SegmentId, TopicIdPartition
from tieredfs.states import PartitionDeleteState, SegmentState

__all__ = ["JournalEntry", "encode_entry", "parse_entry"]

_VERSION: Final = 1
_CHECKSUM: Final = "crc32c"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry.

    Attributes:
        number: Its number; that of the first one is 1.
        change: What was changed, in a few words, for the people who read it.
        writer: The unique name of the manager that has written it.
        state: The state after the change.
    """

    number: int
    change: str
    writer: str
    state: PartitionState


def encode_entry(entry: JournalEntry) -> bytes:
    """Return the bytes of an entry."""
    state = entry.state
    leader = None if state.leader is None else state.leader._asdict()
    segments = [
        {
            "id": one.id,
            "start_offset": one.start_offset,
            "state": one.state,
            "since_ms": one.since_ms,
        }
        for one in state.segments.values()
    ]
    document = {
        "version": _VERSION,
        "number": entry.number,
        "change": entry.change,
        "writer": entry.writer,
        "leader": leader,
        "leader_epoch": state.leader_epoch,
        "log_start": state.log_start,
        "segments": segments,
        "deletion": state.deletion,
    }
    return _dumped({**document, _CHECKSUM: crc32c(_dumped(document))})


def parse_entry(
    data: bytes | memoryview, partition: TopicIdPartition, name: str
) -> JournalEntry:
    """Parse an entry.

    Args:
        data: Its bytes.
        partition: The partition whose journal it is in.
        name: Its name in error messages.

    Raises:
        CorruptObjectError: It is not an entry.
        UnsupportedFormatError: A newer release has written it.
    """
    try:
        document = json.loads(bytes(data))
        version = document["version"]
        if isinstance(version, int) and version > _VERSION:
            raise UnsupportedFormatError(
                f"{name}: version {version} of a journal; this release reads {_VERSION}"
            )
        return _parsed(document, partition)
    except (
        AttributeError,
        InvalidArgumentError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CorruptObjectError(
            f"{name}: not an entry of a journal ({error}); if you delete it, the entry "
            "before it counts"
        ) from error


def _parsed(document: Mapping[str, Any], partition: TopicIdPartition) -> JournalEntry:
    others = {name: one for name, one in document.items() if name != _CHECKSUM}
    if document[_CHECKSUM] != crc32c(_dumped(others)):
        raise ValueError("its checksum is not that of its members")
    leader, deletion = document["leader"], document["deletion"]
    segments = {
        SegmentId(one["id"]): TrackedSegment(
            SegmentId(one["id"]),
            _natural(one["start_offset"]),
            SegmentState(one["state"]),
            _integer(one["since_ms"]),
        )
        for one in document["segments"]
    }
    if leader is not None:
        leader = Leader(_text(leader["owner"]), _integer(leader["epoch"]))
    state = PartitionState(
        partition,
        leader,
        _natural(document["log_start"]),
        segments,
        None if deletion is None else PartitionDeleteState(deletion),
        _integer(document["leader_epoch"]),
    )
    return JournalEntry(
        _natural(document["number"]),
        _text(document["change"]),
        _text(document["writer"]),
        state,
    )


def _dumped(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _natural(value: object) -> int:
    number = _integer(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
