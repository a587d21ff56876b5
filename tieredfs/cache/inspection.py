"""Look at a cache directory from outside: what is in it, and whether it is valid."""

from collections.abc import Iterator
from dataclasses import dataclass

from tieredfs.cache.directory import CacheDirectory
from tieredfs.cache.entry_file import (
    InvalidEntryError,
    decode_entry,
    entry_identity,
)

__all__ = ["EntryReport", "inspect_entries"]


@dataclass(frozen=True, slots=True)
class EntryReport:
    """What was found of one entry.

    Attributes:
        name: Its file, without the suffix.
        size: Bytes of it.
        problem: What is wrong with it; None when every byte is what was written.
    """

    name: str
    size: int
    problem: str | None


def inspect_entries(directory: CacheDirectory) -> Iterator[EntryReport]:
    """Yield a report of each entry, in the order of their names; nothing is changed.

    Raises:
        OSError: The directory cannot be read.
        PermissionError: An entry may not be read.
    """
    for entry in sorted(directory.scan(), key=lambda entry: entry.name):
        problem = None
        try:
            data = directory.read(entry.name)
            identity = entry_identity(data)
            decode_entry(data, identity)
            if not identity.hex().startswith(entry.name):
                problem = "its name is that of another entry"
        except FileNotFoundError:
            continue  # removed meanwhile
        except PermissionError:
            raise  # it may be whole
        except (OSError, InvalidEntryError) as error:
            problem = str(error)
        yield EntryReport(entry.name, entry.size, problem)
