"""Which package decompresses which codec: a fast one where it is installed.

What comes out, and what is refused, is the same whichever it is.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType

from tieredfs.format.compression.codec import Codec

__all__ = ["PACKAGES", "PACKAGES_IN_USE", "block_decompressor", "decompressor"]

PACKAGES: Mapping[Codec, tuple[str, ...]] = MappingProxyType(
    {
        Codec.GZIP: ("isal", "pyarrow"),
        Codec.SNAPPY: ("cramjam", "pyarrow"),
        Codec.LZ4: ("cramjam", "pyarrow"),
        Codec.ZSTD: ("zstandard", "pyarrow"),
    }
)
"""The packages that can decompress each codec, the fastest first."""

PACKAGES_IN_USE: Mapping[Codec, str] = MappingProxyType(
    {codec: next(filter(find_spec, names)) for codec, names in PACKAGES.items()}
)
"""The one of them that does: the first that is installed."""


@cache
def decompressor(
    codec: Codec, package: str | None = None
) -> Callable[[memoryview, int], memoryview]:
    """Return the function that decompresses a codec with a package.

    It takes the stored bytes and the most bytes that may come out, and raises
    ``MalformedDataError`` or ``TooMuchOutputError``. Its package is imported here, when
    a batch first needs it, and not with tieredfs.
    """
    module = _module(package or PACKAGES_IN_USE[codec])
    found: Callable[[memoryview, int], memoryview]
    found = getattr(module, f"decompress_{codec.name.lower()}")
    return found


@cache
def block_decompressor(
    codec: Codec,
) -> Callable[[memoryview, memoryview], int] | None:
    """Return the function that decompresses a block that the kernel found, if any.

    It takes the block, and memory of the size of all that may come out; returns how
    much did, and raises ``MalformedDataError``.
    """
    if codec is Codec.NONE:
        return None
    module = _module(PACKAGES_IN_USE[codec])
    found: Callable[[memoryview, memoryview], int] | None
    found = getattr(module, f"decompress_{codec.name.lower()}_block", None)
    return found


def _module(package: str) -> ModuleType:
    """Import the module of ours that decompresses by a package: it has its name."""
    return import_module(f"tieredfs.format.compression.{package}")
