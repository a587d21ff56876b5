"""Encode the records of a batch, before compression.

``encode_compiled`` encodes them with the compiled kernel, ``encode_numpy`` with numpy
and pyarrow where that kernel is not available. Source: Kafka's DefaultRecord; KIP-82
(headers).
"""

from typing import Protocol

from tieredfs.format.buffers import Buffer
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.format.records.fields import RecordFields

__all__ = ["RecordBody", "measure_records"]


class RecordBody(Protocol):
    """The records of a batch, measured and not yet encoded."""

    @property
    def size(self) -> int:
        """Size of the encoded records in bytes."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp; the smallest int64 when there are no records."""

    @property
    def offsets_increase(self) -> bool:
        """Whether the offsets strictly increase."""

    def encode_records(self) -> Buffer:
        """Return the encoded records."""

    def encode_batch(self, header: bytes) -> bytes:
        """Join a header and the encoded records into a batch, and set its checksum."""


def measure_records(fields: RecordFields) -> RecordBody:
    """Measure the records of a batch and prepare to encode them.

    Raises:
        InvalidArgumentError: The offsets of an Arrow array decrease or are out of
            bounds; or the requested kernel is not available.
    """
    # The compiled encoder may be missing, and the other one imports much of Arrow.
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.records.encode_compiled import (  # noqa: PLC0415 - see above
            measure_with_kernel,
        )

        return measure_with_kernel(fields)
    from tieredfs.format.records.encode_numpy import (  # noqa: PLC0415 - see above
        measure_with_numpy,
    )

    return measure_with_numpy(fields)
