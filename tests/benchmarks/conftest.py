"""Fixtures of benchmarks."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def long_lived_spark(tmp_path: Path) -> "Iterator[SparkSession]":
    """A Spark session with a JVM as users have it: the first one of its process."""
    from spark.sessions import CONF, LONG_LIVED, session_here  # noqa: PLC0415 - slow

    warehouse = str(tmp_path / "warehouse")
    conf = {**CONF, **LONG_LIVED, "spark.sql.warehouse.dir": warehouse}
    with session_here(conf) as session:
        yield session
