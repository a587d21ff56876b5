"""A partition as brokers keep it: replicas that roll, clean, cut and lose their logs.

Each replica is a directory on disk that goes through the states in which Kafka leaves
it. What a broker does to its files is a generator that stops after each of them, so a
test can look at the directory, or end the process, in between. Source:
``LogCleaner``, ``LocalLog.replaceSegments``, ``LogLoader`` and ``UnifiedLog`` of Kafka.
"""

import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from support.wire import WireRecord, encode_batch

__all__ = ["Batch", "Lineage", "Replica", "SimulatedPartition"]

FIRST_TIMESTAMP = 1_700_000_000_000
DELETE_RETENTION = 1
"""Days for which a cleaned tombstone stays."""

_DELETE_HORIZON = 0x40
_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_MTIME = 1_700_000_000_000_000_000
_CLEANED, _SWAP, _DELETED = ".cleaned", ".swap", ".deleted"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a log.

    Attributes:
        base: Its first offset, also when the cleaner has removed that record.
        last: Its last offset, as ``base``.
        epoch: Of the leader that wrote it.
        records: What the cleaner has left.
        producer: Of an idempotent producer, whose last batch is kept when it is empty.
        horizon: The day on which its tombstones go; None before they were cleaned.
    """

    base: int
    last: int
    epoch: int
    records: tuple[WireRecord, ...]
    producer: int = -1
    horizon: int | None = None

    @property
    def end(self) -> int:
        """The offset that follows it."""
        return self.last + 1


@lru_cache(100_000)
def encoded(batch: Batch) -> bytes:
    """Encode a batch as it lies on disk."""
    stamp = batch.records[0].timestamp if batch.records else 0
    if batch.horizon is not None:
        stamp = FIRST_TIMESTAMP + batch.horizon
    return encode_batch(
        batch.records,
        attributes=0 if batch.horizon is None else _DELETE_HORIZON,
        base_offset=batch.base,
        last_offset=batch.last,
        leader_epoch=batch.epoch,
        producer_id=batch.producer,
        producer_epoch=0 if batch.producer >= 0 else -1,
        base_sequence=batch.base if batch.producer >= 0 else -1,
        base_timestamp=stamp,
    )


@dataclass(slots=True)
class Lineage:
    """The records that the leaders of a partition wrote, up to the next lost one.

    Attributes:
        epoch: Of the leader with which it began.
        records: Each of them by its offset.
        epochs: The epoch of each.
    """

    epoch: int
    records: dict[int, WireRecord] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The end (exclusive)."""
        return max(self.records, default=-1) + 1

    def cut(self, end: int, epoch: int) -> "Lineage":
        """Return the lineage of a leader whose log ends at ``end``."""
        return Lineage(
            epoch,
            {o: r for o, r in self.records.items() if o < end},
            {o: e for o, e in self.epochs.items() if o < end},
        )


