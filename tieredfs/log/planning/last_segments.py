"""Find the last segments of a long log in few listings, wherever they are."""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Final

from tieredfs.integers import MAX_INT64
from tieredfs.model import SegmentMetadata
from tieredfs.objects import MAX_PAGE_KEYS

__all__ = ["MAX_LISTINGS", "last_page", "last_segments"]

MAX_LISTINGS: Final = 40
"""After so many listings it is better to list the whole log."""

_GROWTH: Final = 8
"""By how much each step of the search is longer than the one before."""

_HALF_PAGE: Final = MAX_PAGE_KEYS // 2
_NARROWER: Final = 4
_MAX_BISECTED_PAGES: Final = 256
"""If pages have become so much narrower, a bracket of more of them is not halved: it is
divided as if its logarithm were."""


def last_segments(
    seek: Callable[[int], Sequence[SegmentMetadata]],
    first: Sequence[SegmentMetadata],
) -> Sequence[SegmentMetadata] | None:
    """Return the last segments of a log: none of the others ends later.

    It searches in growing steps until there is no segment, and then between the last
    two offsets: of a million equal segments in at most 20 listings. A page that is not
    full is probably the last one, so the one after it is listed next, and is empty.

    Segments of very different lengths take more listings, for a search by offsets does
    not know how many segments there are between two of them. Where those at the end
    are much shorter than those before them, the bracket is as wide as very many of
    their pages, most of which do not exist; so its beginning is searched first.

    Args:
        seek: Returns the first segments that end at an offset or later, with all that
            end before the last of them: about half of a full page, or a page that is
            not full. Empty if none ends so late.
        first: The first segments of the log, at least one; their ends are known.

    Returns:
        The segments; None if ``MAX_LISTINGS`` have not found them.
    """
    found, reached = first, _end(first)
    beyond = MAX_INT64  # no segment ends here or later
    step = widest = 0
    is_bracketed, may_be_last = False, False
    shows_last = True  # whether a page that is not full has always been the last one
    for _ in range(MAX_LISTINGS):
        width, room = reached - found[0].start_offset, beyond - reached
        widest = max(widest, width)
        if may_be_last:
            asked = reached  # the next page
        elif not is_bracketed:
            step = max(step * _GROWTH, width)
            asked = min(reached + step, beyond)
        elif room <= 2 * width:
            asked = reached
        elif room > _MAX_BISECTED_PAGES * width and widest > _NARROWER * width:
            asked = reached + isqrt(room * width)
        else:
            asked = (reached + beyond) // 2
        later = seek(asked) if asked < MAX_INT64 else ()
        if later:
            shows_last = shows_last and not may_be_last
            found, reached = later, _end(later)
            may_be_last = shows_last and not _is_half_page(later)
        else:
            beyond, is_bracketed, may_be_last = asked, True, False
        if reached >= beyond:
            return found
    return None


def last_page(
    seek: Callable[[int], Sequence[SegmentMetadata]], found: Sequence[SegmentMetadata]
) -> Sequence[SegmentMetadata]:
    """Return about half a page of segments at the end of a log.

    The page that a search has hit last may show one segment of them only, and not
    another one beside it.

    Args:
        seek: As ``last_segments`` takes it.
        found: What ``last_segments`` returned.
    """
    reached, offset, back = _end(found), found[0].start_offset, 0
    while len(found) < _HALF_PAGE and offset > 0:
        width = (reached - offset) // len(found) + 1
        back = max(2 * back, (_HALF_PAGE - len(found)) * width)
        offset = max(offset - back, 0)
        page = list(seek(offset))
        while page and _end(page) < reached:
            following = seek(_end(page))
            if not following:
                break  # it is being deleted
            page += following
        if len(page) < len(found):
            break  # it is being deleted
        found = page
    return found


def _is_half_page(segments: Sequence[SegmentMetadata]) -> bool:
    """Return whether there are as many segments as a full page shows."""
    return _HALF_PAGE <= len(segments) <= _HALF_PAGE + 1


def _end(segments: Sequence[SegmentMetadata]) -> int:
    """Return the offset after the last of the segments."""
    return max(segment.end_offset or 0 for segment in segments) + 1
