"""What the shapes and colours of a page mean."""

from xml.etree.ElementTree import Element

from tieredfs.cli.picture.svg import add, path, rectangle

__all__ = ["add_legend"]

_WIDTH, _HEIGHT = 26.0, 16.0
_BOX = (0.5, 0.5, _WIDTH - 1, _HEIGHT - 1)


def add_legend(parent: Element) -> None:
    """Append the legend, and the pattern that all charts use."""
    defs = add(parent, "svg", {"class": "defs", "aria-hidden": "true"})
    pattern = add(
        defs,
        "pattern",
        {
            "id": "hatch",
            "width": 6,
            "height": 6,
            "patternUnits": "userSpaceOnUse",
            "patternTransform": "rotate(45)",
        },
    )
    add(pattern, "line", {"class": "stripe", "x1": 0, "y1": 0, "x2": 0, "y2": 6})
    listed = add(parent, "ul", {"class": "legend", "aria-label": "Legend"})
    whole = _swatch(listed, "a segment, in the colour of its leader epoch")
    _add_block(whole, "served", 0)
    cleaned = _swatch(listed, "some of its offsets have no record any more")
    _add_block(cleaned, "served", _HEIGHT * 0.6)
    uncounted = _swatch(listed, "not known how many of its offsets have a record")
    _add_block(uncounted, "served uncounted", 0)
    unserved = _swatch(listed, "its offsets are served by another segment")
    rectangle(_add_block(unserved, "unserved", 0), _BOX, "hatch")
    rectangle(_swatch(listed, "offsets in several segments"), _BOX, "overlap")
    rectangle(_swatch(listed, "missing: in no segment that can be read"), _BOX, "gap")


def _swatch(listed: Element, text: str) -> Element:
    """Append an entry, and return the picture before its text."""
    svg = add(
        add(listed, "li"),
        "svg",
        {"viewBox": f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}", "aria-hidden": "true"},
    )
    svg.tail = text
    return svg


def _add_block(svg: Element, state: str, empty: float) -> Element:
    """Draw a segment of which the upper part is empty."""
    group = add(svg, "g", {"class": f"block e0 {state}"})
    rectangle(group, _BOX, "hull")
    left, top, width, height = _BOX
    bottom, right = top + height, left + width
    level = top + empty
    points = [(left, bottom), (left, level), (right, level), (right, bottom)]
    path(group, points, "fill")
    return group