class Replica:
    """A broker's log directory with one partition.

    Attributes:
        root: The log directory.
        folder: The partition's.
        logs: The batches of each log that is there, by file name.
        epochs: Epochs with their first offsets.
        clean_point: The first offset that the cleaner has not seen.
        is_up: Whether the broker runs.
    """

    def __init__(
        self, root: Path, *, batches_per_segment: int, name: str, topic_id: str
    ) -> None:
        """Make an empty log."""
        self.root = root
        self.folder = root / name
        self.folder.mkdir(parents=True)
        self.name = name
        self.logs: dict[str, tuple[Batch, ...]] = {}
        self.epochs: list[tuple[int, int]] = []
        self.clean_point = 0
        self.start = 0
        self.is_up = True
        self._bases: list[int] = []
        self._limit = batches_per_segment
        self._writes = 0
        self._running: Iterator[None] = iter(())
        if topic_id:
            told = f"version: 0\ntopic_id: {topic_id}"
            (self.folder / "partition.metadata").write_text(told)
        self._create(0)
        self._write_epochs()

    @property
    def active(self) -> int:
        """First offset of the segment that is written."""
        return self._bases[-1]

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        batches = self.logs[_log(self.active)]
        return max(self.active, batches[-1].end if batches else 0)

    @property
    def batches(self) -> list[Batch]:
        """All that the broker would serve."""
        return [batch for base in self._bases for batch in self.logs[_log(base)]]

    @property
    def closed_records(self) -> set[tuple[int, int]]:
        """Offsets and leader epochs of the records in segments not written to."""
        return {
            (record.offset, batch.epoch)
            for base in self._bases[:-1]
            for batch in self.logs.get(_log(base), ())
            for record in batch.records
        }

    @property
    def has_names(self) -> bool:
        """Tell whether each segment has its log, and under its name."""
        return all(_log(base) in self.logs for base in self._bases)

    def advance(self, steps: int) -> bool:
        """Let the broker go on with its files; tell whether it has something left."""
        return len(list(islice(self._running, steps))) == steps

    def settle(self) -> None:
        """Let the broker finish what it does to its files."""
        for _ in self._running:
            pass

    def append(self, batch: Batch) -> None:
        """Write a batch at the end of the log."""
        self.settle()
        if len(self.logs[_log(self.active)]) >= self._limit:
            self.roll()
        name = _log(self.active)
        self._write(name, (*self.logs[name], batch))
        if not self.epochs or self.epochs[-1][0] < batch.epoch:
            self.assign_epoch(batch.epoch, batch.base)

    def assign_epoch(self, epoch: int, start: int) -> None:
        """Begin an epoch."""
        self.epochs = [e for e in self.epochs if e[1] < start]
        self.epochs.append((epoch, start))
        self._write_epochs()

    def roll(self) -> None:
        """Close the active segment, unless it is empty."""
        self.settle()
        if self.end > self.active:
            self._create(self.end)

    def begin_cleaning(self, limit: int, merged: int, day: int) -> None:
        """Begin to clean what lies before the active segment and ``limit``.

        Args:
            limit: The high watermark.
            merged: How many segments are cleaned into one, at most.
            day: The time.
        """
        self.settle()
        self._running = self._clean(min(limit, self.active), merged, day)

    def begin_retention(self, count: int, limit: int) -> None:
        """Begin to delete the oldest segments that end below ``limit``."""
        self.settle()
        going = [
            base
            for base, end in zip(self._bases, self._bases[1:], strict=False)
            if end <= limit
        ][:count]
        if going:
            self._bases = self._bases[len(going) :]
            self.start = self._bases[0]
            self._running = self._delete(going)

    def begin_cut(self, end: int) -> None:
        """Begin to remove all from ``end`` on, as a follower of a new leader does."""
        self.settle()
        if end < self.end:
            self._running = self._cut(end)

    def start_at(self, start: int) -> None:
        """Forget everything and begin anew, as a follower that is too far behind."""
        self.settle()
        going, self._bases = self._bases, []
        for _ in self._delete([base for base in going if base != start]):
            pass
        self.epochs, self.start, self.clean_point = [], start, start
        self._create(start)
        self._write_epochs()

    def sweep(self) -> None:
        """Remove the files that were renamed to be deleted."""
        for name in [name for name in self._names() if name.endswith(_DELETED)]:
            self._unlink(name)

    def crash(self, lost: int) -> None:
        """End the process; the disk never saw the last ``lost`` batches."""
        self.is_up = False
        self._running = iter(())
        name = _log(self.active)
        if lost and name in self.logs:
            self._write(name, self.logs[name][:-lost])

    def restart(self) -> None:
        """Bring the directory in order, as Kafka does when it loads a log."""
        self.sweep()
        for name in [name for name in self._names() if name.endswith(_CLEANED)]:
            self._unlink(name)
        swapped = [name for name in self.logs if name.endswith(_SWAP)]
        for name in sorted(swapped):
            first, batches = int(name[:20]), self.logs[name]
            end = batches[-1].end if batches else first
            for other in [n for n in self.logs if n.endswith(".log")]:
                if first <= int(other[:20]) < max(end, first + 1):
                    self._remove(other)
        for name in swapped:
            self._rename(name, name.removesuffix(_SWAP))
        for name in [name for name in self._names() if name.endswith(".index" + _SWAP)]:
            self._rename(name, name.removesuffix(_SWAP))
        for name in [name for name in self._names() if name.endswith("index")]:
            if _log(int(name[:20])) not in self.logs:
                self._unlink(name)  # its log was renamed before it to be deleted
        self._bases = sorted(int(name[:20]) for name in self.logs)
        self.start = self._bases[0]
        self.is_up = True
        self.epochs = [e for e in self.epochs if e[1] <= self.end]
        self._write_epochs()

    def _clean(self, limit: int, merged: int, day: int) -> Iterator[None]:
        latest = {
            record.key: record.offset
            for batch in self.batches
            for record in batch.records
            if record.offset < limit
        }
        lasts = {batch.producer: batch for batch in self.batches}
        bases = [base for base in self._bases if base < limit]
        for first in range(0, len(bases), merged):
            group = bases[first : first + merged]
            batches = tuple(
                cleaned
                for base in group
                for batch in self.logs[_log(base)]
                for cleaned in _cleaned(batch, latest, limit, day)
                if cleaned.records
                or (batch.producer >= 0 and lasts[batch.producer] is batch)
            )
            old = tuple(batch for base in group for batch in self.logs[_log(base)])
            if batches == old and len(group) == 1:
                continue
            name = _log(group[0])
            yield from self._replace(name, batches, group)
        self.clean_point = max(self.clean_point, limit)
        topic, _, number = self.name.rpartition("-")
        self._put(
            "../cleaner-offset-checkpoint",
            f"0\n1\n{topic} {number} {self.clean_point}\n".encode(),
        )
        yield

    def _replace(
        self, name: str, batches: tuple[Batch, ...], group: Sequence[int]
    ) -> Iterator[None]:
        """Put a cleaned segment in the place of others, as ``replaceSegments``."""
        self._write(name + _CLEANED, batches[: len(batches) // 2])
        yield
        self._write(name + _CLEANED, batches)
        yield
        for each in (name, _index(name)):
            self._rename(each + _CLEANED, each + _SWAP)
            yield
        self._bases = [base for base in self._bases if base not in group[1:]]
        for base in group:
            yield from self._mark_deleted(base)
        for each in (name, _index(name)):
            self._rename(each + _SWAP, each)
            yield

    def _delete(self, bases: Sequence[int]) -> Iterator[None]:
        for base in bases:
            yield from self._mark_deleted(base)

    def _mark_deleted(self, base: int) -> Iterator[None]:
        for each in (_log(base), _index(_log(base))):
            if (self.folder / each).exists():
                self._rename(each, each + _DELETED)
                yield

    def _cut(self, end: int) -> Iterator[None]:
        going = [base for base in self._bases if base > end]
        self._bases = [base for base in self._bases if base <= end]
        yield from self._delete(going[::-1])
        name = _log(self.active)
        self._write(name, tuple(b for b in self.logs[name] if b.end <= end))
        yield
        self.epochs = [e for e in self.epochs if e[1] < end]
        self.clean_point = min(self.clean_point, end)
        self._write_epochs()

    def _create(self, base: int) -> None:
        self._bases.append(base)
        self._write(_log(base), ())

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def _write(self, name: str, batches: tuple[Batch, ...]) -> None:
        """Write a log in place, and its indexes.

        The offset index has all batches but the first, the time index only the entry
        with which a broker ends it.
        """
        self.logs[name] = batches
        log, index = bytearray(), bytearray()
        base = int(name[:20])
        for batch in batches:
            if log:
                index += _INDEX_ENTRY.pack(batch.last - base, len(log))
            log += encoded(batch)
        self._put(name, log)
        self._put(_index(name), index)
        stamps = [(r.timestamp, -b.last) for b in batches for r in b.records]
        times = b""
        if stamps:
            timestamp, last = max(stamps)
            times = _TIME_ENTRY.pack(timestamp, -last - base)
        self._put(_time_index(name), times)

    def _put(self, name: str, data: bytes | bytearray) -> None:
        path = self.folder / name
        path.write_bytes(data)
        self._writes += 1  # no clock is so coarse that two writes look like one
        stamp = _MTIME + self._writes * 1_000_000_000
        os.utime(path, ns=(stamp, stamp))

    def _rename(self, name: str, new: str) -> None:
        (self.folder / name).rename(self.folder / new)
        if ".index" in name:  # in one step
            times = name.replace(".index", ".timeindex")
            new_times = new.replace(".index", ".timeindex")
            (self.folder / times).rename(self.folder / new_times)
        batches = self.logs.pop(name, None)
        if batches is not None and not new.endswith(_DELETED):
            self.logs[new] = batches

    def _remove(self, name: str) -> None:
        self._unlink(name)
        for index in (_index(name), _time_index(name)):
            (self.folder / index).unlink(missing_ok=True)

    def _unlink(self, name: str) -> None:
        (self.folder / name).unlink()
        self.logs.pop(name, None)

    def _write_epochs(self) -> None:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in self.epochs)
        told = f"0\n{len(self.epochs)}\n{lines}"
        self._put("leader-epoch-checkpoint", told.encode())


class SimulatedPartition:
    """A partition with its replicas, and what its leaders have acknowledged.

    Attributes:
        replicas: Each of them.
        leader: The one that takes records.
        epoch: The leader's.
        day: The time, as far as the cleaner wants to know it.
        lineages: What was written, the last one by the present leader; an earlier one
            ends in records that a change of leader lost.
    """

    def __init__(
        self,
        root: Path,
        batches_per_segment: Sequence[int],
        *,
        name: str = "t-0",
        topic_id: str = "",
        made_ms: int = 0,
    ) -> None:
        """Make empty replicas, which roll after so many batches each.

        Records are written ``made_ms`` after the first timestamp, or later: two topics
        that were made one after the other have none in common.
        """
        self.replicas = [
            Replica(
                root / str(number),
                batches_per_segment=limit,
                name=name,
                topic_id=topic_id,
            )
            for number, limit in enumerate(batches_per_segment)
        ]
        self.leader = self.replicas[0]
        self.leader.assign_epoch(0, 0)
        self.epoch = self.day = 0
        self.lineages = [Lineage(0)]
        self._stamp = made_ms

    @property
    def high_watermark(self) -> int:
        """The end of what all replicas have."""
        return min(replica.end for replica in self.replicas)

    def append(self, keys: Sequence[tuple[bytes, bool]], *, producer: int = -1) -> None:
        """Write a batch at the leader.

        Args:
            keys: The key of each record, and whether it has a value.
            producer: The producer's id.
        """
        leader = self.leader
        leader.settle()
        self._stamp += 1
        records = tuple(
            WireRecord(
                leader.end + number,
                FIRST_TIMESTAMP + self._stamp,
                key,
                b"%d.%d" % (self._stamp, number) if has_value else None,
            )
            for number, (key, has_value) in enumerate(keys)
        )
        last = records[-1].offset
        leader.append(Batch(records[0].offset, last, self.epoch, records, producer))
        current = self.lineages[-1]
        for record in records:
            current.records[record.offset] = record
            current.epochs[record.offset] = self.epoch

    def fetch(self, replica: Replica, count: int) -> None:
        """Let a follower fetch batches, after it has cut what the leader has not."""
        leader = self.leader
        if replica is leader or not replica.is_up or not leader.is_up:
            return
        leader.settle()
        replica.settle()
        common = _common_end(replica, leader)
        if common < replica.start or replica.end < leader.start:
            replica.start_at(leader.start)
        elif common < replica.end:
            replica.begin_cut(common)
            return
        wanted = [batch for batch in leader.batches if batch.last >= replica.end]
        for batch in wanted[:count]:
            replica.append(batch)

    def elect(self, replica: Replica) -> None:
        """Make a replica the leader, whatever its log lacks but what was cleaned."""
        if not replica.is_up or replica.end < self.clean_point:
            return
        replica.settle()
        self.leader = replica
        self.epoch += 1
        held = self._lineage_of(replica)
        replica.assign_epoch(self.epoch, replica.end)
        if held is not self.lineages[-1] or replica.end < held.end:
            self.lineages.append(held.cut(replica.end, self.epoch))

    def _lineage_of(self, replica: Replica) -> Lineage:
        """Return the last lineage that a replica's log is the beginning of.

        It need not be that of the last leader, if it has not fetched from that one.
        """
        for lineage in reversed(self.lineages):
            if replica.end <= lineage.end and all(
                _epoch_at(replica, offset) == epoch
                for offset, epoch in lineage.epochs.items()
                if replica.start <= offset < replica.end
            ):
                return lineage
        raise AssertionError(replica)

    @property
    def clean_point(self) -> int:
        """The first offset that no cleaner has seen."""
        return max(replica.clean_point for replica in self.replicas)

    def remove(self) -> None:
        """Remove the directories."""
        for replica in self.replicas:
            shutil.rmtree(replica.root)


def _cleaned(
    batch: Batch, latest: dict[bytes | None, int], limit: int, day: int
) -> Iterator[Batch]:
    """Yield what the cleaner makes of a batch."""
    if batch.base >= limit:
        yield batch
        return
    expired = batch.horizon is not None and day >= batch.horizon
    kept = tuple(
        record
        for record in batch.records
        if record.offset >= latest.get(record.key, -1)
        and not (record.value is None and expired)
    )
    horizon = batch.horizon
    if horizon is None and any(record.value is None for record in kept):
        horizon = day + DELETE_RETENTION
    yield replace(batch, records=kept, horizon=horizon)


def _common_end(follower: Replica, leader: Replica) -> int:
    """Return where the follower's log departs from the leader's, by their epochs."""
    ends = dict(_runs(leader))
    for epoch, end in reversed(_runs(follower)):
        if epoch in ends:
            return min(end, ends[epoch])
    return follower.start


def _epoch_at(replica: Replica, offset: int) -> int:
    """Return the epoch under which a replica has an offset."""
    return [epoch for epoch, start in replica.epochs if start <= offset][-1]


def _runs(replica: Replica) -> list[tuple[int, int]]:
    starts = [start for _, start in replica.epochs]
    ends = [*starts, replica.end][1:]
    return [(e, end) for (e, _), end in zip(replica.epochs, ends, strict=True)]


def _log(base: int) -> str:
    return f"{base:020d}.log"


def _index(name: str) -> str:
    return name.replace(".log", ".index")


def _time_index(name: str) -> str:
    return name.replace(".log", ".timeindex")
