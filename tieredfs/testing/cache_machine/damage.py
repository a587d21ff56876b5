"""What may become of an entry's file in a cache directory between two uses.

A file is replaced, never changed in place: a process that has mapped it, as a cache
does, keeps the bytes that it has checked.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Final

from tieredfs.cache.ledger import Balance, Ledger

__all__ = [
    "DAMAGE",
    "LEDGER_DAMAGE",
    "change_byte",
    "crash",
    "entry_files",
    "put_in_place",
    "unfinished",
]

_LEDGER: Final = "tieredfs-ledger"

_NO_PROCESS: Final = 2**31 - 1
"""The id of no process: larger than any that a system gives."""


def entry_files(directory: Path) -> list[Path]:
    """Return the files of the entries, and whatever else has their names."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.suffix == ".indexes")


def put_in_place(file: Path, data: bytes) -> None:
    """Put another file in the place of one, with the same time of its last use."""
    found = file.stat()
    file.unlink()
    file.write_bytes(data)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def change_byte(file: Path, permille: int, bits: int) -> None:
    """Invert some bits of one byte, as a disk may.

    Args:
        file: The file.
        permille: Where the byte is, from 0 at the beginning to 1000 at the end.
        bits: Those that are inverted.
    """
    data = bytearray(file.read_bytes())
    data[(len(data) - 1) * permille // 1000] ^= bits
    put_in_place(file, bytes(data))


def crash(directory: Path) -> Path:
    """Leave what a process leaves that was killed while it wrote an entry.

    Returns:
        The file that it had not finished.
    """
    ledger = Ledger(directory / _LEDGER)
    balance = ledger.read()
    if balance is not None:
        ledger.write(Balance(balance.max_bytes, None, 0))
    return unfinished(directory, _NO_PROCESS)


def unfinished(directory: Path, process: int) -> Path:
    """Write the beginning of an entry, as a process does, and return the file.

    Args:
        directory: The directory of the entries.
        process: Its id.
    """
    file = directory / f"{process}-{token_hex(8)}.tmp"
    file.write_bytes(b"TFSINDEX")
    return file


def empty(file: Path) -> None:
    """Leave nothing of it."""
    put_in_place(file, b"")


def cut(file: Path) -> None:
    """Cut off its end."""
    put_in_place(file, file.read_bytes()[:-8])


def longer(file: Path) -> None:
    """Add something."""
    put_in_place(file, file.read_bytes() + bytes(8))


def older_version(file: Path) -> None:
    """Make it one of an older version."""
    data = bytearray(file.read_bytes())
    data[8] = 0
    put_in_place(file, bytes(data))


def folder(file: Path) -> None:
    """Put a folder in its place."""
    file.unlink()
    file.mkdir()
    (file / "something").write_bytes(b"1")


def link_to_nothing(file: Path) -> None:
    """Put a link in its place that leads nowhere."""
    file.unlink()
    file.symlink_to("nothing")


def link_in_a_circle(file: Path) -> None:
    """Put a link in its place that leads to itself."""
    file.unlink()
    file.symlink_to(file.name)


def another_entry(file: Path) -> None:
    """Put another entry in its place."""
    found = [path for path in entry_files(file.parent) if path.is_file()]
    others = [path for path in found if path != file]
    put_in_place(file, others[0].read_bytes())


def gone(file: Path) -> None:
    """Remove it."""
    file.unlink()


def no_directory(file: Path) -> None:
    """Remove the whole directory."""
    shutil.rmtree(file.parent)


def no_ledger(file: Path) -> None:
    """Remove it, and the ledger of the directory."""
    file.unlink()
    (file.parent / _LEDGER).unlink(missing_ok=True)


def strange_ledger(file: Path) -> None:
    """Remove it, and write nonsense to the ledger of the directory."""
    file.unlink()
    (file.parent / _LEDGER).write_bytes(bytes(range(28)))


LEDGER_DAMAGE: Final[frozenset[Callable[[Path], None]]] = frozenset(
    {no_directory, no_ledger, strange_ledger}
)
"""What loses the directory's limit."""

DAMAGE: Final[tuple[Callable[[Path], None], ...]] = (
    empty,
    cut,
    longer,
    older_version,
    folder,
    link_to_nothing,
    link_in_a_circle,
    another_entry,
    gone,
    no_directory,
    no_ledger,
    strange_ledger,
)
"""What may become of an entry's file; another entry has to be beside it."""
