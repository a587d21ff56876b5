"""The keys of the whole objects in a listing, parsed a page at a time into columns."""

from collections.abc import Iterable, Iterator
from itertools import compress, islice, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tieredfs.errors import TieredFSError
from tieredfs.format.segment.key_scheme import KeyScheme
from tieredfs.format.segment.key_table import KEY_DTYPE, KeyTable, row_of
from tieredfs.integers import MAX_INT64
from tieredfs.model import SegmentId
from tieredfs.objects import ListedPage
from tieredfs.storage.layouts.single_object.listing_errors import (
    ListedError,
    ListedIdentity,
    name_error,
    raise_first,
    size_error,
)

__all__ = ["parse_pages"]

_BLOCK_PAGES: Final = 64
"""Pages joined at a time: the allocator returns blocks of this size to the system."""


def parse_pages(
    pages: Iterable[ListedPage], scheme: KeyScheme, prefix: str, url: str
) -> KeyTable:
    """Parse the listing of a partition; foreign objects are skipped.

    Args:
        pages: All pages of the listing.
        scheme: How the objects are named.
        prefix: The partition's folder in the store, with a slash at its end.
        url: The store's URL, for error messages.

    Returns:
        The key of one whole object of each segment, in the order of the listing.

    Raises:
        TieredFSError: A segment has no whole object.
    """
    errors: list[ListedError] = []
    table = _joined(_parse_page(page, scheme, prefix, url, errors) for page in pages)
    if errors:
        raise_first(errors, map(_identity, table.tolist()))
    starts, ends = table["start_offset"], table["end_offset"]
    if ((starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])).any():
        return _without_copies(table)
    return table


def _parse_page(
    page: ListedPage,
    scheme: KeyScheme,
    prefix: str,
    url: str,
    errors: list[ListedError],
) -> KeyTable:
    """Parse a page of whole objects; note what is wrong with the others."""
    keys, sizes = page.keys, _sizes_of(page)
    if type(scheme).stem_of is KeyScheme.stem_of and all(
        map(str.endswith, keys, repeat(scheme.suffix))
    ):
        stems = [key[len(prefix) : -len(scheme.suffix)] for key in keys]
    else:
        named = [scheme.stem_of(key[len(prefix) :]) for key in keys]
        stems = [stem for stem in named if stem is not None]
        is_stem = [stem is not None for stem in named]
        keys, sizes = list(compress(keys, is_stem)), sizes[is_stem]
    table, is_whole = scheme.parse_stems(stems)
    found: dict[int, ListedError] = {}
    for row in np.flatnonzero(~is_whole).tolist():
        try:
            key = scheme.parse_stem(stems[row])
        except TieredFSError as error:
            found[row] = name_error(f"{url}/{prefix}", error)
            continue
        if key is not None:
            table[row], is_whole[row] = row_of(key), True
    stated = table["log_length"] + table["tail_length"]
    for row in np.flatnonzero(is_whole & (sizes != stated)).tolist():
        is_whole[row] = False
        found[row] = size_error(
            f"{url}/{keys[row]}",
            _identity(table[row].item()),
            sizes[row],
            stated[row],
        )
    errors.extend(found[row] for row in sorted(found))
    return table if is_whole.all() else table[is_whole]


def _sizes_of(page: ListedPage) -> npt.NDArray[np.int64]:
    try:
        return np.array(page.sizes, np.int64)
    except OverflowError:
        # A foreign object may claim any size, and no segment has the largest.
        return np.array([min(size, MAX_INT64) for size in page.sizes], np.int64)


def _joined(pages: Iterator[KeyTable]) -> KeyTable:
    """Join the pages of a listing, in little more memory than they take joined."""
    blocks: list[KeyTable] = []
    while block := list(islice(pages, _BLOCK_PAGES)):
        blocks.append(np.concatenate(block))
    table = np.empty(sum(map(len, blocks)), KEY_DTYPE)
    reached = len(table)
    while blocks:
        last = blocks.pop()
        table[reached - len(last) : reached] = last
        reached -= len(last)
    return table


def _identity(row: tuple[Any, ...]) -> ListedIdentity:
    """Return which segment a row of a table of keys is of."""
    end, start, *_, segment_id = row
    return start, end, SegmentId.from_bytes(segment_id)


def _without_copies(table: KeyTable) -> KeyTable:
    """Leave out all but the first object of each segment."""
    first: dict[ListedIdentity, int] = {}
    for row, identity in enumerate(map(_identity, table.tolist())):
        first.setdefault(identity, row)
    return table[list(first.values())]
