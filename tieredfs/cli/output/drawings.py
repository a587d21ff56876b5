"""Drawings made of characters, as wide as the terminal."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.text import Text

from tieredfs.cli.output.tables import answer_stream, show_text

__all__ = ["can_show", "drawing_width", "has_few_colours", "show_drawing"]

_MAX_WIDTH: Final = 160
_WIDE: Final = 10_000
_HIGH: Final = 25


def drawing_width() -> int:
    """Return how many columns a drawing may have: those of the terminal, up to 160."""
    return min(Console(file=answer_stream()).width, _MAX_WIDTH)


def has_few_colours() -> bool:
    """Return whether the answer goes to a terminal of 8 or 16 colours."""
    return Console(file=answer_stream()).color_system in {"standard", "windows"}


def can_show(characters: str) -> bool:
    """Return whether the encoding of the answer has all of these characters."""
    try:
        characters.encode(answer_stream().encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def show_drawing(lines: Iterable[Text]) -> None:
    """Print lines, in colours where the answer goes to a terminal that has them."""
    # A line that is too long is wrapped by the terminal, not cut by rich.
    console = Console(highlight=False, width=_WIDE, height=_HIGH, file=answer_stream())
    for line in lines:
        with console.capture() as capture:
            console.print(line, soft_wrap=True)
        show_text(capture.get().removesuffix("\n"))
