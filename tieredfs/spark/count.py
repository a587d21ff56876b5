"""Count the records of a topic by partition, in a Spark session of its own.

``python -m tieredfs.spark.count`` reads the source's options as JSON from standard
input and prints the counts as JSON; the demo runs it.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

from tieredfs.spark.source import register

__all__: list[str] = []


def main() -> None:
    """Count and print."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("tieredfs")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    register(spark)
    records = spark.read.format("tieredfs").options(**json.load(sys.stdin)).load()
    rows = records.groupBy("partition").count().orderBy("partition").collect()
    print(json.dumps({str(row[0]): row[1] for row in rows}))  # noqa: T201 - its answer
    spark.stop()


if __name__ == "__main__":
    main()
