"""A stream from the source to Parquet whose processes are killed while it runs."""

import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic

from pyspark.sql import SparkSession

from spark.sessions import ApartSession
from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch
from tieredfs import ObjectStore

__all__ = ["FIRST_MS", "TOPIC", "KilledStream"]

TOPIC = "t"
FIRST_MS = 1_700_000_000_000
"""The timestamp of offset 0; each record is a millisecond later than the one before."""

_SECONDS = 120
_POLL_SECONDS = 0.002
_EXECUTOR = "CoarseGrainedExecutorBackend"
_CONF = {"spark.sql.files.maxPartitionBytes": "64m"}


class KilledStream:
    """A topic of three partitions, and the stream that reads it.

    Attributes:
        ends: The end (exclusive) of each partition.
    """

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        """Make a topic without records yet.

        Args:
            folder: An empty folder.
            options: Those of the source, besides the topic.
        """
        self._folder = folder
        self._options = {"subscribe": TOPIC, **options}
        self._tier = folder / "tier"
        self._tier.mkdir()
        self._sessions = 0
        self.ends = [0, 0, 0]

    def append(self, size: int) -> None:
        """Add a segment of so many records to each partition."""
        store = ObjectStore(str(self._tier))
        for number, end in enumerate(self.ends):
            batch = encode_batch(records(end, size, timestamp=FIRST_MS + end))
            folder = f"{TOPIC}-{number}-AAAAAAAAAAAAAAAAAAAAAA"
            fill(store, segment(folder, end, batch))
            self.ends[number] += size

    def run_until(self, moment: str, delay: float = 0) -> None:
        """Run the stream, and kill its driver.

        Args:
            moment: The file of Spark's checkpoint with whose appearance it is killed,
                such as ``offsets/0``: what is read is logged, and has not been read.
            delay: Seconds that it goes on.
        """
        with self._session("local[2]") as session:
            running, process = self._start(session)
            self._await(moment, running)
            Event().wait(delay)
            _kill([*_descendants(process), process])
            with suppress(AssertionError):  # the session has ended
                running.result(_SECONDS)

    def run(
        self, master: str = "local[2]", kill_executor_at: str = ""
    ) -> list[tuple[int, int]]:
        """Run the stream to the end of the topic.

        Args:
            master: Where.
            kill_executor_at: As in ``run_until``, to kill one executor; empty for none.

        Returns:
            Partition and offset of each row that is written, sorted.
        """
        with self._session(master) as session:
            running, process = self._start(session)
            if kill_executor_at:
                self._await(kill_executor_at, running)
                (first, *_) = _named(_descendants(process), _EXECUTOR)
                _kill([first])
            running.result(_SECONDS)
            return session.ask(_rows, str(self._folder / "rows"))

    def _session(self, master: str) -> ApartSession:
        self._sessions += 1
        folder = self._folder / f"session-{self._sessions}"
        folder.mkdir()
        return ApartSession(master, folder, _CONF, {})

    def _start(self, session: ApartSession) -> tuple[Future[None], int]:
        process = session.ask(_process)
        pool = ThreadPoolExecutor(1)
        running = pool.submit(
            session.ask,
            _to_parquet,
            str(self._tier),
            self._options,
            str(self._folder / "checkpoint"),
            str(self._folder / "rows"),
        )
        pool.shutdown(wait=False)
        return running, process

    def _await(self, moment: str, running: Future[None]) -> None:
        file, end = self._folder / "checkpoint" / moment, monotonic() + _SECONDS
        while not file.exists():
            if running.done():
                running.result()
                raise AssertionError(f"the stream ended before {moment}")
            assert monotonic() < end, f"{moment} has not come"
            Event().wait(_POLL_SECONDS)


def _process(spark: SparkSession) -> int:
    del spark
    return os.getpid()


def _to_parquet(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    checkpoint: str,
    rows: str,
) -> None:
    source = spark.readStream.format("tieredfs").options(**options).load(path)
    writer = source.select("partition", "offset").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", checkpoint).option("path", rows)
    writer.trigger(availableNow=True).start().awaitTermination()


def _rows(spark: SparkSession, path: str) -> list[tuple[int, int]]:
    frame = spark.read.parquet(path)
    return sorted((row["partition"], row["offset"]) for row in frame.collect())


def _kill(processes: list[int]) -> None:
    """Kill processes, and wait until none of them does anything."""
    for one in processes:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    end = monotonic() + _SECONDS
    while any(_state(one) not in {"", "Z"} for one in processes):
        assert monotonic() < end
        Event().wait(_POLL_SECONDS)


def _descendants(process: int) -> list[int]:
    """Return the processes that a process, and those that it started, have started."""
    parents: dict[int, list[int]] = {}
    for one in _processes():
        with suppress(OSError):
            after_name = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2]
            parents.setdefault(int(after_name.split()[1]), []).append(one)
    found, new = [], [process]
    while new:
        new = [child for one in new for child in parents.get(one, [])]
        found += new
    return found


def _named(processes: list[int], name: str) -> list[int]:
    return [
        one
        for one in processes
        if name.encode() in Path(f"/proc/{one}/cmdline").read_bytes()
    ]


def _processes() -> Iterator[int]:
    return (
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    )


def _state(process: int) -> str:
    """Return what a process does, as a letter; empty if it does not exist."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]
