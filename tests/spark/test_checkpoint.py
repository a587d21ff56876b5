"""Checkpoints of streams: what is in them, and that one of Kafka's source is taken."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from spark.oracle import TIER
from spark.streams import Stream
from tieredfs.spark import register

OPTIONS = {"subscribe": "o3.alpha", "startingOffsets": "earliest"}


def test_a_stream_goes_on_from_a_checkpoint_of_kafkas_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    stream = Stream(spark, tmp_path)
    assert stream.run(str(TIER), OPTIONS).answer.rows == 195
    logged = tmp_path / "offsets" / "0"
    version, conf, offset = logged.read_text().split("\n")
    assert json.loads(offset) == {"o3.alpha": {"0": 90, "1": 105}}
    # As Kafka's source writes it: without spaces, in an order of its own.
    kafkas = '{"o3.alpha":{"1":100,"0":80}}'
    logged.write_text(f"{version}\n{conf}\n{kafkas}")
    logged.with_name(".0.crc").unlink()
    initial = tmp_path / "sources" / "0" / "0"
    initial.parent.mkdir(parents=True)
    initial.write_text('\0v1\n{"o3.alpha":{"0":0,"1":0}}')
    answer = stream.run(str(TIER), OPTIONS).answer
    assert answer.partitions == {
        "o3.alpha-0": [80, 89, 10],
        "o3.alpha-1": [100, 104, 5],
    }
