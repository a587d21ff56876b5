"""Open a store in its layout: the one that is named, or the one that recognises it.

Only the plugin that is named is imported; when none is named, those whose recogniser is
asked.
"""

import difflib
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint
from itertools import islice
from typing import Final

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    PluginError,
    PluginNotInstalledError,
    TieredFSWarning,
    UnknownPluginError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.capability import Capability
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.plugins.installed import (
    ELSEWHERE,
    PluginInfo,
    find_plugins,
    is_built_in,
    origin_of,
)
from tieredfs.storage.plugins.nearby import nearby_urls
from tieredfs.storage.plugins.plugin_class import PluginClass
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "check_layout",
    "check_plugin",
    "compressed",
    "load_plugin",
    "open_storage",
    "split_plugin_url",
]

NATIVE_LAYOUT: Final = "single-object"
"""The layout that is written where nothing is yet."""

_PAGE = 1000
_SHOWN = 3
_ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_ALIKE = 0.6
"""How like a name another one must be to be meant: difflib's own measure."""
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
            methods, its capabilities are none, or two distributions bring it
            and neither is this one.
    """
    return _load(name).kind


def _load(name: str) -> PluginClass:
    if ":" in name:
        point = EntryPoint(name, name, "")
        if not _ATTRIBUTE.fullmatch(name):
            raise UnknownPluginError(f"not a plugin: {name!r} is no module:Class")
        return PluginClass.load(name, point, "")
    point, *others = _found(name)
    for other in others:
        msg = f"left out: {_shadowed(name, origin_of(other)[0])}"
        warnings.warn(msg, TieredFSWarning, stacklevel=2)
    return PluginClass.load(name, point, origin_of(point)[0])


def check_plugin(info: PluginInfo) -> frozenset[Capability]:
    """Import one plugin that is installed, and return what its class can do.

    Raises:
        PluginError: It cannot be used, or a built-in plugin has its name.
    """
    point = _found(info.name)[0]
    if point.value != info.value:
        raise PluginError(_shadowed(info.name, info.distribution))
    return PluginClass.load(info.name, point, info.distribution).capabilities


def _found(name: str) -> list[EntryPoint]:
    """Return the plugin of a name, and those it keeps from being it."""
    points = find_plugins()
    if name not in points:
        raise _unknown(name, points)
    found = points[name]
    if len(found) > 1 and not is_built_in(found[0]):
        both = " and ".join(point.value for point in found)
        msg = f"several plugins are called {name!r}: {both}"
        raise PluginError(msg)
    return found


def _shadowed(name: str, distribution: str) -> str:
    return f"plugin {name!r} of {distribution} has the name of a built-in plugin"


def _unknown(name: str, installed: Collection[str]) -> PluginError:
    if name in ELSEWHERE:
        msg = f"plugin {name!r} is not installed: pip install {ELSEWHERE[name]}"
        return PluginNotInstalledError(msg)
    near = _near(name, [*installed, *ELSEWHERE])
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    msg = f"no plugin is called {name!r}{hint}; installed: {', '.join(installed)}"
    return UnknownPluginError(msg)


def split_plugin_url(url: str) -> tuple[str | None, str]:
    """Split ``name+url`` into the plugin's name and the URL; None when none is named.

    The name is one if what follows is a URL or if a plugin is called so, or nearly so:
    a local path may have a plus, but nothing of that name is there.
    """
    match = _PREFIXED.fullmatch(url)
    if match is None:
        return None, url
    names = [*find_plugins(), *ELSEWHERE]
    is_name = "://" in match[2] or match[1] in names
    if is_name or (_near(match[1], names) and not os.path.lexists(url)):
        return match[1], match[2]
    return None, url


def _near(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(names), n=1, cutoff=_ALIKE)


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
        PluginError: Several plugins recognise it equally well, or two layouts lie
            there side by side; the message has the URLs that name one. Or the plugin
            cannot be used.
        InvalidArgumentError: An option is missing, unknown or wrong; the message lists
            the plugin's own. Or the URL is a level off; the message has the right one.
    """
    chosen = _detect(store) if plugin is None else _load(plugin)
    return chosen.open(store, options or {})


def check_layout(storage: RemoteStorageManager) -> None:
    """Check that a storage in which no topic was found is not a mistake.

    Raises:
        NotFoundError: Nothing is there.
        UnsupportedFormatError: What is there is not of the layout.
        InvalidArgumentError: The URL is a level off; the message has the right one.
        PluginError: The layout's recogniser fails.
    """
    keys = _first_keys(storage.store)
    if not keys:
        msg = f"not found: {storage.store.url}: there is nothing"
        raise NotFoundError(msg)
    asked = _layout_of(storage)
    if asked.recognises(keys) <= 0:
        _check_place(storage.store, keys, [asked])
        seen = ", ".join(keys[:_SHOWN])
        msg = f"{storage!r}: nothing of this layout is there (it begins with {seen})"
        raise UnsupportedFormatError(msg)


