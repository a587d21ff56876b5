"""``tieredfs demo``: push and read segments that a real broker wrote."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec

import click
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.cache import IndexCachedStorage, RemoteIndexCache
from tieredfs.cli.log_directory import check_is_directory
from tieredfs.cli.options import StoreOptions, json_option, store_options
from tieredfs.cli.output.escapes import escape
from tieredfs.cli.output.progress import waiting
from tieredfs.cli.output.tables import (
    show_json,
    show_line,
    show_table,
    show_text,
    show_time,
)
from tieredfs.errors import NotFoundError
from tieredfs.log.push.push import push
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectStore, RequestCounter
from tieredfs.objects.identity import is_in_memory
from tieredfs.storage import NATIVE_LAYOUT, RemoteStorageManager, open_storage
from tieredfs.tier import Tier
from tieredfs.topic import Topic

__all__ = ["demo"]

_SOURCE_LAYOUT = "kafka-local"
_SPARK_SECONDS = 300
_COLUMNS = {
    "asked": "WHAT WAS ASKED",
    "records": "RECORDS",
    "requests": "REQUESTS",
    "bytes": "BYTES",
    "milliseconds": "MS",
}
_NO_JAVA = (
    "Spark: there is no Java runtime; install one of version 17 or newer "
    "(Debian: apt-get install openjdk-17-jre-headless)"
)
_NO_PYSPARK = "Spark: pyspark is not installed (pip install 'tieredfs[spark]')"
_NO_SHARING = "Spark: left out, for its processes cannot see memory://"


@click.command
@click.option(
    "--url", help="Where to put the segments; a new local directory by default."
)
@json_option
@store_options
def demo(options: StoreOptions, url: str | None, *, as_json: bool) -> None:
    """Push segments that a real Kafka broker wrote to a store, and read them back.

    They are pushed twice, read whole, by offset, by time, again after a restart with
    the indexes kept, and counted in Spark. The requests and bytes in the table are
    those that the object store counted.
    """
    place = tempfile.mkdtemp(prefix="tieredfs-demo-") if url is None else url
    counter = RequestCounter()
    store = options.store(place, counter)
    check_is_directory(store)
    meter = _Meter(counter)
    with waiting(store.url):
        tier, pushed = _push(store, meter)
        with meter.measure("list the topics"):
            tier.topics()
        with meter.measure("open it, and ask where its partitions end"):
            topic = tier.topic(pushed.topic, topic_id=pushed.topic_id)
            ends = topic.end_offsets()
        when = _read(topic, ends, meter)
        _find_after_a_restart(tier.storage, pushed, when, meter)
    name = topic.name
    if not as_json:
        show_line(f"{name}, as a Kafka broker wrote it, in {store.url}")
        show_text()
        show_table([step.row() for step in meter.steps], _COLUMNS)
    with waiting("Spark"):
        spark_counts, spark_note = _count_in_spark(options, place, name)
    if as_json:
        show_json(
            {
                "url": store.url,
                "topic": name,
                "steps": [step.row() for step in meter.steps],
                "spark": {"counts": spark_counts, "note": spark_note},
            }
        )
        return
    show_text()
    if spark_counts is not None:
        show_text('Spark: records by partition through format("tieredfs")')
        rows = [{"partition": p, "records": n} for p, n in spark_counts.items()]
        show_table(rows, {"partition": "PARTITION", "records": "RECORDS"})
    else:
        show_line(spark_note or "")
    show_text(f"\nTry next{_hint(options, place)}:")
    for command in _next_commands(place, store.url, topic):
        show_text(f"  {escape(command)}")


@dataclass(frozen=True, slots=True)
class _Step:
    """One measured step, and its cost."""

    asked: str
    records: int | None
    requests: int
    bytes: int
    seconds: float

    def row(self) -> dict[str, object]:
        """Return it as a row of the table."""
        return {
            "asked": self.asked,
            "records": self.records,
            "requests": self.requests,
            "bytes": self.bytes,
            "milliseconds": round(self.seconds * 1000),
        }


class _Meter:
    """Measure steps: their time, and what the store counted meanwhile."""

    def __init__(self, counter: RequestCounter) -> None:
        self._counter = counter
        self.steps: list[_Step] = []

    @contextmanager
    def measure(self, asked: str) -> Iterator[None]:
        """Measure a step that reads no records."""
        with self._measured(asked, lambda: None):
            yield

    def read(self, asked: str, work: Callable[[], pa.Table]) -> pa.Table:
        """Measure a step that reads records."""
        table = pa.table({})
        with self._measured(asked, lambda: table.num_rows):
            table = work()
        return table

    @contextmanager
    def _measured(
        self, asked: str, records: Callable[[], int | None]
    ) -> Iterator[None]:
        requests, size = self._counter.requests, self._counter.size
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.steps.append(
            _Step(
                asked,
                records(),
                self._counter.requests - requests,
                self._counter.size - size,
                seconds,
            )
        )


def _push(store: ObjectStore, meter: _Meter) -> tuple[Tier, TopicIdPartition]:
    """Push twice: the second time there is nothing left to put."""
    with as_file(files("tieredfs") / "demo_data") as folder:
        source = open_storage(ObjectStore(str(folder)), _SOURCE_LAYOUT)
        partitions = source.list_partitions()
        with meter.measure("push the broker's segments"):
            target = _target(store)
            _push_all(source, target, partitions)
        with meter.measure("push them again"):
            _push_all(source, target, partitions)
    return Tier(target), partitions[0]


def _push_all(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
) -> None:
    # One after the other: threads that begin together ask some things twice.
    for error in push(source, target, partitions, concurrency=1).errors:
        raise error


def _target(store: ObjectStore) -> RemoteStorageManager:
    """Open the store in its layout; in the native one if it is empty."""
    try:
        return open_storage(store)
    except NotFoundError:
        return open_storage(store, NATIVE_LAYOUT)


def _read(topic: Topic, ends: Mapping[int, int], meter: _Meter) -> str:
    """Read in every way; return the time that was read from."""
    number = topic.partitions[0]
    everything = meter.read("read every record", lambda: topic.scan().to_table())
    middle = ends[number] // 2
    meter.read(
        f"read partition {number} from offset {middle}",
        lambda: topic.scan([number], start=middle).to_table(),
    )
    stamps = everything["timestamp"].cast(pa.int64())
    noon = (pc.min(stamps).as_py() + pc.max(stamps).as_py()) // 2
    when = show_time(noon)
    meter.read(f"read from {when}", lambda: topic.scan(start=when).to_table())
    meter.read(
        f"fetch as a consumer does: partition {number}, offset {middle}, 4 KiB",
        lambda: topic.read(number, middle, max_bytes=4096),
    )
    return when


def _find_after_a_restart(
    storage: RemoteStorageManager, pushed: TopicIdPartition, when: str, meter: _Meter
) -> None:
    """Find a time as two processes do: the second has the indexes of the first."""
    with tempfile.TemporaryDirectory(prefix="tieredfs-demo-") as kept:
        for asked in (
            "open it anew, find that time in it, and keep the indexes",
            "the same after a restart",
        ):
            with (
                closing(RemoteIndexCache(storage, kept)) as cache,
                meter.measure(asked),
            ):
                tier = Tier(IndexCachedStorage(storage, cache))
                topic = tier.topic(pushed.topic, topic_id=pushed.topic_id)
                topic.offsets_for_times(dict.fromkeys(topic.partitions, when))


def _count_in_spark(
    options: StoreOptions, url: str, topic: str
) -> tuple[dict[str, int] | None, str | None]:
    """Count in a separate process, to keep the JVM's output out of ours."""
    if find_spec("pyspark") is None:
        return None, _NO_PYSPARK
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return None, _NO_JAVA
    if is_in_memory(url):
        return None, _NO_SHARING
    asked = {
        "path": url,
        "subscribe": topic,
        "storage_options": json.dumps(options.storage_options or {}),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tieredfs.spark.count"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_SPARK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"Spark: not done in {_SPARK_SECONDS} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return None, f"Spark: failed: {last}"
    return json.loads(done.stdout.strip().splitlines()[-1]), None


def _hint(options: StoreOptions, url: str) -> str:
    if is_in_memory(url):
        return ", in a place that outlives the demo"
    return ", with the same --storage-options" if options.storage_options else ""


def _next_commands(place: str, shown: str, topic: Topic) -> Iterator[str]:
    if is_in_memory(place):
        yield "tieredfs demo"
        return
    url, name, number = shlex.quote(shown), topic.name, topic.partitions[0]
    yield f"tieredfs ls {url} {name}"
    yield f"tieredfs cat {url} {name} --partition {number} --from 10 --limit 5"
    yield f"tieredfs cat {url} {name} --format jsonl --encoding base64 --limit 1"
    yield f"tieredfs cat {url} {name} --format parquet > {name}.parquet"
    yield f"tieredfs verify {url} --deep"
