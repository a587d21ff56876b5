"""Where plugins are found: the entry points of the group ``tieredfs.plugins``.

A distribution registers a layout with ``name = "module:Class"``. Only the plugin that
is named is imported; when none is named, those whose recogniser is asked.
"""

import difflib
import inspect
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from typing import Final

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    PluginError,
    TieredFSWarning,
    UnknownPluginError,
    UnsupportedFormatError,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "PluginInfo",
    "check_layout",
    "installed_plugins",
    "load_plugin",
    "open_storage",
    "split_plugin_url",
]

NATIVE_LAYOUT: Final = "single-object"
"""The layout that is written where nothing is yet."""

_GROUP = "tieredfs.plugins"
_PAGE = 1000
_SHOWN = 3
_PREFIXED = re.compile(r"([a-z][a-z0-9-]*)\+(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin that is installed, whether it can be imported or not.

    Attributes:
        name: What it is called in URLs and options.
        value: Where its class is: ``module:Class``.
        distribution: The package that brings it.
        version: That package's version.
    """

    name: str
    value: str
    distribution: str
    version: str


def installed_plugins() -> list[PluginInfo]:
    """Return every plugin that is installed, sorted by name; none is imported."""
    return [
        PluginInfo(
            name,
            point.value,
            point.dist.name if point.dist else "",
            point.dist.version if point.dist else "",
        )
        for name, points in sorted(_points().items())
        for point in points
    ]


def load_plugin(name: str) -> type[RemoteStorageManager]:
    """Import one plugin.

    Raises:
        UnknownPluginError: None has this name; the message lists those that do.
        PluginError: It cannot be imported, is no RemoteStorageManager, lacks one of its
            methods, or two distributions bring it.
    """
    points = _points()
    if name not in points:
        near = difflib.get_close_matches(name, points, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        msg = f"no plugin is called {name!r}{hint}; installed: {', '.join(points)}"
        raise UnknownPluginError(msg)
    if len(points[name]) > 1:
        both = " and ".join(point.value for point in points[name])
        msg = f"several plugins are called {name!r}: {both}"
        raise PluginError(msg)
    point = points[name][0]
    try:
        plugin = point.load()
    except Exception as error:
        source = point.dist.name if point.dist else point.value
        msg = f"plugin {name!r} of {source} cannot be imported: {error}"
        raise PluginError(msg) from error
    if not (inspect.isclass(plugin) and issubclass(plugin, RemoteStorageManager)):
        msg = f"plugin {name!r} ({point.value}) is not a RemoteStorageManager"
        raise PluginError(msg)
    if inspect.isabstract(plugin):
        missing = ", ".join(sorted(plugin.__abstractmethods__))
        msg = f"plugin {name!r} ({point.value}) lacks the methods {missing}"
        raise PluginError(msg)
    return plugin


def split_plugin_url(url: str) -> tuple[str | None, str]:
    """Split ``name+url`` into the plugin's name and the URL; None when none is named.

    The name is one if what follows is a URL or if a plugin is called so: a local path
    may have a plus.
    """
    match = _PREFIXED.fullmatch(url)
    if match and ("://" in match[2] or match[1] in _points()):
        return match[1], match[2]
    return None, url


def open_storage(
    store: ObjectStore,
    plugin: str | None = None,
    options: Mapping[str, object] | None = None,
) -> RemoteStorageManager:
    """Open a store in the layout it has.

    Args:
        store: Where the segments are.
        plugin: The layout; None to find it out from one page of keys.
        options: The plugin's own.

    Raises:
        NotFoundError: Nothing is there, so there is nothing to find out.
        UnsupportedFormatError: No plugin recognises what is there.
        PluginError: Two plugins recognise it equally well, or one cannot be imported.
        InvalidArgumentError: The plugin has no such option; the message lists its own.
    """
    kind = _detect(store) if plugin is None else load_plugin(plugin)
    given = dict(options or {})
    parameters = list(inspect.signature(kind).parameters.values())[1:]
    known = [parameter.name for parameter in parameters]
    unknown = [name for name in given if name not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        msg = f"{kind.__name__} has no option {unknown[0]!r}; its options: {listed}"
        raise InvalidArgumentError(msg)
    return kind(store, **given)


def check_layout(storage: RemoteStorageManager) -> None:
    """Check that a storage in which no topic was found is not a mistake.

    Raises:
        NotFoundError: Nothing is there.
        UnsupportedFormatError: What is there is not of the layout.
    """
    keys = [entry.key for entry in islice(storage.store.list(), _PAGE)]
    if not keys:
        msg = f"not found: {storage.store.url}: there is nothing"
        raise NotFoundError(msg)
    inner = storage
    while isinstance(inner, StorageWrapper):
        inner = inner.inner
    if inner.recognises(keys) <= 0:
        seen = ", ".join(keys[:_SHOWN])
        msg = f"{storage!r}: nothing of this layout is there (it begins with {seen})"
        raise UnsupportedFormatError(msg)


def _detect(store: ObjectStore) -> type[RemoteStorageManager]:
    keys = [entry.key for entry in islice(store.list(), _PAGE)]
    if not keys:
        msg = f"not found: {store.url}: there is nothing"
        raise NotFoundError(msg)
    scores: dict[str, tuple[float, type[RemoteStorageManager]]] = {}
    for name in _points():
        try:
            kind = load_plugin(name)
            scores[name] = _score(name, kind, keys), kind
        except PluginError as error:
            warnings.warn(f"left out: {error}", TieredFSWarning, stacklevel=2)
    best = max((score for score, _ in scores.values()), default=0.0)
    winners = [name for name, (score, _) in scores.items() if score == best]
    if best <= 0:
        seen = ", ".join(keys[:_SHOWN])
        msg = (
            f"{store.url}: no installed plugin recognises what is there "
            f"(it begins with {seen}); installed: {', '.join(scores)}"
        )
        raise UnsupportedFormatError(msg)
    if len(winners) > 1:
        msg = f"{store.url}: {' and '.join(winners)} both recognise it: name one"
        raise PluginError(msg)
    return scores[winners[0]][1]


def _score(name: str, kind: type[RemoteStorageManager], keys: Collection[str]) -> float:
    """Ask a plugin's recogniser, which is not ours and may do anything."""
    try:
        score = kind.recognises(keys)
        if score >= 0:  # so it is a number, and not NaN
            return float(score)
    except Exception as error:
        msg = f"plugin {name!r}: its recogniser fails: {error}"
        raise PluginError(msg) from error
    msg = f"plugin {name!r}: its recogniser answers {score!r}"
    raise PluginError(msg)


def _points() -> dict[str, list[EntryPoint]]:
    """Return the entry points by name; one that is found twice comes once."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=_GROUP):
        known = found.setdefault(point.name, [])
        if point.value not in {other.value for other in known}:
            known.append(point)
    return found
