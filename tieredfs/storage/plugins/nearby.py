"""Find the tier near a URL that is a level or two off."""

from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["nearby_urls"]

_LEVELS: Final = 3
"""Greatest depth of a partition's folder in our layouts."""


def nearby_urls(
    url: str, keys: Sequence[str], is_known: Callable[[tuple[str, ...]], bool]
) -> list[str]:
    """Return the URLs above or directly below ``url`` where a layout is recognised.

    Args:
        url: A URL where no layout is recognised; for a chained URL the result is empty.
        keys: The first keys there, relative to it.
        is_known: Returns whether a plugin recognises a page of keys.

    Returns:
        The nearest URL above, or else all that are seen below.
    """
    if "::" in url:
        return []
    scheme, separator, path = url.rstrip("/").rpartition("://")
    names = path.split("/")
    for count in range(1, min(_LEVELS, len(names) - 1) + 1):
        inside = "/".join(names[-count:])
        if is_known(tuple(f"{inside}/{key}" for key in keys)):
            above = "/".join(names[:-count]) or "/"
            return [f"{scheme}{separator}{above}"]
    folders: dict[str, list[str]] = {}
    for key in keys:
        folder, slash, rest = key.partition("/")
        if slash:
            folders.setdefault(folder, []).append(rest)
    return [
        f"{url.rstrip('/')}/{folder}"
        for folder, inner in folders.items()
        if is_known(tuple(inner))
    ]
