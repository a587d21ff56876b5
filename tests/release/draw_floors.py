"""Draw the floors of the code from what import-linter holds them to.

    python tests/release/draw_floors.py

It writes the picture that the page on floors shows. What it shows is read, not kept:
the order from ``pyproject.toml``, and what a package is for from its docstring.
"""

import ast
import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "explanation" / "floors.svg"
PACKAGE: Final = "tieredfs"

_WIDTH: Final = 800
_MARGIN: Final = 16
_LINE: Final = 18
_GAP: Final = 6
_LETTER: Final = 6.3  # of the smaller text, in pixels
_STYLE: Final = (
    "text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
    ".name{font-size:14px;font-weight:600}"
    ".page{fill:#fff}.floor{fill:#f2f5f9;stroke:#c3ccd6}.room{fill:#fff;stroke:#d8dee5}"
    ".down{stroke:#57606a;stroke-width:1.5;marker-end:url(#tip)}"
)


def contracts() -> dict[str, list[list[str]]]:
    """Return the layers of the package and of each floor, from the top down."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found: list[dict[str, Any]] = tool["importlinter"]["contracts"]
    return {
        contract["containers"][0]: [
            [name.strip(" ()") for name in layer.split("|")]
            for layer in contract["layers"]
        ]
        for contract in found
        if contract["type"] == "layers" and contract["containers"][0].count(".") < 2
    }


def purpose(module: str) -> str:
    """Return what a package or module says of itself, without the number of a floor."""
    folder = ROOT / module.replace(".", "/")
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = said.partition("\n")[0]
    if first.startswith("Floor "):
        first = first.partition(": ")[2]
    return (first[:1].upper() + first[1:]).replace("`", "")


def draw() -> str:
    """Return the picture."""
    layers = contracts()
    body: list[str] = []
    top = _MARGIN
    for layer in layers[PACKAGE]:
        for name in layer:
            if not name.startswith("_"):
                rooms = layers.get(f"{PACKAGE}.{name}", [])
                lines, height = _floor(name, rooms, top)
                body += lines
                top += height + _GAP
    height = top - _GAP + _MARGIN
    right = _WIDTH - _MARGIN
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
                f'height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img">'
            ),
            "<title>The floors of tieredfs: imports only go down</title>",
            f"<style>{_STYLE}</style>",
            (
                '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="4" '
                'refY="4" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/>'
                "</marker></defs>"
            ),
            f'<rect class="page" width="{_WIDTH}" height="{height}" rx="8"/>',
            f'<path class="down" d="M{right} {_MARGIN}V{height - _MARGIN - 4}"/>',
            *body,
            "</svg>\n",
        ]
    )


def _floor(
    name: str, rooms: Sequence[Sequence[str]], top: int
) -> tuple[list[str], int]:
    """Draw a package, and the layers inside of it; return the lines and the height."""
    said = list(_wrapped(purpose(f"{PACKAGE}.{name}"), 560))
    height = (len(said) + len(rooms)) * _LINE + 14 + 4 * bool(rooms)
    width = _WIDTH - 2 * _MARGIN - 14
    lines = [
        (
            f'<rect class="floor" x="{_MARGIN}" y="{top}" width="{width}" '
            f'height="{height}" rx="5"/>'
        ),
        _text(_MARGIN + 12, top + 21, name, "name"),
    ]
    lines += [
        _text(_MARGIN + 130, top + 20 + at * _LINE, line)
        for at, line in enumerate(said)
    ]
    below = top + len(said) * _LINE + 11
    for at, room in enumerate(rooms):
        y = below + at * _LINE
        lines += [
            (
                f'<rect class="room" x="{_MARGIN + 130}" y="{y}" width="600" '
                f'height="{_LINE - 3}" rx="3"/>'
            ),
            _text(_MARGIN + 138, y + 12, " · ".join(room)),
        ]
    return lines, height


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{styled}>{escape(text, quote=False)}</text>'


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield a text in lines of a width in pixels."""
    line = ""
    for word in text.split():
        if line and (len(line) + len(word) + 1) * _LETTER > width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


if __name__ == "__main__":
    PICTURE.write_text(draw())
