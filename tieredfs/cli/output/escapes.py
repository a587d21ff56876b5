"""Escapes for characters that would control a terminal."""

import json
from collections.abc import Callable, Mapping
from typing import Final
from unicodedata import category

__all__ = ["escape", "escape_field", "harmless_json", "quote", "steers", "to_json"]

quote: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""Return a text as JSON."""

# Control characters, format characters such as those that change the text direction,
# lone surrogates (bytes of an unknown encoding), and line ends.
_STEERING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d")  # only join the letters beside them
_LATIN_1, _BASIC = 0x100, 0x10000


def escape(text: str) -> str:
    r"""Return a text with ``\x1b`` or ``\u202e`` for what would steer a terminal."""
    return text if text.isprintable() else _as_utf8(text).translate(_IN_LINES)


def escape_field(text: str) -> str:
    r"""Return a text as a field of a line that can be read back.

    As ``escape`` does it, and tabs, ends of lines and backslashes are ``\t``, ``\n``,
    ``\r`` and ``\\``.
    """
    is_plain = text.isprintable() and "\\" not in text
    return text if is_plain else text.translate(_IN_FIELDS)


def to_json(value: object) -> str:
    """Return a JSON document in one line, in which nothing would steer a terminal.

    It can be encoded as UTF-8, whatever is in it.
    """
    return harmless_json(json.dumps(value, ensure_ascii=False))


def harmless_json(text: str) -> str:
    """Return a JSON document in one line so that nothing in it steers a terminal."""
    # Of ASCII, JSON has escaped all but one; to look for that one is faster.
    is_harmless = "\x7f" not in text if text.isascii() else text.isprintable()
    return text if is_harmless else _as_utf8(text).translate(_IN_JSON)


def steers(char: str) -> bool:
    """Return whether a character would steer a terminal."""
    return category(char) in _STEERING and char not in _JOINERS


class _Escapes(dict[int, str]):
    """A table for ``str.translate``, filled by what is met."""

    def __init__(
        self, spell: Callable[[int], str], known: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(known or {})
        self._spell = spell

    def __missing__(self, code: int) -> str:
        char = chr(code)
        return self.setdefault(code, self._spell(code) if steers(char) else char)


def _in_text(code: int) -> str:
    if code < _LATIN_1:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC else f"\\U{code:08x}"


def _in_json(code: int) -> str:
    units = chr(code).encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


_IN_LINES: Final = _Escapes(_in_text)
_IN_FIELDS: Final = _Escapes(
    _in_text, str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
)
_IN_JSON: Final = _Escapes(_in_json)


def _as_utf8(text: str) -> str:
    """Read as UTF-8 what a locale of another encoding could not read of a file name."""
    try:
        return text.encode("utf-8", "surrogateescape").decode(
            "utf-8", "surrogateescape"
        )
    except UnicodeEncodeError:  # a half of a pair that stands for no byte
        return text
