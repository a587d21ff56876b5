"""Run streams, one run after the other over one checkpoint, and note what they did."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

from pyspark.sql import DataFrame, Row, SparkSession

from spark.oracle import Answer, collect

__all__ = ["Batch", "Run", "Stream"]

_SECONDS = 120
_POLL_SECONDS = 1
_POSITIONS = ("startOffset", "endOffset", "latestOffset")
_TRIGGERS: Mapping[str, Mapping[str, Any]] = {
    "": {"availableNow": True},
    "once": {"once": True},
    "processing": {"processingTime": "200 milliseconds"},
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as a stream's progress shows it.

    Where a query began is left out: Kafka's source keeps it elsewhere.

    Attributes:
        number: Its number.
        start: Where it began; None in the first one.
        end: Where it ended.
        latest: Where the logs ended.
        rows: How many rows it had.
    """

    number: int
    start: object
    end: object
    latest: object
    rows: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Self:
        """Take one from a query's progress."""
        (source,) = progress["sources"]
        start, end, latest = (_position(source[name]) for name in _POSITIONS)
        return cls(progress["batchId"], start, end, latest, source["numInputRows"])

    @classmethod
    def recorded(cls, batch: Mapping[str, Any], gone: str) -> Self:
        """Take one of Kafka's source, without a partition that left no trace."""
        start, end, latest = (_without(batch[name], gone) for name in _POSITIONS)
        return cls(batch["batchId"], start, end, latest, batch["numInputRows"])


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a stream did.

    Attributes:
        answer: Its rows.
        batches: Its batches.
    """

    answer: Answer
    batches: tuple[Batch, ...]


class Stream:
    """A stream of which each run goes on where the one before it ended."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        """Take the session, and where Spark keeps how far the stream is."""
        self._spark = spark
        self._checkpoint = checkpoint

    def run(
        self, path: str, options: Mapping[str, str], trigger: str = "", rows: int = 0
    ) -> Run:
        """Run it once.

        Args:
            path: The tier.
            options: Those of the source.
            trigger: ``processing`` until it has so many rows, ``once``, or empty for
                AvailableNow.
            rows: How many rows are awaited.

        Raises:
            StreamingQueryException: It failed.
        """
        seen: list[Row] = []

        def keep(frame: DataFrame, number: int) -> None:
            del number
            seen.extend(collect(frame))

        source = self._spark.readStream.format("tieredfs").options(**options)
        writer = source.load(path).writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(**_TRIGGERS[trigger]).start()
        end = monotonic() + _SECONDS
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                assert monotonic() < end, "the stream has not ended"
                made = sum(one["numInputRows"] for one in query.recentProgress)
                if trigger == "processing" and made >= rows > 0:
                    break
        finally:
            query.stop()
        progress = [json.loads(one.json) for one in query.recentProgress]
        made = [one for one in progress if "addBatch" in one["durationMs"]]
        return Run(Answer.of_rows(seen), tuple(map(Batch.of, made)))


def _position(offsets: Any) -> object:  # noqa: ANN401 - JSON, or a text of it
    found = json.loads(offsets) if isinstance(offsets, str) else offsets
    if found:
        found.pop("from", None)
    return found


def _without(offsets: Any, gone: str) -> object:  # noqa: ANN401 - JSON
    if not gone or offsets is None:
        return offsets
    topic, _, partition = gone.rpartition("-")
    left = {number: at for number, at in offsets[topic].items() if number != partition}
    return {name: at for name, at in {**offsets, topic: left}.items() if at}
