"""The size and limit of a cache directory, in a file of 36 bytes shared by processes.

A process that changes the directory first writes that its size is unknown, and the new
size afterwards. If it was killed in between, or the file was damaged, the size is
unknown, and the next process has to count. Each balance has a mark of its own: a count
is valid only if no process changed the directory meanwhile, also where two changes have
left the same size.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from tieredfs.format.checksum import crc32c

__all__ = ["MARK_BITS", "Balance", "Ledger"]

MARK_BITS = 64
"""Bits of a balance's mark."""

_RECORD = Struct("<8sqqQ")
_CRC = Struct("<I")
_MAGIC = b"TFSCACH2"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Balance:
    """The content of the ledger.

    Attributes:
        max_bytes: Maximum bytes in the directory.
        total: Bytes in the directory at most, as what was removed may be included; None
            if they have to be counted.
        mark: A random number, by which two balances with the same total differ.
    """

    max_bytes: int
    total: int | None
    mark: int


class Ledger:
    """The ledger file; the caller holds the directory's lock to read or write it."""

    def __init__(self, path: Path) -> None:
        """Refer to a file, which need not exist."""
        self._path = path

    def read(self) -> Balance | None:
        """Return the last balance written; None if missing or invalid."""
        try:
            data = self._path.read_bytes()
        except OSError:  # missing, or not a file of ours
            return None
        if len(data) != _RECORD.size + _CRC.size:
            return None
        magic, max_bytes, total, mark = _RECORD.unpack_from(data)
        if magic != _MAGIC or _CRC.pack(crc32c(data[: _RECORD.size])) != data[-4:]:
            return None
        return Balance(max_bytes, None if total == _UNKNOWN else total, mark)

    def write(self, balance: Balance) -> None:
        """Write a balance in place: a new file would take four times as long.

        Raises:
            OSError: The file cannot be written.
        """
        total = _UNKNOWN if balance.total is None else balance.total
        record = _RECORD.pack(_MAGIC, balance.max_bytes, total, balance.mark)
        record += _CRC.pack(crc32c(record))
        try:
            self._put(record)
        except PermissionError:  # the file's mode was changed
            self._path.unlink()
            self._put(record)

    def _put(self, record: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:  # which writes all, or raises
            file.write(record)
            file.truncate()
