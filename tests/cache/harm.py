"""What may become of an entry's file between two uses."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cache.made import files_in

__all__ = ["HARM"]


def empty(file: Path) -> None:
    """Leave nothing of it."""
    file.write_bytes(b"")


def cut(file: Path) -> None:
    """Cut off its end."""
    file.write_bytes(file.read_bytes()[:-8])


def longer(file: Path) -> None:
    """Add something."""
    file.write_bytes(file.read_bytes() + bytes(8))


def older_version(file: Path) -> None:
    """Make it one of an older version."""
    data = bytearray(file.read_bytes())
    data[8] = 0
    file.write_bytes(data)


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
    others = [path for path in files_in(file.parent) if path != file]
    shutil.copy(others[0], file)


def gone(file: Path) -> None:
    """Remove it."""
    file.unlink()


def no_directory(file: Path) -> None:
    """Remove the whole directory."""
    shutil.rmtree(file.parent)


def no_ledger(file: Path) -> None:
    """Remove it, and the ledger of the directory."""
    file.unlink()
    (file.parent / "tieredfs-ledger").unlink()


def strange_ledger(file: Path) -> None:
    """Remove it, and write nonsense to the ledger of the directory."""
    file.unlink()
    (file.parent / "tieredfs-ledger").write_bytes(os.urandom(28))


HARM: Final[list[Callable[[Path], None]]] = [
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
]


"""What may become of an entry's file; another one has to be beside it."""
