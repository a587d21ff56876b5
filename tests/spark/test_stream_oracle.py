"""Streams go as those of Spark's own Kafka source: rows, batches and refusals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from proofs.extent import WHOLE
from spark.oracle import TIER, Answer, Case, oracle_cases
from spark.streams import Batch, RehearsedStream, Run, Stream
from support.stores import files_of, fill
from tieredfs import ObjectStore, TieredFSError
from tieredfs.spark import register
from tieredfs.spark.options import parse_stream_options
from tieredfs.spark.stream_reader import TieredFSStreamReader
from tieredfs.spark.task_partition import TaskPartition

CASES = [case for case in oracle_cases() if case.mode == "stream"]
SAMPLE = {
    "grow-max",
    "loss-between-runs-false-max",
    "loss-between-runs-true",
    "stream-endingOffsets",
    "stream-headers",
    "stream-maxTriggerDelay-bad",
    "stream-min-max-availableNow",
    "stream-min-max-processingTime",
    "stream-once-overrides-max",
    "stream-only-the-empty-partition",
    "stream-read-committed",
    "stream-restart-options-ignored",
    "stream-startingTimestamp",
}
IN_SPARK = [case for case in CASES if WHOLE or case.name in SAMPLE]
"""A query takes seconds: all run by `tox -e proofs -- tests/spark`."""


def test_every_stream_case_is_run() -> None:
    assert len(CASES) == 52
    assert {case.name for case in CASES} >= SAMPLE


CAUSES = {
    "stream-max-negative": ["option 'maxOffsetsPerTrigger'", "-3"],
    "stream-refused-client-option": ["'kafka.auto.offset.reset' is not supported"],
    "stream-starting-json-missing-partition": [
        "option 'startingOffsets'",
        "Specified: o3.alpha-0 Assigned: o3.alpha-0, o3.alpha-1",
    ],
    "stream-startingTimestamp-no-match": [
        "option 'startingTimestamp'",
        "No offset matched from request of topic-partition o3.alpha-",
        "and timestamp 2700000000000",
    ],
    "stream-start-below-log-start-true": [
        "Offsets 10 to 299 of o4-0 are to be read, the log begins at 100",
        "Some data may have been lost; set failOnDataLoss to false",
    ],
    "stream-start-beyond-latest-true": [
        "Partition o4-0's offset was changed from 5000 to 300",
        "Some data may have been lost; set failOnDataLoss to false",
    ],
    "stream-restart-other-topic": [
        "The query has read o3.alpha-0, o3.alpha-1 before, which its options leave out",
        "set failOnDataLoss to false",
    ],
    "loss-between-runs-true": [
        "Offsets 40 to 119 of o7-0 are to be read, the log begins at 80",
        "Some data may have been lost; set failOnDataLoss to false",
    ],
}
"""What a message says where a tier has no words of Kafka's to repeat."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_batches_and_refusals_are_those_of_kafkas_source(
    case: Case, tmp_path: Path
) -> None:
    _check(case, RehearsedStream(), TieredFSError, tmp_path)


@pytest.mark.parametrize("case", IN_SPARK, ids=str)
def test_in_spark_they_are_so_too(
    case: Case, spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    stream = Stream(spark, tmp_path / "checkpoint")
    _check(case, stream, (AnalysisException, StreamingQueryException), tmp_path)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if {"minpartitions", "maxrecordsperpartition"} & c.names],
    ids=str,
)
def test_a_batch_is_divided_into_the_tasks_of_kafkas_source(case: Case) -> None:
    options = parse_stream_options({"path": str(TIER), **case.options})
    reader = TieredFSStreamReader(options, ("offset",))
    (run,) = case.expect
    assert len(run["batches"]) > 1
    for batch in run["batches"]:
        start = batch["startOffset"] or reader.initialOffset()
        ranges = [
            _range_of(one) for one in reader.partitions(start, batch["endOffset"])
        ]
        assert sorted(ranges) == batch["ranges"]


def _range_of(planned: InputPartition) -> list[str | int]:
    assert isinstance(planned, TaskPartition)
    (scan,) = planned.task.scans
    first, last = scan.plan.slices[0], scan.plan.slices[-1]
    number = first.segment.partition.partition
    return [scan.topic, number, first.start_offset, last.end_offset]


def _check(
    case: Case,
    stream: Stream | RehearsedStream,
    refusals: type[Exception] | tuple[type[Exception], ...],
    folder: Path,
) -> None:
    for number, (step, expect) in enumerate(zip(case.steps, case.expect, strict=True)):
        path = _tier(step.get("visible"), folder / f"tier-{number}")
        options, trigger = step.get("options", case.options), step.get("trigger", "")
        if (error := expect.get("error")) is not None:
            with pytest.raises(refusals) as raised:
                stream.run(path, options, trigger)
            for part in _parts(case, error):
                assert part in str(raised.value)
        else:
            batches = tuple(Batch.recorded(b, case.gone) for b in expect["batches"])
            expected = Run(Answer.recorded(expect), batches)
            assert stream.run(path, options, trigger, expect["rows"]) == expected


def _tier(visible: Mapping[str, Any] | None, path: Path) -> str:
    """Return the tier as it was in one run: with the segments that existed then."""
    if visible is None:
        return str(TIER)
    files = {}
    for name, held in visible.items():
        for key, data in files_of(TIER).items():
            folder, _, file = key.partition("/")
            is_held = held and held[0] <= int(file[:20]) < held[1]
            if folder.startswith(f"{name}-") and is_held:
                files[key] = data
    path.mkdir()
    fill(ObjectStore(str(path)), files)
    return str(path)


def _parts(case: Case, error: Mapping[str, Any]) -> list[str]:
    """Return what a refusal says: Kafka's words, or what a tier's user needs."""
    if case.name in CAUSES:
        return CAUSES[case.name]
    root = (error.get("root") or {}).get("message") or error["message"]
    return [line.strip().removesuffix(".") for line in root.splitlines()]
