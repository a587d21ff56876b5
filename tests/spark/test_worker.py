"""What a task leaves in the worker that Spark keeps for the next one."""

import subprocess
import sys
from typing import Final

import pytest

_CODE: Final = """
import gc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructType
from tieredfs.spark.source import TieredFSDataSource
options = {{"path": "/t", {option}}}
reader = TieredFSDataSource(options).reader(StructType().add({column!r}, LongType()))
for _ in range(2):
    assert list(reader.read(InputPartition(None))) == []
print(len(gc.get_objects()), gc.get_freeze_count())
"""


@pytest.mark.parametrize(
    ("option", "column"),
    [('"subscribe": "t"', "offset"), ('"view": "segments"', "bytes")],
    ids=["records", "view"],
)
def test_the_collection_after_each_task_does_not_look_at_what_is_imported(
    option: str, column: str
) -> None:
    code = _CODE.format(option=option, column=column)
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    seen, frozen = map(int, done.stdout.split())
    assert frozen > 10_000
    assert seen < frozen / 10
