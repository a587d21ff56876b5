"""Where a tier is, when a URL is a level or two off."""

from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["nearby_urls"]

_LEVELS: Final = 3
"""As deep as a partition's folder lies in any layout of ours."""


def nearby_urls(
    url: str, keys: Sequence[str], is_known: Callable[[tuple[str, ...]], bool]
) -> list[str]:
    """Return the URLs above or right below ``url`` at which a layout would be known.

    Args:
        url: Where none is; a chain of URLs has no place above or below.
        keys: The first keys there, relative to it.
        is_known: Whether some plugin recognises a page of keys.

    Returns:
        The nearest one above it, or else all that are seen below it.
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
