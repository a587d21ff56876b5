"""How fast Spark gets records from a tier, beside its Kafka source and a real broker.

The broker is on this machine, so that no network slows it down; the tier has what it
has. Times are those of the clock: what the broker does counts as well. Needs Java 17,
and Maven when it is first used.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measuring import (
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    timed_by_clock,
)
from benchmarks.segments import KIB, MIB
from servers import Broker, Bucket
from servers.jars import fetched_jars
from spark.sessions import LONG_LIVED, ApartSession
from support.log_directories import native, push_all, source_of
from tieredfs import open_tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCALE: Final = Scale(1 << 29, 5, warm=4)  # till the JVM has compiled what runs often
_PARTITIONS: Final = 2
_TOPIC: Final = "orders"
_OURS, _KAFKA = "tieredfs", "kafka"
_NARROW: Final = ", offset alone"
_COUNT: Final = ", count()"
_SECONDS: Final = 120
_POM: Final = Path(__file__).parents[1] / "servers" / "kafka" / "spark-source.xml"


def drain(spark: "SparkSession", source: Mapping[str, str], column: str) -> None:
    """Plan a query anew, and drop its rows; of all columns if none is named."""
    frame = spark.read.format(source["format"]).options(**source).load()
    (frame.select(column) if column else frame).write.format("noop").mode(
        "append"
    ).save()


def count(spark: "SparkSession", source: Mapping[str, str]) -> int:
    """Plan a query anew, and count its rows."""
    return spark.read.format(source["format"]).options(**source).load().count()


def bench_spark_kafka(scale: Scale, folder: Path) -> Report:
    """Measure queries of all columns, of one, and of none.

    Args:
        scale: How many bytes of records there are.
        folder: Where they are made.
    """
    report = Report(
        "Records of 1 KiB to Spark, from a tier and from a broker",
        Unit.MEGABYTES,
        (_KAFKA,),
        scale.repetitions,
        times="Times of the clock",
    )
    jars = fetched_jars(_POM, "spark-source").glob("*.jar")
    conf = {"spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "2g"}
    for codec in ("none", "zstd"):
        place = folder / codec
        for name in ("broker", "tier", "session"):
            (place / name).mkdir(parents=True)
        with (
            Broker(place / "broker") as broker,
            ApartSession(
                "local[2]", place / "session", {**LONG_LIVED, **conf}, {}
            ) as session,
        ):
            _produce(broker, codec, scale.size // KIB)
            push_all(source_of(broker.logs), native(Bucket(str(place / "tier"), {})))
            topic = open_tier(place / "tier").topic(_TOPIC)
            ends = topic.end_offsets()
            rows = sum(ends.values())
            ours = {"format": "tieredfs", "path": str(place / "tier")}
            kafka = {"format": "kafka", "kafka.bootstrap.servers": broker.address}
            asked = {
                "subscribe": _TOPIC,
                "endingOffsets": json.dumps({_TOPIC: ends}),
            }
            works = [
                Work(name + what, rows * KIB, ask, timed_by_clock)
                for name, source in ((_OURS, ours), (_KAFKA, kafka))
                for what, ask in _questions(session, {**source, **asked}).items()
            ]
            found = measure(
                f"{rows:,} records, {codec}",
                works,
                scale,
                [
                    Promise(_OURS + each, 2, _KAFKA + each)
                    for each in ("", _NARROW, _COUNT)
                ],
            )
        report.comparisons.append(found)
    return report


def _questions(
    session: ApartSession, source: Mapping[str, str]
) -> Mapping[str, Callable[[], object]]:
    """Return the queries on a source, by what is asked for."""
    return {
        "": partial(session.ask, drain, source, ""),
        _NARROW: partial(session.ask, drain, source, "offset"),
        _COUNT: partial(session.ask, count, source),
    }


def _produce(broker: Broker, codec: str, records: int) -> None:
    """Produce records whose values compress to half, with a key of a few bytes."""
    bits = Random(20)  # noqa: S311 - no secret
    settings = {"segment.bytes": str(16 * MIB), "compression.type": "producer"}
    topic = NewTopic(_TOPIC, _PARTITIONS, 1, config=settings)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([topic])[_TOPIC].result(_SECONDS)
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": 16 * KIB,
        }
    )
    values = [bits.randbytes(KIB // 2).hex() for _ in range(KIB)]
    for number in range(records):
        while True:
            try:
                producer.produce(
                    _TOPIC,
                    values[number % len(values)],
                    str(number),
                    partition=number % _PARTITIONS,
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(_SECONDS)


def test_spark_kafka(tmp_path: Path) -> None:
    report = bench_spark_kafka(_SCALE, tmp_path)
    report.show()
    assert not report.disagreements()