def compressed(
    storage: RemoteStorageManager, compression: str, options: Mapping[str, object]
) -> RemoteStorageManager:
    """Return the same storage, with the logs that are copied to it compressed.

    Args:
        storage: One without a wrapper.
        compression: The value of the layout's option ``compression``.
        options: The layout's other options, with which it was opened.

    Raises:
        UnsupportedOperationError: The layout has no such option.
        InvalidArgumentError: It has no such value.
    """
    layout = _layout_of(storage)
    if not layout.takes("compression"):
        raise UnsupportedOperationError(
            f"{storage!r} keeps logs as the broker wrote them: they cannot be "
            f"compressed with {compression}; leave that out, or give a URL at which "
            "nothing is yet"
        )
    return layout.open(storage.store, {**options, "compression": compression})


def _layout_of(storage: RemoteStorageManager) -> PluginClass:
    while isinstance(storage, StorageWrapper):
        storage = storage.inner
    return PluginClass(type(storage).__name__, type(storage), storage.capabilities)


def _detect(store: ObjectStore) -> PluginClass:
    keys = _first_keys(store)
    if not keys:
        msg = f"not found: {store.url}: there is nothing"
        raise NotFoundError(msg)
    scores: dict[str, tuple[float, PluginClass]] = {}
    for name in find_plugins():
        try:
            plugin = _load(name)
            scores[name] = plugin.recognises(keys), plugin
        except PluginError as error:
            warnings.warn(f"left out: {error}", TieredFSWarning, stacklevel=2)
    claims = {name: (score, p) for name, (score, p) in scores.items() if score > 0}
    if not claims:
        _check_place(store, keys, [plugin for _, plugin in scores.values()])
        seen = ", ".join(keys[:_SHOWN])
        msg = (
            f"{store.url}: no installed plugin recognises what is there "
            f"(it begins with {seen}); installed: {', '.join(scores)}{_more(scores)}"
        )
        raise UnsupportedFormatError(msg)
    highest, winner = max(claims.values(), key=lambda claim: claim[0])
    rivals = [
        name
        for name, (score, plugin) in claims.items()
        if score == highest or _is_beside(plugin, winner, keys)
    ]
    if len(rivals) > 1:
        msg = (
            f"{store.url}: {' and '.join(rivals)} recognise what is there: give "
            f"{' or '.join(f'{name}+{store.url}' for name in rivals)}"
        )
        raise PluginError(msg)
    return winner


def _is_beside(plugin: PluginClass, winner: PluginClass, keys: tuple[str, ...]) -> bool:
    """Tell whether a layout lies beside the one that recognises a page best.

    It does where the plugin is as sure of keys that are not the winner's as that is of
    its own: a part of a layout has no keys of its own, and a guess is less sure.
    """
    mine = _own_keys(winner, keys) or keys  # or it judges a page as a whole
    its = _own_keys(plugin, set(keys).difference(mine))
    return bool(its) and _score(plugin, its) >= _score(winner, mine)


def _own_keys(plugin: PluginClass, keys: Iterable[str]) -> tuple[str, ...]:
    """Return those of some keys that a plugin recognises, each by itself."""
    return tuple(key for key in sorted(keys) if _score(plugin, (key,)) > 0)


def _first_keys(store: ObjectStore) -> tuple[str, ...]:
    """List one page of keys; of folders that may not be read, those beside them."""
    try:
        return tuple(entry.key for entry in islice(store.list(), _PAGE))
    except PermissionDeniedError:
        keys: list[str] = []
        for entry in store.list(delimiter="/"):
            with suppress(PermissionDeniedError):
                inside = store.list(entry.key) if entry.is_prefix else [entry]
                keys += (each.key for each in islice(inside, _PAGE - len(keys)))
        if not keys:
            raise
        return tuple(keys)


def _check_place(
    store: ObjectStore, keys: tuple[str, ...], plugins: Iterable[PluginClass]
) -> None:
    """Check that what is there is not a part of a tier, or a folder with one in it.

    Raises:
        InvalidArgumentError: It is; the message says which URL to give.
    """

    def is_known(page: tuple[str, ...]) -> bool:
        return any(_score(plugin, page) > 0 for plugin in plugins)

    found = nearby_urls(store.url, keys, is_known)
    if found:
        places = " or ".join(found[:_SHOWN])
        more = f", or one of {len(found) - _SHOWN} more" if found[_SHOWN:] else ""
        msg = f"{store.url}: no tier begins here: give {places}{more}"
        raise InvalidArgumentError(msg)


def _score(plugin: PluginClass, keys: tuple[str, ...]) -> float:
    try:
        return plugin.recognises(keys)
    except PluginError:  # it has answered for the place itself
        return 0.0


def _more(installed: Collection[str]) -> str:
    """Name the distributions that bring plugins which are not installed."""
    missing = [ELSEWHERE[name] for name in ELSEWHERE if name not in installed]
    return f"; to be had: pip install {' '.join(missing)}" if missing else ""
