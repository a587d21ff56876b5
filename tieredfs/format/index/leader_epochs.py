"""The leader-epoch checkpoint: a segment's leader-epoch lineage, as text.

Source: Kafka's LeaderEpochCheckpointFile. UTF-8 lines: the version 0, the count, then
one line for each epoch and its first offset.
"""

import re

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptIndexError,
    InvalidArgumentError,
    UnsupportedFormatError,
)
from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["format_leader_epochs", "parse_leader_epochs"]

_VERSION = "0"
_ENTRY = re.compile(r"(\d{1,10})\s+(\d{1,19})", re.ASCII)
_COUNT = re.compile(r"\d{1,10}", re.ASCII)


def parse_leader_epochs(
    data: Buffer, *, name: str = "leader-epoch checkpoint"
) -> LeaderEpochs:
    """Parse and validate a leader-epoch checkpoint.

    An empty checkpoint is valid and has no entries, as in Kafka.

    Args:
        data: The whole checkpoint.
        name: Name used in error messages.

    Raises:
        CorruptIndexError: The checkpoint is not text, a line is malformed, the count
            does not match the lines, or the epochs or offsets do not increase.
        UnsupportedFormatError: The version is not 0.
    """
    try:
        # bytes.splitlines() splits where Java does; str.splitlines() splits more often.
        stored = bytes(byte_view(data)).splitlines()
        lines = [line.strip().decode("ascii") for line in stored]
    except UnicodeDecodeError as error:
        msg = f"{name}: not text: {error}"
        raise CorruptIndexError(msg) from error
    if not lines:
        return LeaderEpochs()
    if not _COUNT.fullmatch(lines[0]):
        msg = f"{name}: {lines[0][:20]!r} is not a version"
        raise CorruptIndexError(msg)
    if lines[0] != _VERSION:
        msg = f"{name}: unsupported version {lines[0]}"
        raise UnsupportedFormatError(msg)
    found = [_ENTRY.fullmatch(line) for line in lines[2:]]
    if (
        len(lines) == 1
        or not _COUNT.fullmatch(lines[1])
        or int(lines[1]) != len(found)
        or not all(found)
    ):
        msg = f"{name}: expected a count, then as many lines of an epoch and an offset"
        raise CorruptIndexError(msg)
    try:
        return LeaderEpochs.of((int(m[1]), int(m[2])) for m in found if m)
    except InvalidArgumentError as error:
        msg = f"{name}: {error}"
        raise CorruptIndexError(msg) from error


def format_leader_epochs(epochs: LeaderEpochs) -> bytes:
    """Encode a lineage as Kafka does."""
    lines = [_VERSION, str(len(epochs.entries))]
    lines += [f"{entry.epoch} {entry.start_offset}" for entry in epochs.entries]
    return "".join(f"{line}\n" for line in lines).encode("ascii")
