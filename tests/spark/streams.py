"""Run streams, one run after the other over one checkpoint, and note what they did."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from spark.oracle import Answer, collect
from spark.schemas import parse_schema
from tieredfs.spark import TieredFSDataSource
from tieredfs.spark.stream_reader import TieredFSStreamReader

__all__ = ["Batch", "RehearsedStream", "Run", "Stream"]

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


class RehearsedStream:
    """The same without Spark: the source is called as its driver calls it."""

    def __init__(self) -> None:
        self._ends: list[str] = []

    def run(
        self, path: str, options: Mapping[str, str], trigger: str = "", rows: int = 0
    ) -> Run:
        """Run it once, as ``Stream.run`` does.

        Raises:
            TieredFSError: It failed.
        """
        given = {"path": path, **{name.lower(): options[name] for name in options}}
        source = TieredFSDataSource(given)
        schema = parse_schema(source.schema())
        reader = cast("TieredFSStreamReader", source.streamReader(schema))
        if not trigger:
            reader.prepareForTriggerAvailableNow()
        default = reader.getDefaultReadLimit()
        limit = ReadAllAvailable() if trigger == "once" else default
        seen: list[Row] = []
        batches: list[Batch] = []
        end = monotonic() + _SECONDS
        while monotonic() < end:
            first = json.dumps(reader.initialOffset())
            start = self._ends[-1] if self._ends else first
            found = json.dumps(reader.latestOffset(json.loads(start), limit))
            if self._ends and found == start:
                if trigger != "processing":
                    break
                continue
            made = _rows_of(reader, schema, json.loads(start), json.loads(found))
            shown = {
                "batchId": len(self._ends),
                "sources": [
                    {
                        "startOffset": start if self._ends else None,
                        "endOffset": found,
                        "latestOffset": reader.reportLatestOffset(),
                        "numInputRows": len(made),
                    }
                ],
            }
            batches.append(Batch.of(shown))
            self._ends.append(found)
            seen += made
            if trigger == "once" or (trigger == "processing" and len(seen) >= rows):
                break
        return Run(Answer.of_rows(seen), tuple(batches))


def _rows_of(
    reader: TieredFSStreamReader,
    schema: StructType,
    start: dict[str, object],
    end: dict[str, object],
) -> list[Row]:
    found = []
    for part in pickle.loads(pickle.dumps(reader.partitions(start, end))):  # noqa: S301 - our own
        for batch in reader.read(part):
            at = batch.schema.get_field_index("timestamp")
            plain = batch.set_column(at, "timestamp", batch["timestamp"].cast("int64"))
            found += [Row(**row) for row in plain.to_pylist()]
    assert all(row.__fields__ == schema.fieldNames() for row in found)
    return found


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
