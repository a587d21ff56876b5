"""What tests ask a session, wherever it runs."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from importlib import import_module
from io import StringIO
from typing import Any, Self

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from servers import Bucket
from spark.oracle import Answer

__all__ = [
    "PUSH_DOWN",
    "Query",
    "answer_of",
    "await_events",
    "configured",
    "count_executors",
    "error_of",
    "explanations_of",
    "import_error_of",
    "rows_of",
    "sql_count_of",
    "stream_of",
    "worker_logs",
]

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, slots=True)
class Query:
    """A batch query of ``format("tieredfs")``.

    Attributes:
        path: The tier's URL.
        options: Its options, the path apart.
        condition: A filter; empty for none.
        conf: What the session's configuration has while it runs.
    """

    path: str
    options: Mapping[str, str]
    condition: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Bucket, **options: str) -> Self:
        """Make a query on what lies in a place."""
        given = json.dumps(place.storage_options)
        return cls(place.url, {"storage_options": given, **options})

    def where(self, condition: str, **conf: str) -> "Query":
        """Add a filter, and what the configuration has while it is used."""
        return replace(self, condition=condition, conf=conf)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Make it; only an action runs it."""
        source = spark.read.format("tieredfs").options(**self.options)
        frame = source.load(self.path)
        return frame.where(self.condition) if self.condition else frame


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Change the configuration of a session for a while."""
    before = {name: spark.conf.get(name) or "" for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def answer_of(spark: SparkSession, query: Query) -> Answer:
    """Run a query on records."""
    with configured(spark, query.conf):
        return Answer.of(query.frame(spark))


def stream_of(spark: SparkSession, query: Query, folder: str) -> tuple[Answer, str]:
    """Run a stream into files, to the end of the topics and then once more.

    Returns:
        What is in the files, and what the query said of its progress.
    """
    said = []
    for _ in range(2):
        source = spark.readStream.format("tieredfs").options(**query.options)
        writer = source.load(query.path).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        writer = writer.option("path", f"{folder}/rows").trigger(availableNow=True)
        running = writer.start()
        running.awaitTermination()
        said += [str(one) for one in running.recentProgress]
    return Answer.of(spark.read.parquet(f"{folder}/rows")), "\n".join(said)


def rows_of(spark: SparkSession, query: Query) -> list[dict[str, Any]]:
    """Run a query, and return its rows in no order."""
    return [row.asDict() for row in query.frame(spark).collect()]


def error_of(spark: SparkSession, query: Query) -> str:
    """Run a query that fails, and return what Spark says."""
    try:
        query.frame(spark).collect()
    except PySparkException as error:
        return f"{error}"
    raise AssertionError("it has not failed")


def explanations_of(spark: SparkSession, query: Query) -> list[str]:
    """Return all that a session says about the plan of a query."""
    frame, found = query.frame(spark), []
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        with redirect_stdout(StringIO()) as printed:
            frame.explain(mode=mode)
        found.append(printed.getvalue())
    plans = getattr(frame, "_jdf", None)  # of a session without Connect
    if plans is not None:
        execution = plans.queryExecution()
        found += [execution.toString(), execution.analyzed().prettyJson()]
    return [*found, repr(frame)]


def worker_logs(spark: SparkSession, marker: str) -> list[str]:
    """Let a Python worker log a text, and return what all workers have logged."""

    def log(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        logging.getLogger("tests").warning(marker)
        yield from batches

    spark.range(1).mapInArrow(log, "id bigint").collect()
    return [
        str(row) for row in spark.sql("select * from python_worker_logs()").collect()
    ]


def sql_count_of(spark: SparkSession, query: Query) -> int:
    """Count the rows of a query that is made in SQL."""
    given = {"path": query.path, **query.options}
    options = ", ".join(f"`{name}` '{value}'" for name, value in given.items())
    spark.sql(f"create or replace temporary view t using tieredfs options ({options})")
    (row,) = spark.sql("select count(*) from t").collect()
    return int(row[0])


def import_error_of(spark: SparkSession, module: str) -> str:
    """Let a Python worker import a broken module, and return what Spark says."""

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import_module(module)
        yield from batches

    try:
        spark.range(1).mapInArrow(load, "id bigint").collect()
    except PySparkException as error:
        return f"{error}"
    raise AssertionError("it has been imported")


def await_events(spark: SparkSession) -> None:
    """Wait until the events of what has been run are written."""
    del spark  # on Connect it is a client, and the context is that of the server
    context = SparkContext._active_spark_context
    assert context is not None
    context._jsc.sc().listenerBus().waitUntilEmpty()


def count_executors(spark: SparkSession) -> int:
    """Return how many processes besides the driver run tasks."""
    context = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1
