"""Tables of a page."""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from tieredfs.cli.picture.svg import add

__all__ = ["add_table"]


def add_table(
    parent: Element,
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> None:
    """Append a table that can be scrolled with the keyboard.

    Args:
        parent: What it is appended to.
        caption: What it is of, for screen readers.
        headings: Of its columns; the first column has the name of each row.
        rows: Its cells.
    """
    place = add(
        parent,
        "div",
        {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": caption},
    )
    table = add(place, "table")
    head = add(add(table, "thead"), "tr")
    for heading in headings:
        add(head, "th", {"scope": "col"}, heading)
    body = add(table, "tbody")
    for row in rows:
        line = add(body, "tr")
        for at, cell in enumerate(row):
            if at == 0:
                add(line, "th", {"scope": "row"}, cell)
            else:
                add(line, "td", text=cell)
