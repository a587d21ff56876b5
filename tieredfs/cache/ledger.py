"""How much a cache directory holds and may hold: 32 bytes that its processes share.

Whoever changes the directory says so first, and what it holds afterwards. When it was
killed in between, or something else has written here, nobody knows, and the next one
has to count.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

__all__ = ["Balance", "Ledger"]

_RECORD = Struct("<8sqqq")
_MAGIC = b"TFSCACH1"


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
        """Return what was told last; None when nothing was, or not by us.

        Raises:
            OSError: It is there and cannot be read.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) != _RECORD.size:
            return None
        magic, bound, total, is_changing = _RECORD.unpack(data)
        if magic != _MAGIC or bound < 0 or total < 0:
            return None
        return Balance(bound, None if is_changing else total)

    def write(self, balance: Balance) -> None:
        """Tell it; in place, for a new file each time would take four times as long.

        Raises:
            OSError: It cannot be written.
        """
        is_changing = balance.total is None
        record = _RECORD.pack(_MAGIC, balance.bound, balance.total or 0, is_changing)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, record, 0)
            os.truncate(descriptor, len(record))
        finally:
            os.close(descriptor)
