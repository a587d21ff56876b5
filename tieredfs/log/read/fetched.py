"""What one fetch of a partition gave: records, and where to go on."""

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["Fetched"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of one fetch, and the offset at which the next fetch goes on.

    It supports ``len()``, ``num_rows``, ``fetched["offset"]``, and Arrow's stream
    protocol, so that any Arrow library takes it; for everything else use ``records``.

    Offsets may be without a record: compaction leaves holes, and control records are
    hidden. ``next_offset`` lies behind all that were looked at, which the last record
    does not. A fetch without records means that the log ends at ``next_offset``.

    Attributes:
        records: The records, all columns of them, in offset order.
        next_offset: One past the last offset that was looked at: every record below it,
            from the offset of the fetch on, is in ``records``.
    """

    records: pa.Table
    next_offset: int

    @property
    def num_rows(self) -> int:
        """How many records there are."""
        return len(self)

    def __len__(self) -> int:
        """Return how many records there are."""
        rows: int = self.records.num_rows
        return rows

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """Return one column of the records.

        Raises:
            KeyError: There is no such column.
        """
        return self.records[column]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the records as an Arrow stream."""
        return self.records.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Say how many records there are, and where to go on."""
        return f"Fetched(num_rows={len(self)}, next_offset={self.next_offset})"
