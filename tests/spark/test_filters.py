"""Filters leave out what they can, and never a row that they accept."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from spark.oracle import TIER
from tieredfs.spark.filters import EVERYTHING, Wanted, wanted_by
from tieredfs.spark.options import parse_options
from tieredfs.spark.plan import plan_query, plan_tasks
from tieredfs.spark.record_reader import FilteringReader

COLUMNS = ("topic", "partition", "offset", "timestamp")
OPTIONS = parse_options({"path": str(TIER), "subscribePattern": "o[134]"})
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, given: value == given,
    EqualNullSafe: lambda value, given: value == given,
    GreaterThan: lambda value, given: value > given,
    GreaterThanOrEqual: lambda value, given: value >= given,
    LessThan: lambda value, given: value < given,
    LessThanOrEqual: lambda value, given: value <= given,
    In: lambda value, given: value in given,
    StringStartsWith: lambda value, given: value.startswith(given),
    StringEndsWith: lambda value, given: value.endswith(given),
    StringContains: lambda value, given: given in value,
}
ORDERED = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["o1", "o3.alpha", "o3", "alpha", "", "o4", "x"]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-1, 3001),
    "timestamp": st.integers(-1, 1_600_000).map(
        lambda ms: EPOCH + timedelta(milliseconds=1_700_000_000_000 + ms)
    ),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(COLUMNS))
    kinds: Sequence[Any] = (*ORDERED, LessThanOrEqual, In)
    if name == "topic":
        kinds = (*kinds, StringStartsWith, StringEndsWith, StringContains)
    kind = draw(st.sampled_from(kinds))
    value = VALUES[name]
    found: Filter = kind(
        (name,), draw(st.lists(value, min_size=1, max_size=3) if kind is In else value)
    )
    return Not(found) if draw(st.booleans()) else found


def accepts(condition: Filter, row: Mapping[str, Any]) -> bool:
    if isinstance(condition, Not):
        return not accepts(condition.child, row)
    fields = vars(condition)
    (name,), given = fields["attribute"], fields["value"]
    return COMPARISONS[type(condition)](row[name], given)


def rows_of(wanted: Wanted) -> list[dict[str, Any]]:
    return [
        row
        for task in plan_tasks(OPTIONS, COLUMNS, wanted)
        for _, batch in task.read()
        for row in batch.to_pylist()
    ]


@cache
def all_rows() -> list[dict[str, Any]]:
    return rows_of(EVERYTHING)


@given(st.lists(filters(), min_size=1, max_size=3))
def test_no_row_is_left_out_that_all_filters_accept(conditions: list[Filter]) -> None:
    def left(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if all(accepts(one, row) for one in conditions)]

    assert left(rows_of(wanted_by(conditions))) == left(all_rows())


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ([], 4165),
        ([EqualTo(("topic",), "o4")], 200),
        ([StringStartsWith(("topic",), "o3.")], 315),
        ([Not(In(("topic",), ("o1", "o3.alpha", "o3.beta")))], 350),
        ([EqualTo(("partition",), 1), EqualTo(("topic",), "o1")], 500),
        ([EqualTo(("partition",), 7)], 0),
        ([LessThan(("offset",), 100), EqualTo(("partition",), 1)], 200),
        ([GreaterThan(("offset",), 2998)], 1),
        ([In(("offset",), (5, 7))], 3 * 6),
        ([IsNull(("topic",))], 0),
        ([IsNotNull(("topic",)), IsNotNull(("offset",))], 4165),
    ],
    ids=str,
)
def test_topics_partitions_and_offsets_that_no_filter_accepts_are_not_read(
    conditions: list[Filter], count: int
) -> None:
    assert len(rows_of(wanted_by(conditions))) == count


def test_segments_that_are_older_than_a_filter_are_not_read() -> None:
    last = max(row["timestamp"] for row in all_rows() if row["topic"] == "o1")
    late = [GreaterThanOrEqual(("timestamp",), last), EqualTo(("topic",), "o1")]
    found = rows_of(wanted_by(late))
    assert 0 < len(found) < 3500 / 4
    assert last in {row["timestamp"] for row in found}


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("topic",), None),
        EqualTo(("partition",), "0"),
        EqualTo(("offset",), 2.5),
        In(("partition",), (0, None)),
        Not(In(("partition",), (0, None))),
        EqualTo(("timestamp",), 5),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "h"),
        LessThan(("timestamp",), EPOCH),
        Not(EqualTo(("offset",), 5)),
    ],
    ids=str,
)
def test_what_says_nothing_about_where_records_are_leaves_everything(
    condition: Filter,
) -> None:
    assert len(rows_of(wanted_by([condition]))) == 4165


def test_partitions_that_are_left_out_are_not_planned() -> None:
    wanted = wanted_by([EqualTo(("topic",), "o1"), EqualTo(("partition",), 0)])
    (planned,) = plan_query(OPTIONS, wanted)
    assert (planned.resolved.topic, planned.resolved.partition) == ("o1", 0)


def test_every_filter_is_left_to_spark_too() -> None:
    reader = FilteringReader(OPTIONS, COLUMNS)
    given: list[Filter] = [EqualTo(("partition",), 0), EqualTo(("key",), b"k")]
    assert list(reader.pushFilters(given)) == given
    assert reader.wanted == wanted_by(given)
