r"""Patterns of topics' names, in Java's syntax.

Java's differs from Python's in what a name of a topic can have: classes may contain
classes and be intersected, as in ``[a-z&&[^b]]``, ``\p{...}`` is a class, and
``\Q...\E`` is literal. Names are ASCII, so a class is the set of its characters.
"""

import re
import string
from dataclasses import dataclass
from typing import Final

from tieredfs.errors import InvalidArgumentError

__all__ = ["TopicPattern"]

_ASCII: Final = frozenset(map(chr, range(128)))
_PROPERTIES: Final = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": "".join(_ASCII),
    "Alpha": string.ascii_letters,
    "Digit": string.digits,
    "Alnum": string.ascii_letters + string.digits,
    "Punct": string.punctuation,
    "XDigit": string.hexdigits,
    "L": string.ascii_letters,
    "Ll": string.ascii_lowercase,
    "Lu": string.ascii_uppercase,
    "N": string.digits,
    "Nd": string.digits,
    "IsAlphabetic": string.ascii_letters,
    "IsDigit": string.digits,
    "IsLowercase": string.ascii_lowercase,
    "IsUppercase": string.ascii_uppercase,
}
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))")
_ESCAPE: Final = re.compile(
    r"\\(?:0(?P<octal>[0-3][0-7]{2}|[0-7]{1,2})"
    r"|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^0])",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_FLAGS: Final = re.compile(r"\(\?([A-Za-z]+)\)")
_SCOPED: Final = re.compile(r"\(\?([A-Za-z]*)-?([A-Za-z]*):")
_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_JAVAS_GROUP: Final = re.compile(r"\(\?(?:<|[:=!>]|[imsx]*(?:-[imsx]+)?[:)])")
_BOUNDARIES: Final = frozenset((r"\A", r"\B", r"\Z", r"\b", r"\z"))
_ENDS: Final = {r"\z": r"\Z", r"\Z": r"\Z", r"\e": r"\x1b"}


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A pattern that finds topics by a part of their names.

    Attributes:
        text: The pattern in Java's syntax.
        compiled: The same in Python's.
    """

    text: str
    compiled: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> "TopicPattern":
        """Compile a pattern.

        Raises:
            InvalidArgumentError: It is not a pattern, or uses what is not supported.
        """
        try:
            return cls(text, re.compile(_Translator(text).translate(), re.ASCII))
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            said = getattr(error, "msg", error)
            msg = f"option 'subscribePattern': {said}: {text}"
            raise InvalidArgumentError(msg) from error

    def matches(self, topic: str) -> bool:
        """Return whether a part of a topic's name matches, as in Kafka's source."""
        return self.compiled.search(topic) is not None


class _Translator:
    """Reads a pattern of Java's once, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        flags = _FLAGS.match(text)
        # Whether case is ignored in each of the groups that are open.
        self._ignores_case = [flags is not None and "i" in flags[1]]

    def translate(self) -> str:
        found = []
        while self._at < len(self._text):
            self._check_next()
            self._note_group()
            if self._takes("["):
                found.append(_written(self._class()))
            elif self._text[self._at] == "\\":
                found.append(self._outside())
            elif self._text.startswith("(?<", self._at) and self._is_name():
                self._at += len("(?<")
                found.append("(?P<")
            else:
                found.append(self._next())
        return "".join(found)

    def _check_next(self) -> None:
        """Raise an error for what is a pattern in Python and none in Java."""
        for begins, pattern, what in (
            ("{", _REPETITION, "Illegal repetition"),
            ("(?", _JAVAS_GROUP, "Unknown or unsupported group"),
        ):
            is_next = self._text.startswith(begins, self._at)
            if is_next and pattern.match(self._text, self._at) is None:
                raise re.error(f"{what} near index {self._at}")

    def _note_group(self) -> None:
        """Note whether case is ignored in a group that begins, or behind its end."""
        if self._text[self._at] == "(":
            ignores, flags = self._ignores_case[-1], _SCOPED.match(self._text, self._at)
            if flags is not None:
                ignores = "i" not in flags[2] and (ignores or "i" in flags[1])
            self._ignores_case.append(ignores)
        elif self._text[self._at] == ")" and len(self._ignores_case) > 1:
            self._ignores_case.pop()

    def _in_both_cases(self, characters: frozenset[str]) -> frozenset[str]:
        """Return characters, in both cases if their case is ignored.

        Java ignores it in each part of a class, before it is negated or intersected.
        """
        if not self._ignores_case[-1]:
            return characters
        return frozenset(
            case for one in characters for case in (one, one.lower(), one.upper())
        )

    def _is_name(self) -> bool:
        return self._text[self._at + len("(?<") :][:1].isalpha()

    def _outside(self) -> str:
        """Translate what begins with a backslash outside a class."""
        if quoted := _QUOTED.match(self._text, self._at):
            self._at = quoted.end()
            return re.escape(quoted[1])
        if self._text.startswith(r"\k<", self._at):
            end = self._text.find(">", self._at)
            name = self._text[self._at + len(r"\k<") : end]
            self._at = end + 1
            return f"(?P={name})"
        if _PROPERTY.match(self._text, self._at):
            return _written(self._escaped())
        escape = self._escape()
        return _ENDS.get(escape, escape)

    def _class(self) -> frozenset[str]:
        """Return the characters of a class, whose bracket has been read."""
        negated = self._takes("^")
        found = self._union(is_first=True)
        while self._takes("&&"):
            found &= self._union(is_first=False)
        if not self._takes("]"):
            raise self._unclosed()
        return _ASCII - found if negated else found

    def _union(self, *, is_first: bool) -> frozenset[str]:
        """Return the characters of a class up to its end, or to an intersection."""
        found: frozenset[str] = frozenset()
        is_empty = True
        while True:
            if self._at >= len(self._text):
                raise self._unclosed()
            closes = self._text[self._at] == "]" and not (is_first and is_empty)
            if closes or self._text.startswith("&&", self._at):
                return _ASCII if is_empty else found
            found |= self._item()
            is_empty = False

    def _item(self) -> frozenset[str]:
        """Return the characters of a class in a class, a range, or one character."""
        if self._takes("["):
            return self._class()
        first = self._atom()
        rest = self._text[self._at : self._at + 2]
        is_range = len(rest) == len("-x") and rest[0] == "-" and rest[1] not in "[]"
        if len(first) != 1 or not is_range:
            return self._in_both_cases(first)
        self._at += 1
        last = self._atom()
        (low,), high = first, next(iter(last), "")
        if len(last) != 1 or high < low:
            raise re.error(f"Illegal character range near index {self._at - 1}")
        return self._in_both_cases(frozenset(map(chr, range(ord(low), ord(high) + 1))))

    def _atom(self) -> frozenset[str]:
        if self._text[self._at] == "\\":
            return self._escaped()
        return frozenset(self._next())

    def _escaped(self) -> frozenset[str]:
        r"""Return the characters of an escape, such as ``\d`` or ``\.``."""
        if named := _PROPERTY.match(self._text, self._at):
            self._at = named.end()
            name = named[2] or named[3]
            if name not in _PROPERTIES:
                raise re.error(f"Unknown character property name {{{name}}}")
            found = self._in_both_cases(frozenset(_PROPERTIES[name]))
            return found if named[1] == "p" else _ASCII - found
        escape = self._escape()
        if escape in _BOUNDARIES:
            raise re.error(f"Illegal escape sequence {escape} in a class")
        pattern = re.compile(escape, re.ASCII)
        return frozenset(one for one in _ASCII if pattern.fullmatch(one))

    def _escape(self) -> str:
        escape = _ESCAPE.match(self._text, self._at)
        if escape is None:
            what = "octal escape sequence" if self._at + 1 < len(self._text) else "end"
            raise re.error(f"Illegal {what} near index {self._at}")
        self._at = escape.end()
        octal = escape["octal"]
        return rf"\x{int(octal, base=8):02x}" if octal else escape[0]

    def _takes(self, part: str) -> bool:
        """Read a part of the pattern if it comes next."""
        found = self._text.startswith(part, self._at)
        self._at += len(part) * found
        return found

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _unclosed(self) -> re.error:
        end = len(self._text) - 1
        return re.error(f"Unclosed character class near index {end}")


def _written(characters: frozenset[str]) -> str:
    """Return a class of Python's."""
    if not characters:
        return "(?!)"
    return f"[{''.join(re.escape(one) for one in sorted(characters))}]"
