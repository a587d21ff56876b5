"""The result of one fetch of a partition: records, and the next offset."""

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["Fetched"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of one fetch, and the offset at which the next fetch continues.

    It supports ``len()``, ``num_rows``, ``fetched["offset"]``, and Arrow's stream
    protocol, so that any Arrow library takes it; for everything else use ``records``.

    Offsets may have no record: compaction leaves holes, and control records are hidden.
    ``next_offset`` is past all offsets that were read, which may be more than one past
    the last record. A fetch without records means that the log ends at ``next_offset``.

    Attributes:
        records: The records, with all columns, in offset order.
        next_offset: One past the last offset that was read: every record below it, from
            the offset of the fetch on, is in ``records``.
    """

    records: pa.Table
    next_offset: int

    @property
    def num_rows(self) -> int:
        """Number of records."""
        return len(self)

    def __len__(self) -> int:
        """Return the number of records."""
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
        """Show the number of records and the next offset."""
        return f"Fetched(num_rows={len(self)}, next_offset={self.next_offset})"
