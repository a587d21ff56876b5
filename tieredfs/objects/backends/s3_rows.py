"""Find the objects of a page of S3's listing without a tree of its elements.

All objects of a page have the same fields in the same order, nearly always, so those of
the first one tell what each looks like. A page with anything else is not taken apart.
"""

import re
from typing import Final, NamedTuple

__all__ = ["PLACE", "Row", "take_rows"]

PLACE: Final = b"<Contents />"
"""What is left in a page in the place of its objects."""

_BEGIN: Final = b"<Contents>"
_END: Final = b"</Contents>"
_PLAIN: Final = "[ -%'-;=?-~]*"
"""Text that is the same in XML: printable ASCII without markup."""

_QUOTE: Final = '(?:&quot;|&#34;|")'
_FIELD: Final = re.compile(f"<([A-Za-z]+)>{_QUOTE}?{_PLAIN}{_QUOTE}?</\\1>")
_VALUES: Final = {
    "Key": f"({_PLAIN})",
    "Size": "([0-9]+)",
    "ETag": f"{_QUOTE}?([!#-%'-;=?-~]*){_QUOTE}?",
}


class Row(NamedTuple):
    """An object of a page."""

    key: str
    size: int
    etag: str


def take_rows(body: bytes) -> tuple[list[Row], bytes] | None:
    """Take the objects out of a page, if all of them are alike and plain.

    Args:
        body: The answer to ListObjectsV2.

    Returns:
        The objects, whose keys are as they were sent, and the page with ``PLACE`` in
        place of them; None for any other page.
    """
    first, last = body.find(_BEGIN), body.rfind(_END)
    if first < 0 or last < first or b"<!" in body:
        return None
    stop = last + len(_END)
    part = body[first:stop]
    if not part.isascii():
        return None
    text = part.decode("ascii")
    names = _names(text)
    if names is None:
        return None
    found = re.findall(_pattern(names), text)
    # Each object has two tags of its own and two of each field: there is nothing else.
    if len(found) * (2 + 2 * len(names)) != text.count("<"):
        return None
    order = [name for name in names if name in _VALUES]
    key, size, etag = (order.index(name) for name in _VALUES)
    rows = [Row(one[key], int(one[size]), one[etag]) for one in found]
    return rows, body[:first] + PLACE + body[stop:]


def _names(text: str) -> list[str] | None:
    """Return the names of the fields of the first object; None for another kind."""
    names = []
    at = len(_BEGIN)
    while match := _FIELD.match(text, at):
        names.append(match[1])
        at = match.end()
    is_known = len(set(names)) == len(names) and _VALUES.keys() <= set(names)
    return names if is_known and text.startswith(_END.decode(), at) else None


def _pattern(names: list[str]) -> str:
    """Return the expression of an object with these fields."""
    fields = (f"<{name}>{_VALUES.get(name, _PLAIN)}</{name}>" for name in names)
    return f"<Contents>{''.join(fields)}</Contents>"
