"""What a push takes of this machine: memory, and room for temporary files.

Each push is a process of its own, whose greatest memory the system tells, and whose
writes to temporary files are counted.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.measuring import FULL, Scale
from benchmarks.segments import KIB, MIB, Shape, segment
from servers import Bucket, Fleet
from support.log_directories import write_log

__all__ = ["Footprint", "bench_push", "measure_push"]

_PARTITIONS: Final = 4
_TIMES: Final = 8
"""How many times larger a log is than a benchmark's usual data."""

_PUSH: Final = """
import json, sys, time
from tieredfs import ObjectStore
from tieredfs.log.push.push import push
from tieredfs.storage.segment_log import temporary_file
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

logdir, url, options, compression = json.loads(sys.argv[1])
temporary, write = 0, temporary_file._TemporaryFile.write

def count(self, data):
    global temporary
    written = write(self, data)
    temporary += written
    return written

temporary_file._TemporaryFile.write = count
source = KafkaLog(ObjectStore(logdir))
target = SingleObject(ObjectStore(url, options), compression=compression)
begun = time.perf_counter()
report = push(source, target, source.list_partitions())
seconds = time.perf_counter() - begun
told = dict(line.split(":") for line in open("/proc/self/status"))
peak = int(told["VmHWM"].split()[0]) * 1024
sizes = [one.segment.size for one in report.segments if one.outcome == "copied"]
print(json.dumps([sum(sizes), peak, temporary, seconds]))
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one push took.

    Attributes:
        name: Where it went, and how.
        copied: Bytes of the logs that were copied.
        memory: The most bytes of memory that the process had.
        temporary: Bytes that were written to temporary files.
        seconds: By the clock.
    """

    name: str
    copied: int
    memory: int
    temporary: int
    seconds: float

    def __str__(self) -> str:
        """Write one line."""
        return (
            f"{self.name:24}{self.copied / 1e6:10,.0f} MB of logs "
            f"{self.memory / 1e6:8,.0f} MB of memory "
            f"{self.temporary / 1e6:8,.0f} MB of temporary files {self.seconds:7.1f} s"
        )


def measure_push(
    name: str, logdir: Path, place: Bucket, compression: str | None = None
) -> Footprint:
    """Push a log directory once, in a process of its own."""
    told = json.dumps([str(logdir), place.url, place.storage_options, compression])
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", _PUSH, told], capture_output=True, text=True, check=True
    )
    copied, memory, temporary, seconds = json.loads(done.stdout)
    return Footprint(name, copied, memory, temporary, seconds)


def bench_push(scale: Scale, folder: Path, fleet: Fleet) -> list[Footprint]:
    """Push four large logs to a disk and to a server, as they are and compressed.

    Args:
        scale: How much.
        folder: Where the logs and the archives go.
        fleet: The servers.
    """
    made = segment(Shape(KIB, MIB), scale.size * _TIMES)
    end = sum(batch.count for batch in made.batches)
    for number in range(_PARTITIONS):
        logs = {0: made.data, end: b""}
        write_log(folder / "logs", logs, partition=f"t-{number}")
    places = [
        ("a disk", Bucket(str(folder / "plain"), {}), None),
        ("a disk, zstd", Bucket(str(folder / "zstd"), {}), "zstd"),
        ("S3", fleet.place("s3"), None),
    ]
    return [
        measure_push(name, folder / "logs", place, compression)
        for name, place, compression in places
    ]


def test_push(tmp_path: Path, fleet: Fleet) -> None:
    print("\nWhat a push takes")
    for footprint in bench_push(FULL, tmp_path, fleet):
        print(footprint)
