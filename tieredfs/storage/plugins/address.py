"""The URL and layout of a storage, from all the sources that can give them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from tieredfs.arguments import to_mapping, to_path, to_text
from tieredfs.errors import InvalidArgumentError
from tieredfs.storage.plugins.registry import split_plugin_url

__all__ = ["StorageAddress"]

_OWN: Final = "tieredfs"
"""Name of our own storage option; fsspec takes one per part of a chained URL."""

_KNOWN: Final = ("plugin", "plugin_options")


@dataclass(frozen=True, slots=True)
class StorageAddress:
    """A URL, and what to open it with.

    Attributes:
        url: The fsspec URL, without a plugin prefix.
        storage_options: Those of fsspec, without ours.
        plugin: Name of the layout; None to detect it.
        plugin_options: Options of the layout.
    """

    url: str
    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    plugin: str | None = None
    plugin_options: Mapping[str, object] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        url: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, object] | None = None,
        plugin: str | None = None,
        plugin_options: Mapping[str, object] | None = None,
    ) -> Self:
        """Build an address from what a user gave.

        The plugin is named in front of the URL (``name+url``), by ``plugin``, or in the
        storage options, ``tieredfs={"plugin": name}``; what is named twice has to be
        the same.

        Raises:
            InvalidArgumentError: Two plugins are named, an argument is of another type,
                or the storage option ``tieredfs`` is invalid.
        """
        in_url, plain = split_plugin_url(to_path(url, "the URL of a tier"))
        rest = dict(to_mapping(storage_options, "storage_options"))
        given = to_mapping(plugin_options, "plugin_options")
        own = _own(rest.pop(_OWN, None))
        in_options = own.get("plugin")
        named = {
            "the URL": in_url,
            "the storage option tieredfs": in_options,
            "the option plugin": None if plugin is None else to_text(plugin, "plugin"),
        }
        said = {source: name for source, name in named.items() if name}
        if len(set(said.values())) > 1:
            both = ", ".join(f"{each} names plugin {n!r}" for each, n in said.items())
            raise InvalidArgumentError(both)
        options = {**_mapping(own.get("plugin_options")), **given}
        chosen = next(iter(said.values()), None)
        return cls(plain, rest, None if chosen is None else str(chosen), options)


def _own(given: object) -> Mapping[str, object]:
    own = _mapping(given)
    unknown = [name for name in own if name not in _KNOWN]
    if unknown or not isinstance(own.get("plugin", ""), str):
        wrong = f"an unknown key {unknown[0]!r}" if unknown else "no name of a plugin"
        msg = f"the storage option tieredfs has {wrong}; its keys: {', '.join(_KNOWN)}"
        raise InvalidArgumentError(msg)
    return own


def _mapping(given: object) -> Mapping[str, object]:
    """Return ``given`` if it is a mapping; errors omit it, as it may hold secrets."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        msg = "the storage option tieredfs, or its plugin_options, is not a mapping"
        raise InvalidArgumentError(msg)
    return given
