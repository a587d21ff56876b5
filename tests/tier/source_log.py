"""The log directory of a small broker: dense or cleaned, cut anew as replicas are."""

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from support.wire import CONTROL, WireRecord, encode_batch
from tier.unreliable import Place
from tieredfs import TopicIdPartition
from tieredfs.model import UNKNOWN_TOPIC_ID

__all__ = ["BatchShape", "Row", "SourceLog"]

_TRANSACTIONAL = 0x10
_COMMIT = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)
_BEGIN_MS = 1_700_000_000_000
_CLEANED = "cleaner-offset-checkpoint"


class Row(NamedTuple):
    """A record, as it is read.

    A control record is one as well, of which only ``offsets_for_times`` knows.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    epoch: int = 0
    is_control: bool = False


class BatchShape(NamedTuple):
    """What a batch is to be.

    Attributes:
        gap: Offsets before it whose batches the cleaner removed.
        size: How many records it has.
        hole: Offsets at its end whose records the cleaner removed.
        late: How much later than the first batch it is.
        is_marker: Whether it ends a transaction, and has no record of a user's.
    """

    gap: int
    size: int
    hole: int
    late: int
    is_marker: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    start: int
    end: int
    data: bytes
    rows: tuple[Row, ...]


@dataclass(slots=True)
class SourceLog:
    """One partition of a broker, of which closed segments never change.

    Attributes:
        place: The log directory.
        partition: Which one.
        is_compacted: Whether it may have holes.
        batches: What it holds, whether a segment still has it or not.
        starts: Where its segments begin; the last one is active.
        epochs: Its leader epochs and their starts.
    """

    place: Place
    partition: TopicIdPartition
    is_compacted: bool
    batches: list[_Batch] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def __post_init__(self) -> None:
        """Write an empty log."""
        self._write()

    @property
    def end(self) -> int:
        """The log's end (exclusive)."""
        return self.batches[-1].end if self.batches else 0

    @property
    def closed(self) -> list[tuple[int, int]]:
        """The closed segments: start and end (exclusive)."""
        return list(zip(self.starts, self.starts[1:], strict=False))

    def rows(self, start: int, end: int) -> list[Row]:
        """Return the records of ``[start, end)``, control records too."""
        return [
            row
            for batch in self.batches
            for row in batch.rows
            if start <= row.offset < end
        ]

    def write(self, shapes: list[BatchShape]) -> None:
        """Append batches to the active segment."""
        for shape in shapes:
            self.batches.append(self._batch(shape))
        self._write()

    def roll(self) -> None:
        """Close the active segment, unless it is empty."""
        if self.end > self.starts[-1]:
            self.starts.append(self.end)
        self._write()

    def elect(self) -> None:
        """Begin a leader epoch."""
        epoch, start = self.epochs[-1]
        if start == self.end:
            self.epochs.pop()
        self.epochs.append((epoch + 1, self.end))
        self._write()

    def cut_anew(self, chosen: int) -> None:
        """Become another replica, which rolled elsewhere.

        Args:
            chosen: A bit for each batch: whether a segment begins there.
        """
        inside = [b.start for b in self.batches if self.starts[0] < b.start]
        cuts = [start for n, start in enumerate(inside) if chosen >> n & 1]
        self.starts = [self.starts[0], *cuts]
        self._write()

    def retain(self) -> None:
        """Remove the first closed segment, if there is one."""
        if self.closed:
            del self.starts[0]
            self._write()

    def _batch(self, shape: BatchShape) -> _Batch:
        cleaned = self.is_compacted
        base = self.end + (shape.gap if cleaned else 0)
        count = shape.size if cleaned else max(1, shape.size)
        stamp = _BEGIN_MS + 10 * shape.late
        epoch = self.epochs[-1][0]
        if shape.is_marker:
            data = encode_batch(
                [WireRecord(base, stamp, *_COMMIT)],
                attributes=CONTROL | _TRANSACTIONAL,
                producer_id=7,
                producer_epoch=0,
                leader_epoch=epoch,
            )
            row = Row(base, stamp, *_COMMIT, epoch, is_control=True)
            return _Batch(base, base + 1, data, (row,))
        last = base + max(0, count + (shape.hole if cleaned else 0) - 1)
        topic = self.partition.topic
        rows = [
            Row(o, stamp + o - base, None, f"{topic}{o}".encode(), epoch)
            for o in range(base, base + count)
        ]
        data = encode_batch(
            [WireRecord(r.offset, r.timestamp, r.key, r.value) for r in rows],
            base_offset=base,
            last_offset=last,
            base_timestamp=stamp,
            leader_epoch=epoch,
            # The cleaner keeps the header of a batch as it was.
            max_timestamp=rows[-1].timestamp if rows else -1,
        )
        return _Batch(base, last + 1, data, tuple(rows))

    def _write(self) -> None:
        """Lay out the directory."""
        files = self.place.filesystem
        root = f"{self.place.url.removeprefix('memory:/')}"
        folder = f"{root}/{self.partition}"
        if files.exists(folder):
            files.rm(folder, recursive=True)
        for start, end in zip(self.starts, [*self.starts[1:], None], strict=True):
            log = b"".join(
                batch.data
                for batch in self.batches
                if start <= batch.start and (end is None or batch.start < end)
            )
            files.pipe_file(f"{folder}/{start:020d}.log", log)
        if self.partition.topic_id != UNKNOWN_TOPIC_ID:
            told = f"version: 0\ntopic_id: {self.partition.topic_id}"
            files.pipe_file(f"{folder}/partition.metadata", told.encode())
        entries = "".join(f"{epoch} {start}\n" for epoch, start in self.epochs)
        checkpoint = f"0\n{len(self.epochs)}\n{entries}"
        files.pipe_file(f"{folder}/leader-epoch-checkpoint", checkpoint.encode())
        if self.is_compacted:
            path = f"{root}/{_CLEANED}"
            known = files.cat_file(path).decode() if files.exists(path) else "0\n0\n"
            name = f"{self.partition.topic} {self.partition.partition} "
            kept = [s for s in known.splitlines()[2:] if not s.startswith(name)]
            lines = [*kept, f"{name}{self.end}"]
            told = "\n".join(["0", str(len(lines)), *lines, ""])
            files.pipe_file(path, told.encode())
