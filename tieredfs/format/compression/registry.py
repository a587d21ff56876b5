"""The packages that decompress each codec: a fast one where it is installed.

All packages of a codec give the same output and reject the same data. A new package of
a codec is a line here and a module beside this one; a new codec begins in ``codec``.
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
"""Packages that can decompress each codec, fastest first."""

PACKAGES_IN_USE: Mapping[Codec, str] = MappingProxyType(
    {codec: next(filter(find_spec, names)) for codec, names in PACKAGES.items()}
)
"""The package that decompresses each codec: the first that is installed."""


@cache
def decompressor(
    codec: Codec, package: str | None = None
) -> Callable[[memoryview, int], memoryview]:
    """Return the function that decompresses a codec with a package.

    The function takes the compressed bytes and the maximum size of the output, and
    raises ``MalformedDataError`` or ``TooMuchOutputError``. The package is imported
    when a batch first needs it, not when tieredfs is imported.
    """
    module = _module(package or PACKAGES_IN_USE[codec])
    found: Callable[[memoryview, int], memoryview]
    found = getattr(module, f"decompress_{codec.name.lower()}")
    return found


@cache
def block_decompressor(
    codec: Codec,
) -> Callable[[memoryview, memoryview], int] | None:
    """Return the function that decompresses a block found by the kernel, if any.

    The function takes the block and a buffer of the maximum size of its output. It
    returns the size of the output, and raises ``MalformedDataError``.
    """
    if codec is Codec.NONE:
        return None
    module = _module(PACKAGES_IN_USE[codec])
    found: Callable[[memoryview, memoryview], int] | None
    found = getattr(module, f"decompress_{codec.name.lower()}_block", None)
    return found


def _module(package: str) -> ModuleType:
    """Import tieredfs' module for a package, which has the package's name."""
    return import_module(f"tieredfs.format.compression.{package}")
