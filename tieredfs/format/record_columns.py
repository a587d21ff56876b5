"""What decodes records: the seam between batches and Arrow columns."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from tieredfs.format.log_batches import LogBatches

__all__ = [
    "FULL_BYTES",
    "HEADER_BYTES",
    "MALFORMED_BYTES",
    "MOST_BYTES",
    "MOST_HEADERS",
    "MOST_ROWS",
    "OFFSET_BYTES",
    "ColumnBuilder",
    "RecordColumns",
    "fixed_bytes",
]

FULL_BYTES: Final = 3 << 20
"""Bytes of the rows of a piece that is full: they still fit a processor's cache."""

MOST_BYTES: Final = (8 << 20) - 64
"""Bytes of the rows of a piece, unless a single record has more."""

MOST_ROWS: Final = 1 << 17
"""Rows of a piece: what is known of each takes more than a tiny record does."""

MOST_HEADERS: Final = 1 << 20
"""Headers of one record: more would be gigabytes from a small bomb."""

OFFSET_BYTES: Final = 5
"""What Arrow takes for a row of bytes beside them: an int32 and a bit."""

HEADER_BYTES: Final = 9
"""What Arrow takes for a header beside its bytes."""

MALFORMED_BYTES: Final = 3
"""What Arrow takes at most for a byte of a header: U+FFFD."""

_FIXED: Final = {
    "key": OFFSET_BYTES,
    "value": OFFSET_BYTES,
    "offset": 8,
    "timestamp": 8,
    "timestampType": 4,
    "headers": OFFSET_BYTES,
}


class RecordColumns(NamedTuple):
    """Some columns of some records.

    Attributes:
        rows: How many records they are.
        arrays: The columns that were asked for.
    """

    rows: int
    arrays: Mapping[str, pa.Array]


class ColumnBuilder(Protocol):
    """A function that decodes records; all of them give the same rows and errors."""

    def __call__(
        self, runs: Iterable[LogBatches], names: Iterable[str], other_bytes: int, /
    ) -> Iterator[RecordColumns]:
        """Yield the columns of the records that are wanted, in pieces of 1-8 MiB.

        Args:
            runs: Batches whose records lie uncompressed in their buffer, less than
                2 GiB of them in each; empty ones may be among them.
            names: The columns to build, of those that a record itself has.
            other_bytes: Bytes that a row takes beside these columns.

        Raises:
            CorruptBatchError: The records of a batch are malformed: one does not fill
                its length, they do not fill the batch, an offset does not rise; or its
                headers do so while they are asked for. This and any error of ``runs``
                is raised when the records before that batch have come out; of a batch
            that has more than a piece, some of its own may have, too.
        """


def fixed_bytes(names: Iterable[str]) -> int:
    """Return the bytes that a row of some columns takes beside its payloads."""
    return sum(_FIXED[name] for name in names)
