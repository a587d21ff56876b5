"""A broker's log that grows in a store: it rolls, is cleaned, and loses its oldest."""

from collections.abc import Iterator

from support.transactions import TransactionalLog, TransactionalSegment, no_producers
from tieredfs import ObjectStore, TopicIdPartition, Uuid

__all__ = ["RollingLog"]

_TOPIC_ID = Uuid("A" * 21 + "w")
_FOLDER = "t-0"


class RollingLog:
    """A partition of a log directory, whose files are written when it changes.

    Attributes:
        partition: The partition.
        log: Its records. The record of an offset has the timestamp 1000 + offset.
        start: Its first offset.
    """

    partition = TopicIdPartition("t", 0, _TOPIC_ID)

    def __init__(self, store: ObjectStore) -> None:
        """Begin an empty log.

        Args:
            store: The log directory.
        """
        self.log = TransactionalLog([])
        self.start = 0
        self._store = store
        self._before = no_producers()
        """The producers where the log begins."""
        self._written: dict[str, bytes] = {}
        self.write()

    @property
    def closed_end(self) -> int:
        """The end (exclusive) of the closed segments."""
        return self.log.segments[-1].start

    @property
    def copyable_end(self) -> int:
        """Where the closed segments end that hold no open transaction."""
        ends = [later.start for later in self.log.segments[1:]]
        stable = self.log.stable_offset
        return max((end for end in ends if end <= stable), default=self.start)

    @property
    def closed_ends(self) -> list[int]:
        """The ends (exclusive) of the closed segments."""
        return [later.start for later in self.log.segments[1:]]

    def produce(self, what: str, producer: int, count: int) -> None:
        """Write records, or the end of a transaction."""
        getattr(self.log, f"_{what}")(producer, count)
        self.write()

    def roll(self) -> None:
        """Close the active segment, unless it is empty."""
        self.produce("roll", 0, 0)

    def merge(self, number: int) -> None:
        """Let the cleaner put two closed segments together; their keys all differ."""
        closed = self.log.segments[:-1]
        if number + 1 < len(closed):
            first, second = closed[number : number + 2]
            first.batches += second.batches
            first.aborts += second.aborts
            first.snapshot = second.snapshot
            self.log.segments.remove(second)
            self.write()

    def delete_until(self, end: int) -> None:
        """Delete the closed segments that end up to an offset, as local retention."""
        segments = self.log.segments
        while len(segments) > 1 and segments[1].start <= end:
            self._before = segments.pop(0).snapshot
        self.start = segments[0].start
        self.write()

    def write(self) -> None:
        """Write the files that have changed, and delete those that are gone."""
        files = dict(self._files())
        for name, data in files.items():
            if self._written.get(name) != data:
                self._store.put(f"{_FOLDER}/{name}", data, overwrite=True)
        gone = self._written.keys() - files
        self._store.delete([f"{_FOLDER}/{name}" for name in gone])
        self._written = files

    def _files(self) -> Iterator[tuple[str, bytes]]:
        yield "partition.metadata", f"version: 0\ntopic_id: {_TOPIC_ID}".encode()
        yield "leader-epoch-checkpoint", b"0\n1\n0 0\n"
        before = self._before
        for one in self.log.segments:
            yield from _segment_files(one, before)
            before = one.snapshot


def _segment_files(
    segment: TransactionalSegment, before: bytes
) -> Iterator[tuple[str, bytes]]:
    stem = f"{segment.start:020d}"
    yield f"{stem}.log", segment.log
    yield f"{stem}.index", b""
    yield f"{stem}.timeindex", b""
    yield f"{stem}.snapshot", before
    if segment.aborts:
        yield f"{stem}.txnindex", b"".join(segment.aborts)
