"""A disk on which there is no room for a file of more than a few bytes."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tieredfs.errors import TieredFSWarning

__all__ = ["can_fill_disk", "full_disk"]

_LEFT_BYTES: Final = 64
"""Files grow to no more than this: enough for what is written in place, as a ledger."""

if sys.platform == "win32":

    def can_fill_disk(_: object = None) -> bool:
        """Return whether the system can do it."""
        return False

    @contextmanager
    def full_disk() -> Iterator[None]:
        """Do nothing."""
        yield

else:
    import resource

    def can_fill_disk(_: object = None) -> bool:
        """Return whether the system can do it."""
        return True

    @contextmanager
    def full_disk() -> Iterator[None]:
        """Let the writes of this process fail, without a warning that they did."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TieredFSWarning)
            resource.setrlimit(resource.RLIMIT_FSIZE, (_LEFT_BYTES, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
