"""What tests leave in the memory filesystem, which the whole process shares."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fsspec.implementations.memory import MemoryFileSystem

__all__ = ["restored_memory", "session_url"]

_SESSION: Final = "/session/"


def session_url() -> str:
    """Return an empty place in memory whose objects last as long as the process."""
    return f"memory:/{_SESSION}{uuid.uuid4().hex}"


@contextmanager
def restored_memory() -> Iterator[None]:
    """Remove afterwards what was stored meanwhile, but for what the session keeps.

    A listing passes over every object in memory, whoever stored it: with those of a
    few thousand tests, one of 16 s was seen to take more than ten minutes.
    """
    files = MemoryFileSystem.store
    before = frozenset(files)
    yield
    for path in files.keys() - before:
        if not path.startswith(_SESSION):
            files.pop(path, None)
