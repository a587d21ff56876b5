"""Logs with transactions, and what a consumer of committed records gets from them.

Written from the description of the formats alone, without code of tieredfs, so that a
mistake there cannot cancel out here.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import hypothesis.strategies as st

from support.wire import CONTROL, WireRecord, encode_batch
from tieredfs import Uuid

__all__ = [
    "Step",
    "TransactionalLog",
    "TransactionalSegment",
    "no_producers",
    "put_tiered",
    "replicas",
    "transactional_logs",
    "write_broker_log",
]

TRANSACTIONAL = 0x10
_ABORT, _COMMIT = 0, 1
_PRODUCERS = 3
_TOPIC_ID = "A" * 21 + "w"
_TXN_ENTRY = struct.Struct(">hqqqq")
_PRODUCER = struct.Struct(">qhiqiqiq")
_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")

Step = tuple[str, int, int]
"""What happens, to which producer, and how many records it writes."""


@dataclass(slots=True)
class TransactionalSegment:
    """One segment: its batches, its aborts, and the state after it."""

    start: int
    batches: list[bytes] = field(default_factory=list)
    aborts: list[bytes] = field(default_factory=list)
    snapshot: bytes = b""

    @property
    def log(self) -> bytes:
        """Its log."""
        return b"".join(self.batches)


class TransactionalLog:
    """A log that follows from steps.

    Attributes:
        segments: Its segments, the last one being written.
        committed: The offsets of the records that are of no transaction, or of a
            committed one.
        end: End (exclusive) of the log.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Write a log."""
        self.end = 0
        self.segments = [TransactionalSegment(0)]
        self.committed: set[int] = set()
        self._open: dict[int, list[int]] = {}
        self._last: dict[int, int] = {}
        for what, producer, count in steps:
            getattr(self, f"_{what}")(producer, count)
        self.segments[-1].snapshot = self._snapshot()

    @property
    def stable_offset(self) -> int:
        """First offset of a transaction that is open at the end."""
        return min((found[0] for found in self._open.values()), default=self.end)

    def visible(self, start: int, end: int) -> list[int]:
        """Offsets in ``[start, end)`` that a consumer of committed records gets."""
        last = min(end, self.stable_offset)
        return sorted(one for one in self.committed if start <= one < last)

    def _plain(self, _: int, count: int) -> None:
        self.committed.update(self._write(count, -1, 0))

    def _data(self, producer: int, count: int) -> None:
        written = self._write(count, producer, TRANSACTIONAL)
        self._open.setdefault(producer, []).extend(written)
        self._last[producer] = written[-1]

    def _commit(self, producer: int, _: int) -> None:
        if producer in self._open:
            self.committed.update(self._open.pop(producer))
            self._mark(producer, _COMMIT)

    def _abort(self, producer: int, _: int) -> None:
        if producer in self._open:
            first = self._open.pop(producer)[0]
            marker = self._mark(producer, _ABORT)
            stable = min((one[0] for one in self._open.values()), default=marker + 1)
            entry = _TXN_ENTRY.pack(0, producer, first, marker, stable)
            self.segments[-1].aborts.append(entry)

    def _roll(self, _producer: int, _count: int) -> None:
        if self.segments[-1].batches:
            self.segments[-1].snapshot = self._snapshot()
            self.segments.append(TransactionalSegment(self.end))

    def _write(self, count: int, producer: int, attributes: int) -> range:
        offsets = range(self.end, self.end + count)
        batch = encode_batch(
            [WireRecord(one, 1_000 + one, None, b"%d" % one) for one in offsets],
            attributes=attributes,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
        )
        self.segments[-1].batches.append(batch)
        self.end = offsets.stop
        return offsets

    def _snapshot(self) -> bytes:
        return _snapshot(
            {
                producer: (last, (self._open.get(producer) or [-1])[0])
                for producer, last in self._last.items()
            }
        )

    def _mark(self, producer: int, kind: int) -> int:
        key, value = _MARKER_KEY.pack(0, kind), _MARKER_VALUE.pack(0, 0)
        batch = encode_batch(
            [WireRecord(self.end, 1_000 + self.end, key, value)],
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer,
            producer_epoch=0,
        )
        self.segments[-1].batches.append(batch)
        self.end += 1
        return self.end - 1


def no_producers() -> bytes:
    """Return a snapshot without a producer."""
    return _snapshot({})


def _snapshot(producers: Mapping[int, tuple[int, int]]) -> bytes:
    entries = b"".join(
        _PRODUCER.pack(producer, 0, 0, last, 0, 1_000, 0, first)
        for producer, (last, first) in producers.items()
    )
    content = struct.pack(">i", len(producers)) + entries
    crc = google_crc32c.value(content)
    return struct.pack(">hI", 1, crc) + content


@st.composite
def replicas(draw: st.DrawFn) -> list[TransactionalLog]:
    """Draw one log as two replicas have it, which roll their segments elsewhere."""
    steps = [
        ("plain", 0, 1),
        *draw(st.lists(_steps(("data", "data", "plain", "commit", "abort")))),
    ]
    rolls = st.lists(st.booleans(), min_size=len(steps), max_size=len(steps))
    roll: Step = ("roll", 0, 0)
    return [
        TransactionalLog(
            [
                one
                for step, is_last in zip(steps, draw(rolls), strict=True)
                for one in ((step, roll) if is_last else (step,))
            ]
        )
        for _ in range(2)
    ]


def _steps(kinds: Sequence[str]) -> st.SearchStrategy[Step]:
    producers = st.integers(0, _PRODUCERS - 1)
    return st.tuples(st.sampled_from(kinds), producers, st.integers(1, 3))


@st.composite
def transactional_logs(draw: st.DrawFn) -> TransactionalLog:
    """Draw a log in which transactions of several producers overlap."""
    step = _steps(("data", "data", "plain", "commit", "abort", "roll"))
    return TransactionalLog([("plain", 0, 1), *draw(st.lists(step, max_size=40))])


def put_tiered(log: TransactionalLog, replica: int = 0) -> dict[str, bytes]:
    """Return the files of all segments in the layout of Kafka's LocalTieredStorage.

    Args:
        log: The log.
        replica: Tells apart the segments of several replicas.
    """
    files: dict[str, bytes] = {}
    for number, one in enumerate(log.segments):
        if not one.batches:
            continue
        name = Uuid.from_bytes((replica << 64 | number).to_bytes(16))
        stem = f"t-0-{_TOPIC_ID}/{one.start:020d}-{name}"
        files |= {
            f"{stem}.log": one.log,
            f"{stem}.index": b"",
            f"{stem}.timeindex": b"",
            f"{stem}.snapshot": one.snapshot,
            f"{stem}.leader_epoch_checkpoint": b"0\n1\n0 0\n",
        }
        if one.aborts:
            files[f"{stem}.txnindex"] = b"".join(one.aborts)
    return files


def write_broker_log(log: TransactionalLog, root: Path) -> None:
    """Write the log directory of a broker, the last segment being written."""
    folder = root / "t-0"
    folder.mkdir(parents=True)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {_TOPIC_ID}")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    before = _snapshot({})
    for one in log.segments:
        stem = folder / f"{one.start:020d}"
        stem.with_suffix(".log").write_bytes(one.log)
        stem.with_suffix(".index").write_bytes(b"")
        stem.with_suffix(".timeindex").write_bytes(b"")
        stem.with_suffix(".snapshot").write_bytes(before)
        if one.aborts:
            stem.with_suffix(".txnindex").write_bytes(b"".join(one.aborts))
        before = one.snapshot
