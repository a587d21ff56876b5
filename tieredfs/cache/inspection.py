"""Inspect a cache directory: list its entries, and check that they are valid."""

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
    """The result of inspecting one entry.

    Attributes:
        name: Name of its file, without the suffix.
        size: Bytes of its file.
        problem: What is wrong with it; None if every byte is valid.
    """

    name: str
    size: int
    problem: str | None


def inspect_entries(directory: CacheDirectory) -> Iterator[EntryReport]:
    """Yield a report of each entry, in order of name; change nothing.

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
                problem = "its file name is that of another entry"
        except FileNotFoundError:
            continue  # removed meanwhile
        except PermissionError:
            raise  # the entry may be valid
        except (OSError, InvalidEntryError) as error:
            problem = str(error)
        yield EntryReport(entry.name, entry.size, problem)
