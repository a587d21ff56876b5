"""The records of a batch as they are stored, before compression.

This is the seam between what a batch says and the bytes it has: ``record_body_numpy``
writes them with numpy and pyarrow, ``record_body_compiled`` hands them to the compiled
kernel. Source: Kafka's DefaultRecord; KIP-82 (headers).
"""

from typing import Protocol

from tieredfs.format.buffers import Buffer
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.format.records.fields import RecordFields

__all__ = ["RecordBody", "measure_records"]


class RecordBody(Protocol):
    """The records of a batch, measured and not yet written."""

    @property
    def size(self) -> int:
        """How many bytes they have."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp; of no records the least there is."""

    @property
    def offsets_increase(self) -> bool:
        """Whether each offset is larger than the one before it."""

    def encode_records(self) -> Buffer:
        """Return the records."""

    def encode_batch(self, header: bytes) -> bytes:
        """Return a batch: its header, whose checksum is computed, and the records."""


def measure_records(fields: RecordFields) -> RecordBody:
    """Measure the records of a batch, and make ready to write them.

    Raises:
        InvalidArgumentError: The ends of an Arrow array's rows fall or lie outside its
            bytes; or a kernel is asked for that is not there.
    """
    # The compiled one may not be there, and the other loads much of Arrow.
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.records.encode_compiled import (  # noqa: PLC0415 - see above
            measure_with_kernel,
        )

        return measure_with_kernel(fields)
    from tieredfs.format.records.encode_numpy import (  # noqa: PLC0415 - see above
        measure_with_numpy,
    )

    return measure_with_numpy(fields)
