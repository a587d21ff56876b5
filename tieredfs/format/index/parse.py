"""Parse an index of any type, and check that it points into its segment."""

from typing import assert_never

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex
from tieredfs.model import IndexType

__all__ = ["ParsedIndex", "parse_index"]

ParsedIndex = (
    OffsetIndex | TimeIndex | ProducerSnapshot | LeaderEpochs | TransactionIndex
)
"""The contents of an index, of one of the types in ``IndexType``."""


def parse_index(
    kind: IndexType,
    data: Buffer,
    base_offset: int,
    end_offset: int | None,
    log_size: int | None,
    name: str | None = None,
) -> ParsedIndex:
    """Parse and validate an index, as far as that is possible without its log.

    Args:
        kind: Type of the index.
        data: The whole index; empty for a missing offset, time or transaction index.
        base_offset: The segment's first offset.
        end_offset: The segment's last offset, if known.
        log_size: Size of the segment's log in bytes, if known.
        name: Segment name used in error messages, if any.

    Raises:
        CorruptIndexError: The index is malformed, or points outside the segment.
        UnsupportedFormatError: The index is of a newer version.
        InvalidArgumentError: No segment can have this base offset.
    """
    prefix = "" if name is None else f"{name}: "
    match kind:
        case IndexType.OFFSET:
            return OffsetIndex.parse(
                data,
                base_offset,
                end_offset=end_offset,
                log_size=log_size,
                name=f"{prefix}offset index",
            )
        case IndexType.TIMESTAMP:
            return TimeIndex.parse(
                data, base_offset, end_offset=end_offset, name=f"{prefix}time index"
            )
        case IndexType.PRODUCER_SNAPSHOT:
            return ProducerSnapshot.parse(data, name=f"{prefix}producer snapshot")
        case IndexType.LEADER_EPOCH:
            return parse_leader_epochs(data, name=f"{prefix}leader-epoch checkpoint")
        case IndexType.TRANSACTION:
            return TransactionIndex.parse(
                data, base_offset, name=f"{prefix}transaction index"
            )
        case _:
            assert_never(kind)
