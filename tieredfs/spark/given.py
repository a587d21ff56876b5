"""The options of a query as they were given: texts, by names in any case."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT64

__all__ = ["GivenOptions", "to_boolean", "to_long", "to_positive"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,1000}")  # of very many Python makes none
_SIMILARITY: Final = 0.8  # of names, from 0 to 1, as difflib measures it
_T = TypeVar("_T")


class GivenOptions:
    """Options by their names, in any case; errors name the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Take the options of a query."""
        self._values = {name.lower(): value for name, value in given.items()}
        self._known: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether an option was given."""
        return self.text(name) is not None

    def text(self, name: str) -> str | None:
        """Return an option's text; None if it was not given."""
        if name != name.lower() or name not in self._known:
            self._known[name.lower()] = name
        return self._values.get(name.lower())

    def misspelt(
        self, others: Collection[str], refused: Collection[str]
    ) -> Mapping[str, str]:
        """Return the options that are none, but whose name is almost that of one.

        Args:
            others: Options besides those that were read.
            refused: Options that are no better.

        Returns:
            The name of an option, by the name that was given. What is left may be meant
            for Kafka's client, whose options are ignored.
        """
        known = {name.lower(): name for name in others} | self._known
        better = known.keys() - {name.lower() for name in refused}
        unknown = sorted(self._values.keys() - known.keys())
        similar = {
            name: get_close_matches(name, better, 1, _SIMILARITY) for name in unknown
        }
        return {name: known[found[0]] for name, found in similar.items() if found}

    def parse(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        """Return the value of an option; None if it was not given.

        Args:
            name: The option, spelled as in errors.
            parse: Makes the value of the text.

        Raises:
            InvalidArgumentError: ``parse`` raised it; the message names the option.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse(value)
        except InvalidArgumentError as error:
            if f"'{name}'" in str(error) or str(error).startswith(name):
                raise
            raise InvalidArgumentError(f"option '{name}': {error}") from error

    def json_object(self, name: str) -> Mapping[str, object]:
        """Return a JSON object; empty if it was not given.

        Raises:
            InvalidArgumentError: It is not one; the message omits its text, which may
                contain secrets.
        """
        try:
            text = self.text(name)
            parsed = {} if text is None else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"option '{name}' is not JSON") from error
        if not isinstance(parsed, dict):
            raise InvalidArgumentError(f"option '{name}' is not a JSON object")
        return parsed

    def with_prefix(self, prefix: str) -> Mapping[str, str]:
        """Return the options whose names begin with a prefix, without it."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix)
        }


def to_boolean(value: str) -> bool:
    """Return a truth value, in Spark's spelling.

    Raises:
        InvalidArgumentError: It is neither ``true`` nor ``false``, in any case.
    """
    word = value.lower()
    if word not in {"true", "false"}:
        raise InvalidArgumentError(f'For input string: "{value}"')
    return word == "true"


def to_long(value: str, largest: int = MAX_INT64) -> int:
    """Return an integer as Java reads it: digits, without spaces.

    Args:
        value: The text.
        largest: The largest value; the smallest is one below its negative.

    Raises:
        InvalidArgumentError: It is not an integer, or too large.
    """
    if _INTEGER.fullmatch(value) and -largest - 1 <= int(value) <= largest:
        return int(value)
    raise InvalidArgumentError(f'For input string: "{value}"')


def to_positive(value: str, name: str, largest: int = MAX_INT64) -> int:
    """Return an integer above zero.

    Args:
        value: The text.
        name: What it is, in Kafka's spelling.
        largest: As in ``to_long``.

    Raises:
        InvalidArgumentError: It is not one.
    """
    found = to_long(value, largest)
    if found <= 0:
        raise InvalidArgumentError(f"{name} must be positive")
    return found
