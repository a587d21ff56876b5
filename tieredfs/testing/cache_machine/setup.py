"""What the machine of a cache is made of.

Importing this module imports no hypothesis: the function that makes the test case names
the type ``OpenCache``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tieredfs.cache import RemoteIndexCache

__all__ = ["OTHER_HANDLE", "OpenCache", "Setup"]

OpenCache = Callable[..., RemoteIndexCache]
"""Opens a cache: ``open_cache(storage, directory, max_bytes=…)``."""

OTHER_HANDLE: Final = 2
"""Number of the only handle over the second store; 0 and 1 are over the first."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a machine is made of.

    Attributes:
        open_cache: Opens a cache.
        ttl: Seconds without use after which an entry is no longer served; None for no
            limit.
    """

    open_cache: OpenCache
    ttl: float | None
