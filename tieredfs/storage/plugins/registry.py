"""Open a store in its layout: the named one, or the one that recognises it.

Only the named plugin is imported. When no plugin is named, those are imported whose
recogniser is called.
"""

import difflib
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint
from itertools import islice
from typing import Final

from tieredfs.arguments import to_mapping, to_text
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
from tieredfs.format.segment.key_scheme import MANAGER_FOLDER
from tieredfs.objects import MAX_PAGE_KEYS, ObjectStore
from tieredfs.storage.contract import Capability, RemoteStorageManager
from tieredfs.storage.plugins.installed import (
    BUILT_IN,
    ELSEWHERE,
    PluginInfo,
    find_plugins,
    is_built_in,
    origin_of,
    read_plugins,
)
from tieredfs.storage.plugins.nearby import nearby_urls
from tieredfs.storage.plugins.plugin_class import PluginClass
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "check_layout",
    "check_plugin",
    "check_target",
    "compressed",
    "detect_layout",
    "open_storage",
    "split_plugin_url",
]

NATIVE_LAYOUT: Final = "single-object"
"""The layout that is written at a URL without objects."""

_MAX_SHOWN = 3
_ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_AFTER_MANAGERS = f"{MANAGER_FOLDER[:-1]}0"
"""A key after all those of managers: 0 follows the slash."""

_MIN_SIMILARITY = 0.6
"""Minimum similarity of a name for the hint "did you mean", from 0 to 1."""
_PREFIXED = re.compile(r"([a-z][a-z0-9-]*)\+(.+)", re.DOTALL)


def _load(name: str) -> PluginClass:
    if ":" in to_text(name, "plugin"):
        point = EntryPoint(name, name, "")
        if not _ATTRIBUTE.fullmatch(name):
            raise UnknownPluginError(f"not a plugin: {name!r} is not module:Class")
        return PluginClass.load(name, point, "")
    point = BUILT_IN[name] if name in BUILT_IN else _found(name)[0]
    return PluginClass.load(name, point, origin_of(point)[0])


def check_plugin(info: PluginInfo) -> frozenset[Capability]:
    """Import an installed plugin, and return the capabilities of its class.

    Raises:
        PluginError: It cannot be used, or a built-in plugin has its name.
    """
    point = _found(info.name)[0]
    if point.value != info.value:
        raise PluginError(_shadowed(info.name, info.distribution))
    return PluginClass.load(info.name, point, info.distribution).capabilities


def _found(name: str) -> Sequence[EntryPoint]:
    """Return the plugin of a name, and those it shadows."""
    points = find_plugins()
    if name not in points:  # it may have been half installed when they were read
        points = read_plugins()
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

    The prefix is taken for a plugin's name if the rest is a URL, or if a plugin has
    this name or a similar one: a local path may contain a plus, but then no plugin has
    such a name.
    """
    match = _PREFIXED.fullmatch(url)
    if match is None:
        return None, url
    if "://" in match[2] or match[1] in BUILT_IN:
        return match[1], match[2]
    names = [*find_plugins(), *ELSEWHERE]
    if match[1] in names or (_near(match[1], names) and not os.path.lexists(url)):
        return match[1], match[2]
    return None, url


def _near(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(names), n=1, cutoff=_MIN_SIMILARITY)


def open_storage(
    store: ObjectStore,
    plugin: str | None = None,
    options: Mapping[str, object] | None = None,
) -> RemoteStorageManager:
    """Open a store in its layout.

    Args:
        store: Where the segments are.
        plugin: Name of the layout, or ``module:Class`` where there is no entry point,
            as in a notebook or a test; None to detect it from one page of keys.
        options: Options of the plugin.

    Raises:
        UnknownPluginError: No plugin has this name; the message lists the names.
        PluginNotInstalledError: It is a distribution of its own, which is missing; the
            message has the ``pip install``.
        NotFoundError: The store is empty, so no layout can be detected.
        UnsupportedFormatError: No plugin recognises the keys.
        PluginError: Several plugins recognise it equally well, or two layouts are
            stored side by side; the message has the URLs that name one. Or the plugin
            cannot be used.
        InvalidArgumentError: An option is missing, unknown or wrong; the message lists
            the plugin's options. Or the URL is a level off; the message has the right
            one.
    """
    chosen = _detect(store) if plugin is None else _load(plugin)
    return chosen.open(store, to_mapping(options, "the options of a plugin"))


def detect_layout(store: ObjectStore) -> str:
    """Return the name of the layout that is detected from one page of keys.

    Raises:
        TieredFSError: As ``open_storage``, if none or several are.
    """
    return _detect(store).name


def check_layout(storage: RemoteStorageManager) -> None:
    """Raise an error if a storage without topics is empty or of another layout.

    Raises:
        NotFoundError: The store is empty.
        UnsupportedFormatError: No object is of the layout.
        InvalidArgumentError: The URL is a level off; the message has the right one.
        PluginError: The layout's recogniser fails.
    """
    keys = _first_keys(storage.store)
    if not keys:
        raise _empty_error(storage.store)
    asked = _layout_of(storage)
    if asked.recognises(keys) <= 0:
        _check_place(storage.store, keys, [asked])
        seen = ", ".join(keys[:_MAX_SHOWN])
        msg = f"{storage!r}: no object is of this layout (the first are {seen})"
        raise UnsupportedFormatError(msg)


def check_target(storage: RemoteStorageManager) -> None:
    """Raise an error if segments of another layout are stored where these would be put.

    Nothing could be opened there afterwards without naming the layout. A layout without
    a recogniser cannot be distinguished from others, and passes.

    Raises:
        InvalidArgumentError: Another installed layout recognises the keys.
        NotFoundError: The bucket or container does not exist.
    """
    keys = _first_keys(storage.store)
    asked = _layout_of(storage)
    if not keys or not asked.has_recogniser or asked.recognises(keys) > 0:
        return
    for name in find_plugins():
        with suppress(PluginError):
            if _load(name).recognises(keys) > 0:
                raise InvalidArgumentError(
                    f"{storage!r}: a tier of the layout {name!r} is stored there: give "
                    "that plugin or none, or another URL"
                )


def compressed(
    storage: RemoteStorageManager, compression: str, options: Mapping[str, object]
) -> RemoteStorageManager:
    """Return the same storage, which compresses the logs that are copied to it.

    Args:
        storage: A storage without a wrapper.
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
            f"compressed with {compression}; omit compression, or give a URL at which "
            "nothing is stored yet"
        )
    return layout.open(storage.store, {**options, "compression": compression})


