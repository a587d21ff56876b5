"""Detect the key prefix of a store, if it is not given.

The plugin's ``key.prefix`` is a setting of the broker that no object repeats, so it is
seen in the listing; and, as it need not end in a slash, in a manifest, which has the
topic's name without it. A store with several holds the tiers of several clusters, or of
one whose setting was changed: then only the user knows which is meant. No prefix is the
plugin's default, so topics below no folder are read, with a warning that names the
prefixes which are not.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from tieredfs import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    TieredFSWarning,
    UnsupportedFormatError,
)
from tieredfs_aiven.manifest import parse_manifest
from tieredfs_aiven.object_names import ObjectKey, Suffix, parse_key, parse_partition

__all__ = ["find_prefix", "warn_of_others"]

_MAX_PAGE_KEYS: Final = 1000
_MAX_FOLDERS: Final = 64
"""Most folders that are searched: there may be any number of foreign objects."""


@dataclass(slots=True)
class _Tier:
    """The listed part of the tier of one prefix.

    Attributes:
        folders: Folders of its topics, as whole keys that end in a slash.
        keys: Keys of some objects of segments; empty while none was listed.
    """

    folders: dict[str, None] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


def find_prefix(store: ObjectStore) -> str | None:
    """Return the prefix that the keys of a store have; None if there are no segments.

    It takes a listing and a manifest; where the store has more than a page of objects,
    a listing of each folder that is not a topic's. Topics below no folder come before
    those of prefixes with a slash, and a warning names these.

    Raises:
        InvalidArgumentError: There are several prefixes, and none of them is empty.
    """
    found, is_complete = _search(store)
    if not found:
        entries = store.list(delimiter="/")
        folders = (entry.key[:-1] for entry in entries if entry.is_prefix)
        return "" if any(parse_partition(folder, "0") for folder in folders) else None
    if "" not in found and len(found) > 1:
        raise _several(store, sorted(found))
    place = "" if "" in found else next(iter(found))
    prefix = f"{place}{_beginning(store, found[place])}"
    others = [f for f in found[place].folders if not f.startswith(prefix)]
    if any(_segment_keys(store, folder) for folder in others):
        raise _several(store, [prefix, "others"])
    _warn(store, f"reading the key prefix {prefix!r}", sorted(found.keys() - {place}))
    if not is_complete:
        warnings.warn(
            f"{store.url}: reading the key prefix {prefix!r}; there are too many "
            "folders to look for others: name it by the option key_prefix",
            TieredFSWarning,
            stacklevel=2,
        )
    return prefix


def warn_of_others(store: ObjectStore, prefix: str) -> None:
    """Warn if the store has segments, none of them under the prefix that was given."""
    found, _ = _search(store)
    _warn(store, f"nothing has the key prefix {prefix!r}", sorted(found))


def _warn(store: ObjectStore, what: str, others: Sequence[str]) -> None:
    if others:
        warnings.warn(
            f"{store.url}: {what}; topics under {', '.join(map(repr, others))} are "
            "left out: the option key_prefix chooses one",
            TieredFSWarning,
            stacklevel=3,
        )


def _search(store: ObjectStore) -> tuple[dict[str, _Tier], bool]:
    """Return the tiers by their prefixes, and whether every folder was searched.

    If a prefix does not end in a slash, the part after its last slash is read as the
    beginning of its topics.
    """
    page = [entry.key for entry in islice(store.list(), _MAX_PAGE_KEYS)]
    if len(page) < _MAX_PAGE_KEYS:
        return _tiers_of(page), True
    found: dict[str, _Tier] = {}
    places = deque([""])
    looked = 0
    while places and looked < _MAX_FOLDERS:
        place = places.popleft()
        looked += 1
        tier = _Tier()
        for entry in store.list(place, delimiter="/"):
            if not entry.is_prefix:
                continue
            if parse_partition(entry.key[len(place) : -1], "0"):
                tier.folders[entry.key] = None
            else:
                places.append(entry.key)
        # A folder of another layout may have such a name.
        keys = (_segment_keys(store, folder) for folder in tier.folders)
        tier.keys = next((some for some in keys if some), [])
        if tier.keys:
            found[place] = tier
    return found, not places


def _tiers_of(keys: Iterable[str]) -> dict[str, _Tier]:
    found: dict[str, _Tier] = {}
    for text in keys:
        key = parse_key(text)
        if key is not None:
            tier = found.setdefault(key.prefix, _Tier())
            tier.keys.append(text)
            topic = text[len(key.prefix) :].partition("/")[0]
            tier.folders[f"{key.prefix}{topic}/"] = None
    return found


def _segment_keys(store: ObjectStore, folder: str) -> list[str]:
    """Return the first keys in a topic's folder that are objects of segments.

    There are none in a folder that may not be listed: it hides no other one.
    """
    try:
        page = [entry.key for entry in islice(store.list(folder), _MAX_PAGE_KEYS)]
    except PermissionDeniedError:
        return []
    return [key for key in page if parse_key(key) is not None]


def _beginning(store: ObjectStore, tier: _Tier) -> str:
    """Return the part of the topic folders' names that belongs to the prefix.

    Raises:
        PermissionDeniedError: No topic may be read.
    """
    denied: PermissionDeniedError | None = None
    for key, text in _manifests(store, tier):
        topic = key.partition.topic
        try:
            segment = parse_manifest(store.get(text), text).segment
        except PermissionDeniedError as error:
            denied = error
            continue
        except (NotFoundError, CorruptDataError, UnsupportedFormatError):
            return ""  # the error is raised when this segment is read
        if segment is not None and topic.endswith(segment.partition.topic):
            return topic.removesuffix(segment.partition.topic)
        return ""
    if denied is not None:
        raise denied
    return ""


def _manifests(store: ObjectStore, tier: _Tier) -> Iterator[tuple[ObjectKey, str]]:
    """Yield a manifest of each topic: its key as it is parsed, and as it is listed."""
    listed = (_segment_keys(store, folder) for folder in tier.folders)
    seen: set[str] = set()
    for text in chain(tier.keys, chain.from_iterable(listed)):
        key = parse_key(text)
        if (
            key is not None
            and key.name.suffix is Suffix.MANIFEST
            and key.partition.topic not in seen
        ):
            seen.add(key.partition.topic)
            yield key, text


def _several(store: ObjectStore, prefixes: Sequence[str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{store.url}: the keys have several prefixes: "
        f"{', '.join(map(repr, prefixes))}; name one by the option key_prefix"
    )
