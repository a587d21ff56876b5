"""Open a store in its layout: the one that is named, or the one that recognises it.

Only the plugin that is named is imported; when none is named, those whose recogniser is
asked.
"""

import difflib
import inspect
import re
import warnings
from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint
from itertools import islice
from typing import Final

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    PluginError,
    PluginNotInstalledError,
    TieredFSWarning,
    UnknownPluginError,
    UnsupportedFormatError,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.installed import ELSEWHERE, find_plugins, origin_of
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "check_layout",
    "load_plugin",
    "open_storage",
    "split_plugin_url",
]

NATIVE_LAYOUT: Final = "single-object"
"""The layout that is written where nothing is yet."""

_PAGE = 1000
_SHOWN = 3
_ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_PREFIXED = re.compile(r"([a-z][a-z0-9-]*)\+(.+)", re.DOTALL)


def load_plugin(name: str) -> type[RemoteStorageManager]:
    """Import one plugin, and no other.

    Args:
        name: What it is called, or ``module:Class`` where there is no entry point, as
            in a notebook or a test.

    Raises:
        UnknownPluginError: None has this name; the message lists those that do.
        PluginNotInstalledError: It is a distribution of its own, which is missing; the
            message has the ``pip install``.
        PluginError: It cannot be imported, is no RemoteStorageManager, lacks one of its
            methods, or two distributions bring it.
    """
    if ":" in name:
        point = EntryPoint(name, name, "")
        if not _ATTRIBUTE.fullmatch(name):
            raise UnknownPluginError(f"not a plugin: {name!r} is no module:Class")
        return _imported(name, point, "")
    points = find_plugins()
    if name not in points:
        raise _unknown(name, points)
    if len(points[name]) > 1:
        both = " and ".join(point.value for point in points[name])
        msg = f"several plugins are called {name!r}: {both}"
        raise PluginError(msg)
    (point,) = points[name]
    return _imported(name, point, origin_of(point)[0])


def _unknown(name: str, installed: Collection[str]) -> PluginError:
    if name in ELSEWHERE:
        msg = f"plugin {name!r} is not installed: pip install {ELSEWHERE[name]}"
        return PluginNotInstalledError(msg)
    near = difflib.get_close_matches(name, [*installed, *ELSEWHERE], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    msg = f"no plugin is called {name!r}{hint}; installed: {', '.join(installed)}"
    return UnknownPluginError(msg)


def _imported(
    name: str, point: EntryPoint, distribution: str
) -> type[RemoteStorageManager]:
    """Import a plugin's class and see that it is one.

    A plugin is not ours and may do anything, such as end the process.
    """
    source = f" of {distribution}" if distribution else ""
    try:
        plugin = point.load()
    except (Exception, SystemExit) as error:
        msg = f"plugin {name!r}{source} cannot be imported: {error!s}"
        raise PluginError(msg) from error
    where = "" if name == point.value else f" ({point.value})"
    if not (inspect.isclass(plugin) and issubclass(plugin, RemoteStorageManager)):
        msg = f"plugin {name!r}{where} is not a RemoteStorageManager"
        raise PluginError(msg)
    if inspect.isabstract(plugin):
        missing = ", ".join(sorted(plugin.__abstractmethods__))
        msg = f"plugin {name!r}{where} lacks the methods {missing}"
        raise PluginError(msg)
    return plugin


def split_plugin_url(url: str) -> tuple[str | None, str]:
    """Split ``name+url`` into the plugin's name and the URL; None when none is named.

    The name is one if what follows is a URL or if a plugin is called so: a local path
    may have a plus.
    """
    match = _PREFIXED.fullmatch(url)
    if match and ("://" in match[2] or match[1] in {*find_plugins(), *ELSEWHERE}):
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
    for name in find_plugins():
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
            f"(it begins with {seen}); installed: {', '.join(scores)}{_more(scores)}"
        )
        raise UnsupportedFormatError(msg)
    if len(winners) > 1:
        msg = f"{store.url}: {' and '.join(winners)} both recognise it: name one"
        raise PluginError(msg)
    return scores[winners[0]][1]


def _more(installed: Collection[str]) -> str:
    """Name the distributions that bring plugins which are not installed."""
    missing = [ELSEWHERE[name] for name in ELSEWHERE if name not in installed]
    return f"; to be had: pip install {' '.join(missing)}" if missing else ""


def _score(name: str, kind: type[RemoteStorageManager], keys: Collection[str]) -> float:
    """Ask a plugin's recogniser, which is not ours and may do anything."""
    try:
        score = kind.recognises(keys)
        if score >= 0:  # so it is a number, and not NaN
            return float(score)
    except (Exception, SystemExit) as error:
        msg = f"plugin {name!r}: its recogniser fails: {error}"
        raise PluginError(msg) from error
    msg = f"plugin {name!r}: its recogniser answers {score!r}"
    raise PluginError(msg)
