"""Rows and refusals are those of Spark's own Kafka source."""

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark.conftest import Load
from spark.oracle import Answer, Case, oracle_cases

CASES = oracle_cases()
ANSWERED = [case for case in CASES if case.error is None]
REFUSED_AT_LOAD = [c for c in CASES if c.error and c.error["stage"] == "load"]
REFUSED_IN_ACTION = [c for c in CASES if c.error and c.error["stage"] == "action"]

CAUSES = {
    "subscribe-unknown-topic": ["NotFoundError", "topic 'nosuch'"],
    "subscribe-known-and-unknown-topic": ["NotFoundError", "topic 'nosuch'"],
    "starting-json-minus3": ["InvalidArgumentError", "o3.alpha partition 0", "-3"],
    "loss": ["topic o4 partition 0", "Some data may have been lost", "failOnDataLoss"],
}
"""What a message says where a tier has no words of Kafka's to repeat."""


@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_the_rows_are_those_of_kafkas_source(case: Case, load: Load) -> None:
    frame = load(case.options, schema=case.schema)
    if case.condition:
        frame = frame.where(case.condition)
    assert Answer.of(frame) == Answer.expected(case)


@pytest.mark.parametrize("case", [c for c in ANSWERED if "schema" in c.expect], ids=str)
def test_the_schema_is_that_of_kafkas_source_down_to_nullability(
    case: Case, load: Load
) -> None:
    assert load(case.options).schema.jsonValue() == case.expect["schema"]


@pytest.mark.parametrize("case", REFUSED_AT_LOAD, ids=str)
def test_what_kafkas_source_refuses_at_load_is_refused_at_load(
    case: Case, load: Load
) -> None:
    assert case.error is not None
    with pytest.raises(AnalysisException) as raised:
        load(case.options)
    assert _cause(case.error["message"]) in str(raised.value)


@pytest.mark.parametrize("case", REFUSED_IN_ACTION, ids=str)
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
        answer = Answer.of(load(case.options).where(case.condition))
    finally:
        spark.conf.set(name, before)
    assert answer == Answer.expected(case)


def _cause(message: str) -> str:
    """Return the part of Kafka's message that says what is wrong.

    Its advice on options of the Kafka client would lead a reader of a tier astray.
    """
    client = re.match(r"Kafka option '(.+' is not supported)", message)
    return client[1] if client else message


def _parts(case: Case) -> list[str]:
    assert case.error is not None
    message: str = case.error["message"]
    if case.name in CAUSES:
        return CAUSES[case.name]
    if message.startswith("Some data may have been lost"):
        return CAUSES["loss"]
    if match := re.search(r"Specified: Set\((.+)\) Assigned: Set\((.+)\)", message):
        first = message.partition(".")[0]
        return [first, f"Specified: {match[1]} ", f"Assigned: {match[2]}\n"]
    return [message.partition("\n")[0]]
