"""What is in memory, taken for a store that is not on this machine."""

from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

__all__ = ["distant"]

_PROTOCOL = "distant"


class _DistantFileSystem(MemoryFileSystem):  # type: ignore[misc] # it has no types
    """The files of ``memory://`` under another protocol, which is not a local one."""

    protocol = _PROTOCOL

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix(f"{_PROTOCOL}://"))
        return stripped


def distant(url: str) -> str:
    """Return the URL under which a ``memory://`` store is taken for a distant one."""
    register_implementation(_PROTOCOL, _DistantFileSystem, clobber=True)
    return url.replace("memory://", f"{_PROTOCOL}://", 1)
