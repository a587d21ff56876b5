"""Elements of SVG and HTML; ``ElementTree`` escapes what they contain."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from xml.etree.ElementTree import Element, SubElement

from tieredfs.cli.output.escapes import escape

__all__ = ["Attributes", "add", "line", "path", "polyline", "rectangle", "write"]

Attributes: TypeAlias = Mapping[str, str | float]
Points: TypeAlias = Sequence[tuple[float, float]]


def add(
    parent: Element, tag: str, attributes: Attributes | None = None, text: str = ""
) -> Element:
    """Append an element and return it.

    Args:
        parent: What it is appended to.
        tag: Its name.
        attributes: Its attributes; numbers are rounded to a tenth.
        text: Its text, in which control characters are escaped.
    """
    written = {name: _written(value) for name, value in (attributes or {}).items()}
    made = SubElement(parent, tag, written)
    made.text = escape(text) or None
    return made


def rectangle(
    parent: Element,
    box: tuple[float, float, float, float],
    kind: str,
    title: str = "",
) -> Element:
    """Append a rectangle and return it.

    Args:
        parent: What it is appended to.
        box: Its left and upper edge, its width and height.
        kind: Its class.
        title: What is shown when it is pointed at.
    """
    left, top, width, height = box
    made = add(
        parent,
        "rect",
        {"class": kind, "x": left, "y": top, "width": width, "height": height},
    )
    if title:
        add(made, "title", text=title)
    return made


def line(
    parent: Element, start: tuple[float, float], end: tuple[float, float], kind: str
) -> Element:
    """Append a line of a class and return it."""
    (x1, y1), (x2, y2) = start, end
    return add(parent, "line", {"class": kind, "x1": x1, "y1": y1, "x2": x2, "y2": y2})


def path(parent: Element, points: Points, kind: str) -> Element:
    """Append a closed shape of a class and return it.

    Its edges are horizontal or vertical.
    """
    (x, y), *rest = points
    steps = [f"M{_written(x)} {_written(y)}"]
    for across, down in rest:
        if across != x:
            steps.append(f"H{_written(across)}")
        if down != y:
            steps.append(f"V{_written(down)}")
        x, y = across, down
    return add(parent, "path", {"class": kind, "d": f"{''.join(steps)}Z"})


def polyline(parent: Element, points: Points, kind: str) -> Element:
    """Append a line through points and return it."""
    listed = " ".join(f"{_written(x)},{_written(y)}" for x, y in points)
    return add(parent, "polyline", {"class": kind, "points": listed})


def write(
    parent: Element,
    place: tuple[float, float],
    text: str,
    kind: str,
    anchor: str = "start",
) -> Element:
    """Append a text and return it.

    Args:
        parent: What it is appended to.
        place: Where its baseline is.
        text: What it says.
        kind: Its class.
        anchor: Which end of the text is at ``place``: start, middle or end.
    """
    x, y = place
    attributes: Attributes = {"class": kind, "x": x, "y": y, "text-anchor": anchor}
    return add(parent, "text", attributes, text)


def _written(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0")
