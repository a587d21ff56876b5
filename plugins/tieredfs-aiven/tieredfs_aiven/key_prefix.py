"""Which prefix the keys of a store have, where nobody has said it.

The plugin's ``key.prefix`` is a setting of the broker that no object repeats, so it is
seen in the listing; and, as it need not end in a slash, in a manifest, which has the
topic's name without it. A store with several holds the tiers of several clusters, or of
one whose setting was changed: then only the user knows which is meant.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from tieredfs import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    UnsupportedFormatError,
)
from tieredfs_aiven.manifest import parse_manifest
from tieredfs_aiven.object_names import ObjectKey, Suffix, parse_key, parse_partition

__all__ = ["find_prefix"]

_PAGE: Final = 1000
_PAGES: Final = 16  # strangers' objects may lie between the prefixes, without end


def find_prefix(store: ObjectStore) -> str | None:
    """Return the prefix that the keys of a store have; None if there are no segments.

    It takes a listing and a manifest. Topics below no folder come before those of
    prefixes with a slash: no prefix is the plugin's default.

    Raises:
        InvalidArgumentError: There are several.
    """
    found: dict[str, dict[str, ObjectKey]] = {}
    for page in _pages(store):
        for text in page:
            key = parse_key(text)
            if key is not None:
                found.setdefault(key.prefix, {})[text] = key
        if "" in found:
            break
    if not found:
        entries = store.list(delimiter="/")
        folders = (entry.key[:-1] for entry in entries if entry.is_prefix)
        return "" if any(parse_partition(folder, "0") for folder in folders) else None
    if "" not in found and len(found) > 1:
        raise _several(store, list(found))
    prefix = "" if "" in found else next(iter(found))
    whole = f"{prefix}{_beginning(store, found[prefix])}"
    if not all(text.startswith(whole) for text in found[prefix]):
        raise _several(store, [whole, "others"])
    return whole


def _pages(store: ObjectStore) -> Iterator[Sequence[str]]:
    """Yield keys of a store, a page at a time; of each prefix, a page or two."""
    after = ""
    for _ in range(_PAGES):
        page = [entry.key for entry in islice(store.list(start_after=after), _PAGE)]
        yield page
        if len(page) < _PAGE:
            return
        last = parse_key(page[-1])
        # All that begins with the prefix sorts before what has the next letter there.
        after = f"{last.prefix[:-1]}0" if last and last.prefix else page[-1]


def _beginning(store: ObjectStore, keys: dict[str, ObjectKey]) -> str:
    """Return what a manifest does not know of the topic's name: it is the prefix's."""
    for text, key in keys.items():
        if key.name.suffix is Suffix.MANIFEST:
            try:
                segment = parse_manifest(store.get(text), text).segment
            except (NotFoundError, CorruptDataError, UnsupportedFormatError):
                return ""  # whoever reads this segment will be told
            topic = key.partition.topic
            if segment is not None and topic.endswith(segment.partition.topic):
                return topic.removesuffix(segment.partition.topic)
            return ""
    return ""


def _several(store: ObjectStore, prefixes: Sequence[str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{store.url}: the keys have several prefixes: "
        f"{', '.join(map(repr, prefixes))}; name one by the option key_prefix"
    )
