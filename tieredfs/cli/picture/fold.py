"""Lines of text that are no wider than the picture beside them."""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

__all__ = ["fold"]

_HANGING: Final = 2


def fold(text: Text, width: int, separator: str = " ", indent: int = 0) -> list[Text]:
    """Return a text as lines of a width.

    Args:
        text: The text.
        width: Columns of a line; a word that is wider is not broken.
        separator: Where lines end, where it can be; else they end between words.
        indent: Spaces before each line; those after the first have two more.
    """
    room = width - indent
    lines: list[Text] = []
    for part in _folded(text, room, room - _HANGING, separator):
        is_first = not lines
        limit = room if is_first else room - _HANGING
        for line in _folded(part, limit, room - _HANGING, " "):
            before = indent + (_HANGING if lines else 0)
            lines.append(Text(" " * before).append_text(line))
    return lines


def _folded(text: Text, width: int, rest: int, separator: str) -> Iterator[Text]:
    """Yield the lines of a text: the first of one width, the others of another."""
    plain = text.plain
    begin = 0
    while len(plain) - begin > width:
        end = plain.rfind(separator, begin + 1, begin + width + len(separator))
        if end < 0:  # a word that is wider
            end = plain.find(separator, begin + 1)
        if end < 0:
            break
        yield _stripped(text[begin:end])
        begin, width = end + len(separator), rest
    yield _stripped(text[begin:])


def _stripped(text: Text) -> Text:
    text.rstrip()
    return text
