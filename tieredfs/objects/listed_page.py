"""The pages of a listing, as they are checked and as a caller gets them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import Final, Self, cast

from tieredfs.errors import UnsupportedOperationError
from tieredfs.objects.backends import Listing, ObjectInfo, Page
from tieredfs.objects.keys import are_keys, is_key, is_probe

__all__ = ["MAX_PAGE_KEYS", "ListedPage", "check_page", "pages_of"]

MAX_PAGE_KEYS: Final = 1000
"""Maximum keys on a page, which is what one request lists."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """The objects of one page of a listing, in columns.

    Attributes:
        keys: Their keys, sorted.
        sizes: Their sizes in bytes.
    """

    keys: Sequence[str]
    sizes: Sequence[int]

    @classmethod
    def of(cls, page: Page) -> Self:
        """Return the columns of a page without common prefixes."""
        return cls(page.keys(), cast("Sequence[int]", page.sizes()))


def pages_of(entries: Iterator[ObjectInfo]) -> Iterator[ListedPage]:
    """Yield the pages of a listing that is given entry by entry."""
    while page := list(islice(entries, MAX_PAGE_KEYS)):
        yield ListedPage.of(Page(page))


def check_page(page: Page, listing: Listing, last: str, url: str) -> Page:
    """Return a page with only what was asked for.

    Nearly every page is valid as it is, and is checked as a whole; the others entry by
    entry.

    Args:
        page: What the backend returned, which may be more.
        listing: What was asked for.
        last: The last key of the pages before; the listing's start before the first.
        url: The store's URL, for error messages.

    Raises:
        UnsupportedOperationError: The page is not in key order.
    """
    keys = page.keys()
    if (
        are_keys(keys)
        and all(map(lt, (last, *keys), keys))
        and all(key.startswith(listing.prefix) for key in keys)
    ):
        return page
    return Page(list(_wanted(page.entries, listing, last, url)), page.following)


def _wanted(
    entries: Iterable[ObjectInfo], listing: Listing, last: str, url: str
) -> Iterator[ObjectInfo]:
    for entry in entries:
        key = entry.key
        if not key.startswith(listing.prefix) or key <= listing.start_after:
            continue  # a backend may return more than was asked for
        if not is_key(key[:-1] if entry.is_prefix else key) or is_probe(key):
            continue
        if key == last:
            continue  # rclone lists an object twice while it is replaced
        if key < last:
            msg = f"{url}: the store lists {key!r} after {last!r}: it has "
            raise UnsupportedOperationError(f"{msg}no listing in key order")
        last = key
        yield entry
