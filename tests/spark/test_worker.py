"""What a task leaves in the worker that Spark keeps for the next one."""

import subprocess
import sys
from typing import Final

_CODE: Final = """
import gc
from pyspark.sql.datasource import InputPartition
from tieredfs.spark.record_reader import read_task
for _ in range(2):
    assert list(read_task(InputPartition(None), ("offset",))) == []
print(len(gc.get_objects()), gc.get_freeze_count())
"""


def test_the_collection_after_each_task_does_not_look_at_what_is_imported() -> None:
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=True
    )
    seen, frozen = map(int, done.stdout.split())
    assert frozen > 10_000
    assert seen < frozen / 10
