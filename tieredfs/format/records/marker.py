"""The control record of a batch, such as the marker that ends a transaction."""

from tieredfs.format.batch.control import ControlRecord, parse_control_record
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.records.decode import RecordDecoder

__all__ = ["marker_of"]


def marker_of(batch: LogBatch) -> ControlRecord | None:
    """Return the control record of a control batch; None for other or empty ones.

    Args:
        batch: The batch, its checksum verified.

    Raises:
        CorruptBatchError: The record is malformed.
    """
    header = batch.header
    if not header.is_control or not header.record_count or header.size <= HEADER_SIZE:
        return None
    decoder = RecordDecoder("", 0, ("key", "value"))
    row = next(decoder.decode([LogBatches.of(batch)]))
    return parse_control_record(
        row["key"][0].as_py() or b"", row["value"][0].as_py(), name=batch.where
    )
