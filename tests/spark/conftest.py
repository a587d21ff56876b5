"""A session that knows the source, and a quick way to ask it."""

from collections.abc import Mapping
from typing import Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark.oracle import TIER
from tieredfs.spark import register


class Load(Protocol):
    """Make a frame over a tier; schema and options as in Spark."""

    def __call__(
        self,
        options: Mapping[str, str],
        path: str = str(TIER),
        schema: str | StructType = "",
    ) -> DataFrame:
        """Make it; only an action runs it."""


@pytest.fixture
def load(spark: SparkSession) -> Load:
    """Make frames with ``format("tieredfs")``."""
    register(spark)

    def make(
        options: Mapping[str, str],
        path: str = str(TIER),
        schema: str | StructType = "",
    ) -> DataFrame:
        source = spark.read.format("tieredfs").options(**options)
        return (source if schema == "" else source.schema(schema)).load(path)

    return make
