"""CRC-32C, the checksum of batches, producer snapshots and native segments."""

from collections.abc import Callable
from functools import cache

import google_crc32c

from tieredfs.errors import CorruptBatchError
from tieredfs.format.buffers import Buffer
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["check_crc32c", "crc32c"]


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Compute the CRC-32C of some bytes.

    Args:
        data: The bytes.
        crc: The CRC-32C of the bytes before them, which is extended.

    Raises:
        InvalidArgumentError: The requested kernel is not available.
    """
    return _implementation(chosen_kernel())(data, crc)


@cache
def _implementation(kernel: Kernel) -> Callable[[Buffer, int], int]:
    if kernel is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may be missing

        return _kernel.crc32c
    return _extend


def _extend(data: Buffer, crc: int) -> int:
    # It accepts only bytes; the copy costs less than any pure-Python CRC.
    extended: int = google_crc32c.extend(crc, bytes(data))
    return extended


def check_crc32c(data: Buffer, stored: int, *, where: str) -> None:
    """Check the CRC-32C of a batch.

    Args:
        data: The bytes that the checksum covers.
        stored: The checksum stored in the batch.
        where: Batch name used in error messages.

    Raises:
        CorruptBatchError: The checksum does not match.
    """
    computed = crc32c(data)
    if computed != stored:
        msg = (
            f"{where}: CRC-32C does not match: stored {stored:#010x}, "
            f"computed {computed:#010x}"
        )
        raise CorruptBatchError(msg)
