"""Rows and refusals are those of Spark's own Kafka source, and so are ranges."""

import re
from dataclasses import replace
from itertools import groupby

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark.conftest import Load
from spark.oracle import TIER, Answer, Case, oracle_cases
from tieredfs.spark.options import SourceOptions, parse_options
from tieredfs.spark.plan import plan_query, plan_tasks
from tieredfs.spark.ranges import OffsetRange, divide

BY_DESIGN = {
    "no-bootstrap-servers": "there is no broker to name",
    "user-schema": "a schema chooses the columns that are read",
}
"""What Kafka's source refuses and this one answers, with the reason."""

COUNTS_AN_EMPTY_PARTITION = {
    "minPartitions-3",
    "minPartitions-equal-to-non-empty-plus-empty",
}
"""Divided here, and not there: a partition without records leaves nothing in a tier."""

CASES = [case for case in oracle_cases() if case.mode == "batch"]
ANSWERED = [case for case in CASES if case.error is None]
REFUSED = [case for case in CASES if case.error and case.name not in BY_DESIGN]
EARLIER = {"isolation-value-upper", "isolation-invalid", "client-option-numRetries-bad"}
"""Refused when the frame is made; Kafka's source finds out when the query is run."""

LATER = {"starting-latest-batch", "starting-json-minus1-batch"}
"""Right in a stream: when the frame is made, Spark does not say what it is for."""

AT_LOAD = [
    case
    for case in REFUSED
    if (case.refused_at("load") or case.name in EARLIER) and case.name not in LATER
]
IN_ACTION = [case for case in REFUSED if case not in AT_LOAD]

CAUSES = {
    "subscribe-unknown-topic": ["NotFoundError", "topic 'nosuch'"],
    "subscribe-known-and-unknown-topic": ["NotFoundError", "topic 'nosuch'"],
    "starting-json-minus3": ["InvalidArgumentError", "o3.alpha partition 0", "-3"],
    "loss": ["topic o4 partition 0", "Some data may have been lost", "failOnDataLoss"],
}
"""What a message says where a tier has no words of Kafka's to repeat."""


def test_every_batch_case_is_run() -> None:
    assert len(CASES) == 165
    assert len(ANSWERED) + len(REFUSED) + len(BY_DESIGN) == 165
    assert len(AT_LOAD) + len(IN_ACTION) == len(REFUSED)


@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_the_rows_are_those_of_kafkas_source(case: Case, load: Load) -> None:
    frame = load(case.options, schema=case.schema)
    if case.condition:
        frame = frame.where(case.condition)
    assert Answer.of(frame) == Answer.expected(case)


@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_ranges_are_divided_as_kafkas_source_divides_them(case: Case) -> None:
    expected = sorted(one for one in _expected_ranges(case) if _is_in_tier(one))
    found = sorted(_ranges(_options(case)))
    if case.name in COUNTS_AN_EMPTY_PARTITION:
        assert len(found) > len(expected) == case.expect["spark_partitions"] - 1
    else:
        assert found == expected


DIVIDED = [c for c in ANSWERED if {"minpartitions", "maxrecordsperpartition"} & c.names]


@pytest.mark.parametrize("case", DIVIDED, ids=str)
def test_each_range_that_was_asked_for_is_a_task_unless_it_is_empty(case: Case) -> None:
    options = _options(case)
    tasks = plan_tasks(options, ("offset",))
    filled = [one for one in _ranges(options) if one[2] != one[3]]
    assert len(tasks) == len(filled)


@pytest.mark.parametrize("case", [c for c in ANSWERED if "schema" in c.expect], ids=str)
def test_the_schema_is_that_of_kafkas_source_down_to_nullability(
    case: Case, load: Load
) -> None:
    assert load(case.options).schema.jsonValue() == case.expect["schema"]


@pytest.mark.parametrize("case", AT_LOAD, ids=str)
def test_what_kafkas_source_refuses_at_load_is_refused_at_load(
    case: Case, load: Load
) -> None:
    with pytest.raises(AnalysisException) as raised:
        load(case.options)
    said = str(raised.value)
    for part in _parts(case):
        assert part in said
    assert "tieredfs.errors.InvalidArgumentError" in said


@pytest.mark.parametrize("case", IN_ACTION, ids=str)
def test_what_kafkas_source_refuses_when_run_loads_and_is_refused_when_run(
    case: Case, load: Load
) -> None:
    frame = load(case.options)
    with pytest.raises(AnalysisException) as raised:
        frame.collect()
    said = str(raised.value)
    for part in _parts(case):
        assert part in said
    assert "tieredfs.errors." in said


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_filter_keeps_its_meaning_whether_spark_pushes_filters_down_or_not(
    enabled: str, load: Load, spark: SparkSession
) -> None:
    (case,) = (case for case in ANSWERED if case.condition)
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name) or "false"
    spark.conf.set(name, enabled)
    try:
        frame = load({**case.options, "push_filters": "true"})
        answer = Answer.of(frame.where(case.condition))
    finally:
        spark.conf.set(name, before)
    assert answer == Answer.expected(case)


def _options(case: Case) -> SourceOptions:
    return parse_options({"path": str(TIER), **case.options})


def _expected_ranges(case: Case) -> list[tuple[str, int, int, int]]:
    return [tuple(one) for one in case.expect["ranges"]]


def _is_in_tier(one: tuple[str, int, int, int]) -> bool:
    return one[:2] != ("o1", 2)


def _ranges(options: SourceOptions) -> list[tuple[str, int, int, int]]:
    """Return the ranges as Kafka's source shows them: with open ends left open."""
    planned = plan_query(options)
    divided = divide(
        [one.asked for one in planned],
        [one.resolved for one in planned],
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )
    asked = {_name(one.asked): one.asked for one in planned}
    found: list[OffsetRange] = []
    for name, group in groupby(divided, _name):
        parts = list(group)
        parts[0] = replace(parts[0], start=asked[name].start)
        parts[-1] = replace(parts[-1], end=asked[name].end)
        found += parts
    return [(one.topic, one.partition, one.start, one.end) for one in found]


def _name(one: OffsetRange) -> tuple[str, int]:
    return one.topic, one.partition


def _parts(case: Case) -> list[str]:
    """Return what a refusal says: Kafka's words, less what only a broker's user needs.

    Its advice on options of the Kafka client would lead a reader of a tier astray.
    """
    assert case.error is not None
    message: str = case.error["message"]
    if case.name in CAUSES:
        return CAUSES[case.name]
    if client := re.match(r"Kafka option '(.+' is not supported)", message.strip()):
        return [client[1]]
    if message.startswith("Some data may have been lost"):
        return CAUSES["loss"]
    if match := re.search(r"Specified: Set\((.+)\) Assigned: Set\((.+)\)", message):
        first = message.partition(".")[0]
        return [first, f"Specified: {match[1]} ", f"Assigned: {match[2]}\n"]
    if match := re.match(r"(No offset matched .*)topic-partition \S+(.*)\.", message):
        return [match[1], match[2]]  # any of the partitions without a match
    return [(case.root or message).strip().partition("\n")[0].removesuffix(".")]
