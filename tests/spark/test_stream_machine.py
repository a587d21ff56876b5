"""Streams over logs that grow and lose what was read, with crashes at any step.

The machine is Spark's driver: it logs where a batch ends before the batch runs, marks
it when it has run, and forgets everything else when it dies. A batch that was not
marked runs again, and has to have the same rows.
"""

import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable
from typing_extensions import override

from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch
from tieredfs import CorruptDataError, NotFoundError, Tier, Topic
from tieredfs.spark.options import parse_stream_options
from tieredfs.spark.stream_reader import TieredFSStreamReader
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import scratch_store

TOPIC = "t"
COLUMNS = ("partition", "offset")
STARTS = ("earliest", "latest", "json", "time")
FIRST_MS = 1_700_000_000_000
MAX_BATCHES = 200


@dataclass(slots=True)
class Log:
    """One partition: its segments, of one record an offset, each a millisecond later.

    Attributes:
        begin: First offset.
        end: End (exclusive).
        starts: First offset of each segment.
    """

    begin: int = 0
    end: int = 0
    starts: list[int] = field(default_factory=list)


class Died(Exception):  # noqa: N818 - no error of anything
    """The driver has died."""


def die_at(chosen: str, step: str) -> None:
    """Die, if that is the step."""
    if chosen == step:
        raise Died


def by_partition(offsets: Any) -> dict[int, int]:  # noqa: ANN401 - JSON
    return {int(number): at for number, at in offsets.get(TOPIC, {}).items()}


