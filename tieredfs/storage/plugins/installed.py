"""The installed plugins: the entry points of the group ``tieredfs.plugins``.

No plugin is imported here. A distribution whose metadata is broken is left out with a
warning, and does not hide other plugins.

The metadata of all distributions is read once, and again when one was installed or
removed: with hundreds of them that takes longer than opening a tier.
"""

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Final

from tieredfs.errors import TieredFSWarning

__all__ = [
    "BUILT_IN",
    "ELSEWHERE",
    "PluginInfo",
    "find_plugins",
    "installed_plugins",
    "is_built_in",
    "origin_of",
    "read_plugins",
]

_GROUP: Final = "tieredfs.plugins"
_OURS: Final = "tieredfs"
_LAYOUTS: Final = "tieredfs.storage.layouts"

BUILT_IN: Final = {
    name: EntryPoint(name, f"{_LAYOUTS}.{value}", _GROUP)
    for name, value in (
        ("kafka-local", "kafka_local:KafkaLocal"),
        ("kafka-log", "kafka_log:KafkaLog"),
        ("single-object", "single_object.layout:SingleObject"),
    )
}
"""The plugins of this distribution, to be named without reading any metadata."""

ELSEWHERE: Final = {"aiven": "tieredfs-aiven", "kafscale": "tieredfs-kafscale"}
"""Plugins of this project that are distributions of their own."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """An installed plugin, which may or may not be importable.

    Attributes:
        name: Its name in URLs and options.
        value: Where its class is: ``module:Class``.
        distribution: The package that provides it.
        version: That package's version.
    """

    name: str
    value: str
    distribution: str
    version: str


def installed_plugins() -> list[PluginInfo]:
    """Return every installed plugin, sorted by name, without importing any."""
    return [
        PluginInfo(name, point.value, *origin_of(point))
        for name, points in sorted(find_plugins().items())
        for point in points
    ]


def find_plugins() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the entry points by name, ours first, without duplicates."""
    return _plugins_of(tuple((folder, _changed_ns(folder)) for folder in sys.path))


def read_plugins() -> Mapping[str, Sequence[EntryPoint]]:
    """Return what ``find_plugins`` returns, read anew."""
    _plugins_of.cache_clear()
    return find_plugins()


def _changed_ns(folder: str) -> int:
    """Return when something was last installed in a folder, or removed from it."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _plugins_of(
    folders: tuple[tuple[str, int], ...],
) -> Mapping[str, Sequence[EntryPoint]]:
    """Read the metadata of all distributions in folders in this state."""
    del folders  # importlib.metadata knows them
    found: dict[str, list[EntryPoint]] = {}
    for point in _points():
        if not _NAME.fullmatch(point.name):  # no URL could have it as its prefix
            warnings.warn(
                f"left out: plugin {point.name!r} of {origin_of(point)[0]}: a name has "
                "lower-case letters, digits and hyphens",
                TieredFSWarning,
                stacklevel=2,
            )
            continue
        found.setdefault(point.name, []).append(point)
    return {name: _distinct(points) for name, points in found.items()}


def _distinct(points: list[EntryPoint]) -> list[EntryPoint]:
    if len(points) == 1:
        return points  # no metadata has to be read
    distinct: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda point: not is_built_in(point)):
        distinct.setdefault(point.value, point)
    return list(distinct.values())


def is_built_in(point: EntryPoint) -> bool:
    """Return whether a plugin is built in, so that its name is reserved."""
    return origin_of(point)[0] == _OURS


def origin_of(point: EntryPoint) -> tuple[str, str]:
    """Return name and version of a plugin's distribution; empty if unknown."""
    if point.dist is None:
        return "", ""
    try:
        return point.dist.name or "", point.dist.version or ""
    except Exception:  # noqa: BLE001 - its metadata is missing or broken
        return "", ""


def _points() -> Iterable[EntryPoint]:
    try:
        return entry_points(group=_GROUP)
    except Exception:  # noqa: BLE001 - some distribution's file, whatever is in it
        return _one_by_one()


def _one_by_one() -> Iterator[EntryPoint]:
    """Read each distribution separately, and leave out those that cannot be read."""
    for distribution in distributions():
        try:
            yield from distribution.entry_points.select(group=_GROUP)
        except Exception as error:  # noqa: BLE001 - as above
            warnings.warn(
                f"left out: a distribution's entry points cannot be read: {error}",
                TieredFSWarning,
                stacklevel=2,
            )
