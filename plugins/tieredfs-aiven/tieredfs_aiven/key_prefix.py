"""Which prefix the keys of a store have, where nobody has said it.

The plugin's ``key.prefix`` is a setting of the broker that no object repeats, so it is
seen in the listing. A store with several holds the tiers of several clusters, or of one
whose setting was changed: then only the user knows which is meant.
"""

from itertools import islice
from typing import Final

from tieredfs import InvalidArgumentError, ObjectStore
from tieredfs_aiven.object_names import parse_key, parse_partition

__all__ = ["find_prefix"]

_PAGE: Final = 1000
_PAGES: Final = 16  # strangers' objects may lie between the prefixes, without end


def find_prefix(store: ObjectStore) -> str | None:
    """Return the prefix that the keys of a store have; None if there are no segments.

    Raises:
        InvalidArgumentError: There are several.
    """
    found: list[str] = []
    after = ""
    for _ in range(_PAGES):
        page = [entry.key for entry in islice(store.list(start_after=after), _PAGE)]
        for prefix in map(parse_key, page):
            if prefix == "":
                return prefix  # the plugin's own default
            if prefix is not None and prefix not in found:
                found.append(prefix)
        if len(page) < _PAGE:
            break
        last = parse_key(page[-1])
        # All that begins with the prefix sorts before what has the next letter there.
        after = f"{last[:-1]}0" if last else page[-1]
    if len(found) > 1:
        msg = (
            f"{store.url}: the keys have several prefixes: "
            f"{', '.join(map(repr, found))}; name one by the option key_prefix"
        )
        raise InvalidArgumentError(msg)
    if found:
        return found[0]
    folders = (entry.key[:-1] for entry in store.list(delimiter="/") if entry.is_prefix)
    return "" if any(parse_partition(folder, "0") for folder in folders) else None
