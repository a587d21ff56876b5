"""JSON that gives partitions, or a number for each partition, by topic."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT64

__all__ = ["Numbers", "parse_number", "parse_numbers", "parse_partitions"]

Numbers = Mapping[str, Mapping[int, int]]
"""A number, such as an offset, for each partition of each topic."""

_ASSIGN_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'
_KEY: Final = re.compile(r"[+-]?[0-9]+")
_T = TypeVar("_T")


def parse_partitions(text: str) -> Mapping[str, tuple[int, ...]]:
    """Parse numbers of partitions by topic.

    Raises:
        InvalidArgumentError: It is other JSON, or names a topic twice.
    """
    return _by_topic(
        text,
        _ASSIGN_EXAMPLE,
        lambda _, numbers: tuple(map(_number, _of_type(numbers, list))),
    )


def parse_numbers(text: str, example: str) -> Numbers:
    """Parse a number for each partition, by topic.

    Args:
        text: The JSON.
        example: What is right, for errors.

    Raises:
        InvalidArgumentError: It is other JSON, or names something twice.
    """
    return _by_topic(text, example, _numbers_of_topic)


def _numbers_of_topic(topic: str, content: object) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for key, number in _of_type(content, dict).items():
        partition = parse_number(key)
        if partition in found:  # such as "0" and "00"
            raise _Twice(f"partition {partition} of topic {topic}")
        found[partition] = _number(number)
    return found


def _by_topic(
    text: str, example: str, parse: Callable[[str, object], _T]
) -> dict[str, _T]:
    try:
        found = json.loads(text, object_pairs_hook=_without_repetition)
        return {
            topic: parse(topic, content)
            for topic, content in _of_type(found, dict).items()
        }
    except _Twice as error:
        raise InvalidArgumentError(f"{error} is named twice in {text}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"Expected e.g. {example}, got {text}") from error


class _Twice(Exception):  # noqa: N818 - says what it is that is there twice
    """A topic or a partition is named more than once."""


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise _Twice(repr(name))
    return found


def parse_number(key: str) -> int:
    """Parse the number of a partition, which is a key.

    Raises:
        ValueError: It is another text.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(key)
    return int(key)


def _of_type(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(value)  # noqa: TRY004 - caught with what JSON raises
    return value


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 - caught with what JSON raises
    if abs(value) > MAX_INT64:
        raise ValueError(value)
    return value