class Streams(RuleBasedStateMachine):
    """Spark's side of a stream, and a log that others write."""

    def __init__(self) -> None:
        """Begin with an empty tier."""
        super().__init__()
        self.native: Topic | None = None
        self._opened = ExitStack()
        self.store = self._opened.enter_context(scratch_store())
        self.logs: dict[int, Log] = {}
        self.ends: list[str] = []  # Spark's log of offsets, as text
        self.marked = 0
        self.rows: list[list[tuple[int, int]]] = []  # of each batch that has run
        self.begun: dict[int, int] = {}
        self.reader: TieredFSStreamReader | None = None
        self.asked: dict[int, int] | None = None
        self.is_limited = False

    @initialize(
        start=st.sampled_from(STARTS),
        limit=st.none() | st.integers(1, 9),
        sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
        at=st.integers(0, 12),
        is_native=st.booleans(),
    )
    def begin(
        self,
        start: str,
        limit: int | None,
        sizes: list[int],
        at: int,
        *,
        is_native: bool,
    ) -> None:
        """Make the topic, and choose the options of the query.

        Of one layout the driver lists only what has not been read, of the other all.
        """
        if is_native:
            tier = Tier(SingleObject(self.store))
            self.native = tier.create_topic(TOPIC, partitions=3)
        for number, size in enumerate(sizes):
            self.logs[number] = Log()
            self._append(number, size)
        self.start, self.at = start, at
        self.options = {"path": self.store.url, "subscribe": TOPIC}
        if limit is not None:
            self.options["maxOffsetsPerTrigger"] = str(limit)

    @rule(number=st.integers(0, 2), size=st.integers(1, 9))
    def append(self, number: int, size: int) -> None:
        """Let a partition grow; one that is new begins at 0."""
        if number <= len(self.logs):
            self.logs.setdefault(number, Log())
            self._append(number, size)

    @rule(number=st.integers(0, 2))
    def expire(self, number: int) -> None:
        """Delete the oldest segment, if all of it is in batches that are marked."""
        log = self.logs.get(number)
        if log is None or len(log.starts) < 2 or not self.marked:
            return
        read = by_partition(json.loads(self.ends[self.marked - 1])).get(number, 0)
        if log.starts[1] <= read:
            self._delete_oldest(number)

    @precondition(lambda self: not self.ends and self.asked is None)
    @rule(number=st.integers(0, 2))
    def expire_before_the_query(self, number: int) -> None:
        """Delete the oldest segment of a log that no batch has been planned of."""
        log = self.logs.get(number)
        if log is not None and len(log.starts) > 1:
            self._delete_oldest(number)

    @precondition(lambda self: self.native is None and self.marked > 0)
    @rule(number=st.integers(0, 2))
    def start_where_the_last_segment_is_missing(self, number: int) -> None:
        """Start the query on a tier that is behind: it fails, and logs nothing."""
        log = self.logs.get(number)
        if log is None or len(self.ends) > self.marked:
            return
        if by_partition(json.loads(self.ends[-1])).get(number, 0) <= log.starts[-1]:
            return
        prefix = f"{self._folder(number)}/{log.starts[-1]:020d}"
        keys = [entry.key for entry in self.store.list()]
        last = {
            key: bytes(self.store.get(key)) for key in keys if key.startswith(prefix)
        }
        self.store.delete(list(last))
        self._start()
        assert self.reader is not None
        with pytest.raises((CorruptDataError, NotFoundError)):
            self._latest(self.reader, self.ends[-1])
        fill(self.store, last)
        self.reader = None

    @rule(start=st.sampled_from(STARTS))
    def crash(self, start: str) -> None:
        """Let the driver die; the options of the next run are not those of this one."""
        self.reader = None
        if self.ends:
            self.start = start

    @rule(prepares=st.booleans(), is_limited=st.booleans())
    def restart(self, *, prepares: bool, is_limited: bool) -> None:
        """Start the query again, with another trigger."""
        self._start()
        assert self.reader is not None
        if prepares:
            self.reader.prepareForTriggerAvailableNow()
            self.asked = self._beginnings()
        self.is_limited = is_limited

    @rule()
    def trigger(self) -> None:
        """Run the next batch, or end a query that has reached its target."""
        self._trigger()

    @rule(dies=st.sampled_from(["logged", "planned", "reading", "written"]))
    def trigger_and_die(self, dies: str) -> None:
        """Die at some step of the next batch."""
        self._trigger(dies)

    @invariant()
    def every_offset_was_read_once(self) -> None:
        """The batches that are marked have all offsets from the first, once."""
        if not self.marked:
            return
        ends = by_partition(json.loads(self.ends[self.marked - 1]))
        read: dict[int, list[int]] = {number: [] for number in ends}
        for rows in self.rows[: self.marked]:
            for number, offset in rows:
                read[number].append(offset)
        for number, end in ends.items():
            assert read[number] == list(range(self.begun.get(number, 0), end))

    @override
    def teardown(self) -> None:
        """Read the rest: nothing is left out."""
        if self.logs:
            self.reader = None
            self._start()
            self.is_limited = True
            for number in count():
                assert number < MAX_BATCHES
                if not self._batch():
                    break
            self.every_offset_was_read_once()
            ends = by_partition(json.loads(self.ends[-1]))
            assert ends == {number: log.end for number, log in self.logs.items()}
        self._opened.close()
        super().teardown()

    def _trigger(self, dies: str = "never") -> None:
        if self.reader is None:
            self._start()
        if not self._batch(dies) and self.asked is not None:
            self.reader = None

    def _append(self, number: int, size: int) -> None:
        log = self.logs[number]
        stamp = FIRST_MS + log.end
        if self.native is None:
            batch = encode_batch(records(log.end, size, timestamp=stamp))
            fill(self.store, segment(self._folder(number), log.end, batch))
        else:
            stamps = pa.array(range(stamp, stamp + size), pa.timestamp("ms", tz="UTC"))
            table = pa.table({"value": [b"v"] * size, "timestamp": stamps})
            self.native.append(table, number)
        log.starts.append(log.end)
        log.end += size

    def _delete_oldest(self, number: int) -> None:
        log = self.logs[number]
        oldest = log.starts.pop(0)
        if self.native is None:
            prefix = f"{self._folder(number)}/{oldest:020d}-"
            keys = [entry.key for entry in self.store.list()]
            self.store.delete([key for key in keys if key.startswith(prefix)])
        else:
            reader = self.native.reader(number)
            (first,) = (s for s in reader.segments() if s.start_offset == oldest)
            reader.storage.delete_log_segment(first)
        log.begin = log.starts[0]

    @staticmethod
    def _folder(number: int) -> str:
        return f"{TOPIC}-{number}-AAAAAAAAAAAAAAAAAAAAAA"

    def _given(self) -> dict[str, str]:
        match self.start:
            case "json":
                return {"startingOffsets": json.dumps({TOPIC: self._beginnings()})}
            case "time":
                return {
                    "startingTimestamp": str(FIRST_MS + self.at),
                    "startingOffsetsByTimestampStrategy": "latest",
                }
            case word:
                return {"startingOffsets": word}

    def _expected_beginning(self, number: int) -> int:
        log = self.logs[number]
        match self.start:
            case "earliest":
                return log.begin
            case "latest":
                return log.end
            case "json":
                return max(min(self.at, log.end), log.begin)
            case _:
                return min(max(self.at, log.begin), log.end)

    def _start(self) -> None:
        options = parse_stream_options({**self.options, **self._given()})
        self.reader = TieredFSStreamReader(options, COLUMNS)
        self.asked = None

    def _batch(self, dies: str = "never") -> bool:
        """Run a batch, until it is marked or the driver dies.

        Returns:
            Whether there was one.
        """
        if self.start == "json" and not self.ends and self.asked is None:
            self._start()  # its offsets name all partitions
        reader, number = self.reader, self.marked
        assert reader is not None
        first = json.dumps(reader.initialOffset())
        start = self.ends[number - 1] if number else first
        if len(self.ends) == number:
            end = self._latest(reader, start)
            if number and end == start:
                return False
            self.ends.append(end)
            if not number:
                self._note_beginning(end)
        with suppress(Died):
            die_at(dies, "logged")
            rows = self._read(reader, start, self.ends[number], dies)
            if number < len(self.rows):
                assert rows == self.rows[number]  # what was written before is the same
            else:
                self.rows.append(rows)
            die_at(dies, "written")
            self.marked += 1
            return True
        self.reader = None
        return True

    def _latest(self, reader: TieredFSStreamReader, start: str) -> str:
        default = reader.getDefaultReadLimit()
        limit = default if self.is_limited else ReadAllAvailable()
        return json.dumps(reader.latestOffset(json.loads(start), limit))

    @staticmethod
    def _read(
        reader: TieredFSStreamReader, start: str, end: str, dies: str
    ) -> list[tuple[int, int]]:
        planned = reader.partitions(json.loads(start), json.loads(end))
        die_at(dies, "planned")
        rows: list[tuple[int, int]] = []
        for batch in chain.from_iterable(map(reader.read, planned)):
            columns = batch["partition"].to_pylist(), batch["offset"].to_pylist()
            rows += zip(*columns, strict=True)
            die_at(dies, "reading")
        return sorted(rows)

    def _note_beginning(self, end: str) -> None:
        """Note where the query begins: from now on nothing may change that."""
        asked = self._beginnings() if self.asked is None else self.asked
        self.begun = {number: asked[number] for number in by_partition(json.loads(end))}

    def _beginnings(self) -> dict[int, int]:
        return {number: self._expected_beginning(number) for number in self.logs}


Streams.TestCase.settings = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStreams = Streams.TestCase
