"""What a query's filters leave to read, when Spark pushes them down.

Nothing is claimed: Spark applies every filter itself, so what is read has to hold all
rows that a filter accepts, and may hold others.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tieredfs.integers import MAX_INT64
from tieredfs.log.read.scan_bounds import to_milliseconds

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["EVERYTHING", "Condition", "Wanted", "wanted_by"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a column has to be.

    Attributes:
        kind: The class of Spark's filter, such as ``EqualTo``.
        value: What the column is compared with.
        is_negated: Whether it must not be so.
    """

    kind: str
    value: object
    is_negated: bool = False

    def may_accept(self, value: str | int) -> bool:
        """Return whether a value may be accepted; True if that is not known."""
        if self.kind == "IsNull" and not self.is_negated:
            return False
        compare = _COMPARISONS.get(self.kind)
        given = self.value if self.kind == "In" else (self.value,)
        # Of null and of other types it is Spark that knows what is equal.
        if compare is None or not all(type(one) is type(value) for one in given):  # type: ignore[attr-defined] # In's is a list
            return True
        return compare(value, self.value) is not self.is_negated


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, given: value in given,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}
_LOWER_BOUNDS: Final = (
    "EqualTo",
    "EqualNullSafe",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
)
_UPPER_BOUNDS: Final = ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "In")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read.

    Attributes:
        topic: Conditions on the topic.
        partition: Conditions on the partition.
        start: First offset.
        end: End (exclusive) of the offsets.
        since: Smallest timestamp, in milliseconds since 1970 UTC; None for any.
    """

    topic: tuple[Condition, ...] = ()
    partition: tuple[Condition, ...] = ()
    start: int = 0
    end: int = MAX_INT64 + 1
    since: int | None = None

    def has_topic(self, name: str) -> bool:
        """Return whether a topic may have rows."""
        return all(one.may_accept(name) for one in self.topic)

    def has_partition(self, number: int) -> bool:
        """Return whether partitions of a number may have rows."""
        return all(one.may_accept(number) for one in self.partition)


EVERYTHING: Final = Wanted()


def wanted_by(filters: "Iterable[Filter]") -> Wanted:
    """Return what may have rows that all filters accept.

    Args:
        filters: Filters on any column; those that say nothing about where records are
            leave everything.
    """
    found = EVERYTHING
    for one in filters:
        plain = getattr(one, "child", one)  # of Not
        condition = Condition(
            type(plain).__name__,
            getattr(plain, "value", None),
            is_negated=plain is not one,
        )
        match getattr(plain, "attribute", None):
            case ("topic",):
                found = replace(found, topic=(*found.topic, condition))
            case ("partition",):
                found = replace(found, partition=(*found.partition, condition))
            case ("offset",):
                found = _within_offsets(found, condition)
            case ("timestamp",):
                found = _since(found, condition)
    return found


def _within_offsets(wanted: Wanted, condition: Condition) -> Wanted:
    offsets = _values(condition, int)
    start, end = wanted.start, wanted.end
    if offsets and condition.kind in _LOWER_BOUNDS:
        start = max(start, min(offsets) + (condition.kind == "GreaterThan"))
    if offsets and condition.kind in _UPPER_BOUNDS:
        end = min(end, max(offsets) + (condition.kind != "LessThan"))
    return replace(wanted, start=start, end=end)


def _since(wanted: Wanted, condition: Condition) -> Wanted:
    """Raise the smallest timestamp: of a segment only the largest one is known."""
    times = _values(condition, datetime)
    if not times or condition.kind not in _LOWER_BOUNDS:
        return wanted
    since = min(map(to_milliseconds, times))
    return replace(
        wanted, since=since if wanted.since is None else max(wanted.since, since)
    )


def _values(condition: Condition, kind: type) -> list[Any]:
    """Return what a column is compared with, if all of it is of a type."""
    value = condition.value
    values = list(value) if isinstance(value, list | tuple) else [value]
    is_usable = not condition.is_negated and all(type(one) is kind for one in values)
    return values if is_usable else []
