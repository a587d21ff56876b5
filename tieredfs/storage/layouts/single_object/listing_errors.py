"""What is wrong with the objects of a listing.

It is an error only if the segment has no whole object: two processes may have stored it
as two objects.
"""

from collections.abc import Iterable

from tieredfs.errors import CorruptObjectError, TieredFSError

__all__ = ["ListedError", "ListedIdentity", "name_error", "raise_first", "size_error"]

ListedIdentity = tuple[int, int, str]
"""The first and the last offset of a segment, and its id."""

ListedError = tuple[ListedIdentity | None, TieredFSError]
"""What is wrong with an object, and which segment it is of, where its name says so."""


def name_error(folder: str, error: TieredFSError) -> ListedError:
    """Return the error of a name that cannot be parsed, with the URL of its folder."""
    return None, type(error)(f"{folder}{error}")


def size_error(
    url: str, identity: ListedIdentity, size: int | None, stated: int
) -> ListedError:
    """Return the error of an object that does not have the size that its key states."""
    error = CorruptObjectError(f"{url}: its size is {size}, its key states {stated}")
    start, last, _ = identity
    error.offsets = start, last + 1
    return identity, error


def raise_first(errors: Iterable[ListedError], whole: Iterable[ListedIdentity]) -> None:
    """Raise the first error of a segment that has no whole object."""
    found = set(whole)
    for identity, error in errors:
        if identity not in found:
            raise error
