"""How much a cache directory holds and may hold: 28 bytes that its processes share.

Whoever changes the directory says so first, and what it holds afterwards. When it was
killed in between, or something else has written here, nobody knows, and the next one
has to count.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from tieredfs.format.checksum import crc32c

__all__ = ["Balance", "Ledger"]

_RECORD = Struct("<8sqq")
_CRC = Struct("<I")
_MAGIC = b"TFSCACH1"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Balance:
    """What is told of a directory.

    Attributes:
        bound: Bytes that it may hold.
        total: Bytes that it holds; None when it has to be counted.
    """

    bound: int
    total: int | None


class Ledger:
    """The file; whoever reads or writes it holds the directory's lock."""

    def __init__(self, path: Path) -> None:
        """Name the file; it need not be there."""
        self._path = path

    def read(self) -> Balance | None:
        """Return what was told last; None when nothing was, or not by us."""
        try:
            data = self._path.read_bytes()
        except OSError:  # not there, or nothing that we wrote
            return None
        if len(data) != _RECORD.size + _CRC.size:
            return None
        magic, bound, total = _RECORD.unpack_from(data)
        if magic != _MAGIC or _CRC.pack(crc32c(data[: _RECORD.size])) != data[-4:]:
            return None
        return Balance(bound, None if total == _UNKNOWN else total)

    def write(self, balance: Balance) -> None:
        """Tell it; in place, for a new file each time would take four times as long.

        Raises:
            OSError: It cannot be written.
        """
        total = _UNKNOWN if balance.total is None else balance.total
        record = _RECORD.pack(_MAGIC, balance.bound, total)
        record += _CRC.pack(crc32c(record))
        try:
            self._put(record)
        except PermissionError:  # somebody has changed its mode
            self._path.unlink()
            self._put(record)

    def _put(self, record: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:  # which writes all, or raises
            file.write(record)
            file.truncate()