def _layout_of(storage: RemoteStorageManager) -> PluginClass:
    while isinstance(storage, StorageWrapper):
        storage = storage.inner
    return PluginClass(type(storage).__name__, type(storage), storage.capabilities)


def _detect(store: ObjectStore) -> PluginClass:
    keys = _first_keys(store)
    if not keys:
        raise _empty_error(store)
    scores: dict[str, tuple[float, PluginClass]] = {}
    for name, (_, *shadowed) in find_plugins().items():
        for point in shadowed if name in BUILT_IN else ():
            msg = f"left out: {_shadowed(name, origin_of(point)[0])}"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)
        try:
            plugin = _load(name)
            scores[name] = plugin.recognises(keys), plugin
        except PluginError as error:
            warnings.warn(f"left out: {error}", TieredFSWarning, stacklevel=2)
    claims = {name: (score, p) for name, (score, p) in scores.items() if score > 0}
    if not claims:
        _check_place(store, keys, [plugin for _, plugin in scores.values()])
        seen = ", ".join(keys[:_MAX_SHOWN])
        msg = (
            f"{store.url}: no installed plugin recognises the keys "
            f"(the first are {seen}); installed: {', '.join(scores)}{_more(scores)}"
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
            f"{store.url}: {' and '.join(rivals)} recognise the keys: give "
            f"{' or '.join(f'{name}+{store.url}' for name in rivals)}"
        )
        raise PluginError(msg)
    return winner


def _empty_error(store: ObjectStore) -> NotFoundError:
    """Return the error for a store without objects."""
    path = store.local_path
    is_file = path is not None and path.is_file()
    why = (
        "it is a file, not the directory of a tier" if is_file else "the store is empty"
    )
    return NotFoundError(f"not found: {store.url}: {why}")


def _is_beside(plugin: PluginClass, winner: PluginClass, keys: tuple[str, ...]) -> bool:
    """Return whether another layout is stored beside the best match for a page.

    It is if the plugin scores the keys that are not the winner's as high as the winner
    scores its own. A layout that is part of the winner's has no keys of its own, and a
    guess scores less.
    """
    mine = _own_keys(winner, keys) or keys  # or it scores a page as a whole
    its = _own_keys(plugin, set(keys).difference(mine))
    return bool(its) and _score(plugin, its) >= _score(winner, mine)


def _own_keys(plugin: PluginClass, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that a plugin recognises one by one."""
    return tuple(key for key in sorted(keys) if _score(plugin, (key,)) > 0)


def _first_keys(store: ObjectStore) -> tuple[str, ...]:
    """List one page of keys, skipping folders that may not be read.

    What managers have noted is skipped too: it is the same in every layout.
    """
    try:
        keys = [entry.key for entry in islice(store.list(), MAX_PAGE_KEYS)]
        if any(key.startswith(MANAGER_FOLDER) for key in keys):
            keys = [key for key in keys if key < MANAGER_FOLDER]
            after = store.list(start_after=_AFTER_MANAGERS)
            keys += (entry.key for entry in islice(after, MAX_PAGE_KEYS - len(keys)))
        return tuple(keys)
    except PermissionDeniedError:
        keys = []
        for entry in store.list(delimiter="/"):
            with suppress(PermissionDeniedError):
                inside = store.list(entry.key) if entry.is_prefix else [entry]
                ours = (e.key for e in inside if not e.key.startswith(MANAGER_FOLDER))
                keys += islice(ours, MAX_PAGE_KEYS - len(keys))
        if not keys:
            raise
        return tuple(keys)


def _check_place(
    store: ObjectStore, keys: tuple[str, ...], plugins: Iterable[PluginClass]
) -> None:
    """Check that the URL is not inside a tier, or a folder that contains one.

    Raises:
        InvalidArgumentError: It is; the message has the right URL.
    """

    def is_known(page: tuple[str, ...]) -> bool:
        return any(_score(plugin, page) > 0 for plugin in plugins)

    found = nearby_urls(store.url, keys, is_known)
    if found:
        urls = " or ".join(found[:_MAX_SHOWN])
        more = (
            f", or one of {len(found) - _MAX_SHOWN} more" if found[_MAX_SHOWN:] else ""
        )
        msg = f"{store.url}: no tier begins here: give {urls}{more}"
        raise InvalidArgumentError(msg)


def _score(plugin: PluginClass, keys: tuple[str, ...]) -> float:
    try:
        return plugin.recognises(keys)
    except PluginError:  # it has already scored the URL itself
        return 0.0


def _more(installed: Collection[str]) -> str:
    """Return a hint with the distributions of plugins that are not installed."""
    missing = [ELSEWHERE[name] for name in ELSEWHERE if name not in installed]
    return f"; more plugins: pip install {' '.join(missing)}" if missing else ""
