"""Chained URLs, such as ``zip::s3://bucket/key``.

Traps closed here, seen with fsspec 2026.9: ``simplecache``, ``filecache`` and
``blockcache`` serve a file that was cut short, or zeros, after one download that
failed; ``dir`` breaks off over filesystems that are not asynchronous, and knows nothing
of the ones below. Neither adds what a store needs, so both are undone: the store is on
what they stand in front of. The links that stay share no instance with anybody, which
might be dead, and cache no listing.
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
    "Place",
    "absolute",
    "first_protocol",
    "links_of",
    "own_links",
    "undo_wrappers",
]

_CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})


_LOCAL = frozenset({"file", "local"})

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+", re.ASCII)  # of one letter it is a drive


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is.

    Attributes:
        url: Without the links that only wrap another.
        options: fsspec's: those of the first link, and of each other by its protocol.
        caches: The protocols of the caches that were left out.
    """

    url: str
    options: Mapping[str, object]
    caches: tuple[str, ...] = ()


def undo_wrappers(url: str, options: Mapping[str, object]) -> Place:
    """Return the place that a URL means, whatever stands in front of it.

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
    return Place(_below(url, below), kept, tuple(caches))


def absolute(url: str) -> str:
    """Return a URL that leads where it does now, whatever the process goes to.

    The last link is what may be a path of this machine; one that is relative begins in
    the working directory, or at ``~``.

    Raises:
        InvalidArgumentError: The working directory is gone, or slashes of a URL are.
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
        msg = f"{url} is relative to a folder that is not there: {error}"
        raise InvalidArgumentError(msg) from error
    if "::" in path:  # a folder's name: it would be taken for a chain
        return url
    return f"{before}{chained}{scheme}{separator}{path}"


def _check_links(url: str) -> None:
    """Refuse a path with ``::`` in it, which fsspec takes for two."""
    first, chained, _ = url.partition("::")
    if chained and "://" not in first and first_protocol(url) == "file":
        msg = f"a path cannot hold '::', which chains URLs: {redact_url(first)}"
        raise InvalidArgumentError(msg)


def _check_slashes(link: str) -> None:
    """Refuse a URL without both of its slashes: it would be a folder of that name."""
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
    """Return options that make every link after the first anew, for us alone.

    Args:
        url: Chained or not.
        options: As in ``undo_wrappers``.
        defaults: The options of a protocol's filesystem, unless the user gives them.
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
    """Return the links of a URL, each with its own options as fsspec deals them out."""
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
        url: Chained or not.
        alone: Whether a link that is one word is a path.
    """
    link, chained, _ = url.partition("::")
    protocol, separator, _ = link.partition("://")
    if separator:
        return protocol
    is_word = link.isalpha() and link.islower()
    return link if is_word and (chained or not alone) else "file"


def _below(url: str, path: str) -> str:
    """Return the URL whose first link goes on with ``path``."""
    if not path:
        return url
    link, chained, rest = url.partition("::")
    if "://" not in link and first_protocol(url) == link:
        link = f"{link}://"  # one word
    begin = "" if link.endswith(("/", "://")) else "/"
    return f"{link}{begin}{path}{chained}{rest}"


def _inner(url: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are left for a URL when what stood before it is gone."""
    others = {first_protocol(link, alone=False) for link in url.split("::")[1:]}
    own: Any = options.get(first_protocol(url, alone=False), {})
    return {**{name: options[name] for name in others & options.keys()}, **own}
