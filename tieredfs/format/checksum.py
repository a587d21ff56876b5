"""CRC-32C, the checksum of batches, producer snapshots and native segments."""

from collections.abc import Callable
from functools import cache

import google_crc32c

from tieredfs.errors import CorruptBatchError
from tieredfs.format.buffers import Buffer
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["check_crc32c", "crc32c"]


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C of some bytes.

    Args:
        data: Bytes.
        crc: The CRC-32C of the bytes before them, which is extended.

    Raises:
        InvalidArgumentError: A kernel is asked for that is not there.
    """
    return _implementation(chosen_kernel())(data, crc)


@cache
def _implementation(kernel: Kernel) -> Callable[[Buffer, int], int]:
    if kernel is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

        return _kernel.crc32c
    return _extend


def _extend(data: Buffer, crc: int) -> int:
    # It takes bytes only; the copy costs less than any pure-Python CRC.
    extended: int = google_crc32c.extend(crc, bytes(data))
    return extended


def check_crc32c(data: Buffer, stored: int, *, where: str) -> None:
    """Check what a batch stores as its checksum.

    Args:
        data: The bytes that it covers.
        stored: What it should be.
        where: How to call the batch in an error.

    Raises:
        CorruptBatchError: It is another.
    """
    actual = crc32c(data)
    if actual != stored:
        msg = f"{where}: CRC-32C is {actual:#010x}, stored is {stored:#010x}"
        raise CorruptBatchError(msg)
