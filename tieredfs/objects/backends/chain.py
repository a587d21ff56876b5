"""Chained URLs, such as ``zip::s3://bucket/key``.

Traps closed here, seen with fsspec 2026.9: ``simplecache``, ``filecache`` and
``blockcache`` serve a truncated file, or zeros, after one failed download; ``dir``
fails over filesystems that are not asynchronous, and ignores the filesystems below.
Neither adds anything a store needs, so both are removed, and the store uses the
filesystem behind them. The remaining links share no filesystem instance, which might
be broken, and cache no listing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.redact import redact_url

__all__ = [
    "ResolvedUrl",
    "absolute",
    "first_protocol",
    "links_of",
    "own_links",
    "undo_wrappers",
]

_CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})


_LOCAL = frozenset({"file", "local"})

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+", re.ASCII)  # one letter would be a drive


@dataclass(frozen=True, slots=True)
class ResolvedUrl:
    """The URL of a store without what only wraps it.

    Attributes:
        url: The URL without the links that only wrap another.
        options: fsspec's options: those of the first link, and those of each other
            link under its protocol.
        caches: The protocols of the caches that were removed.
    """

    url: str
    options: Mapping[str, object]
    caches: tuple[str, ...] = ()


def undo_wrappers(url: str, options: Mapping[str, object]) -> ResolvedUrl:
    """Return a URL without the wrapping links in front of it.

    Raises:
        InvalidArgumentError: A cache has a path of its own, or a path is chained.
    """
    _check_links(url)
    kept, caches, below = options, [], ""
    while "::" in url and (kind := first_protocol(url)) in {*_CACHES, "dir"}:
        link, _, url = url.partition("::")
        path = link.partition("://")[2].strip("/")
        if kind == "dir":
            below = f"{path}/{below}".strip("/")
        elif path:
            msg = f"{kind}:// takes no path of its own: {path}"
            raise InvalidArgumentError(msg)
        else:
            caches.append(kind)
        kept = _inner(url, kept)
    return ResolvedUrl(_below(url, below), kept, tuple(caches))


def absolute(url: str) -> str:
    """Return a URL that does not depend on the working directory.

    Only the last link may be a path on this machine; a relative one starts at the
    working directory, or at ``~``.

    Raises:
        InvalidArgumentError: The working directory does not exist, or the URL lacks
            slashes.
    """
    before, chained, link = url.rpartition("::")
    if first_protocol(link, alone=not chained) not in _LOCAL:
        return url
    _check_slashes(link)
    scheme, separator, path = link.rpartition("://")
    if path.startswith("/") or (chained and link in {"", *_LOCAL}):
        return url
    try:
        path = str(LocalFileSystem._strip_protocol(link))  # noqa: SLF001 - what reads it
    except OSError as error:
        msg = f"{url} is relative to a folder that does not exist: {error}"
        raise InvalidArgumentError(msg) from error
    if "::" in path:  # in a folder's name, it would be taken for a chain
        return url
    return f"{before}{chained}{scheme}{separator}{path}"


def _check_links(url: str) -> None:
    """Refuse a path with ``::`` in it, which fsspec takes for two."""
    first, chained, _ = url.partition("::")
    if chained and "://" not in first and first_protocol(url) == "file":
        msg = f"a path cannot hold '::', which chains URLs: {redact_url(first)}"
        raise InvalidArgumentError(msg)


def _check_slashes(link: str) -> None:
    """Refuse a URL that lacks a slash: it would be taken for a folder's name."""
    scheme, colon, rest = link.partition(":")
    is_known = scheme in known_implementations
    if (
        not colon
        or rest.startswith("//")
        or scheme in _LOCAL
        or not _SCHEME.fullmatch(scheme)
        or not (is_known or rest.startswith("/"))
    ):
        return
    meant = redact_url(f"{scheme}://{rest.lstrip('/')}")
    msg = f"{scheme}: without two slashes: give {meant} for a URL, ./ before a path"
    raise InvalidArgumentError(msg)


def own_links(
    url: str,
    options: Mapping[str, object],
    defaults: Callable[[str], Mapping[str, object]],
) -> dict[str, object]:
    """Return options with which no link after the first shares a filesystem instance.

    Args:
        url: A URL, chained or not.
        options: As in ``undo_wrappers``.
        defaults: Returns the default options of a protocol's filesystem.
    """
    found = dict(options)
    for link in url.split("::")[1:]:
        protocol = first_protocol(link, alone=False)
        given: Any = found.get(protocol, {})
        found[protocol] = {
            **defaults(protocol),
            **given,
            "skip_instance_cache": True,
        }
    return found


def links_of(
    url: str, options: Mapping[str, object]
) -> list[tuple[str, Mapping[str, object]]]:
    """Return the links of a URL, each with the options that fsspec gives it."""
    first, *others = url.split("::")
    names = {first_protocol(link, alone=False) for link in others}
    own = {name: value for name, value in options.items() if name not in names}
    found: list[tuple[str, Mapping[str, object]]] = [(first, own)]
    for link in others:
        given: Any = options.get(first_protocol(link, alone=False), {})
        found.append((link, given))
    return found


def first_protocol(url: str, *, alone: bool = True) -> str:
    """Return the protocol of a URL's first link; ``file`` for a path.

    Args:
        url: A URL, chained or not.
        alone: Whether a link that is one word is a path.
    """
    link, chained, _ = url.partition("::")
    protocol, separator, _ = link.partition("://")
    if separator:
        return protocol
    is_word = link.isalpha() and link.islower()
    return link if is_word and (chained or not alone) else "file"


def _below(url: str, path: str) -> str:
    """Return the URL with ``path`` appended to its first link."""
    if not path:
        return url
    link, chained, rest = url.partition("::")
    if "://" not in link and first_protocol(url) == link:
        link = f"{link}://"  # one word
    begin = "" if link.endswith(("/", "://")) else "/"
    return f"{link}{begin}{path}{chained}{rest}"


def _inner(url: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that remain for a URL when the link before it is removed."""
    others = {first_protocol(link, alone=False) for link in url.split("::")[1:]}
    own: Any = options.get(first_protocol(url, alone=False), {})
    return {**{name: options[name] for name in others & options.keys()}, **own}
