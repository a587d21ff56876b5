"""What a scan costs: what was predicted of it, and what was counted."""

from dataclasses import dataclass, field

from tieredfs.objects import RequestCounter, RequestCounts
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["Explanation", "ScanRecord", "ScanStats"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What reading a scan will ask of the store.

    Attributes:
        segments: Number of segments to read from, if all of it is read.
        log_bytes: Bytes of their logs, as the broker wrote them.
        explaining: The requests that ``explain`` itself has sent; the planning of the
            scan had been done before, and is not in them.
        reading: The requests that the next iteration will send if none is repeated, and
            the bytes that they move: exactly these, or at most. Where only the first
            records are needed, it is the same for any number of them below that of the
            offsets.
        expected: The same as ``reading``; where only the first records are needed, what
            it sends if every offset has a record.
        is_exact: Whether it sends exactly these. Otherwise ``reading`` is the most that
            it sends: where fewer records are needed than there are offsets; where a
            slice of several requests ends inside its segment, near the beginning of one
            of them; where such a slice has requests of less than 1 MiB, which a batch
            may exceed; and where more partitions are read in turn than are kept in
            memory. A batch that is larger than a request is seen only when it is read,
            and saves some.
    """

    segments: int
    log_bytes: int
    explaining: RequestCounts
    reading: RequestCounts
    expected: RequestCounts
    is_exact: bool


@dataclass(frozen=True, slots=True)
class ScanStats:
    """What an iteration of a scan has asked of the store.

    Attributes:
        planned: What ``explain`` predicted; None if it was not called after the
            iteration before.
        requests: The requests that have been sent, repeated ones too, and the bytes of
            the answers.
        retries: How many of them repeated another one.
    """

    planned: Explanation | None = None
    requests: RequestCounts = field(default_factory=RequestCounts)
    retries: int = 0


class ScanRecord:
    """The last explanation and the last iteration of a scan; shared by threads.

    In another process it begins empty.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = make_lock()
        self._explained: Explanation | None = None
        self._planned: Explanation | None = None
        self._counter = RequestCounter()

    def explain(self, explained: Explanation) -> None:
        """Keep what was predicted of the next iteration."""
        with self._lock:
            self._explained = explained

    def begin(self) -> RequestCounter:
        """Begin an iteration, and return what counts its requests."""
        with self._lock:
            self._counter = RequestCounter()
            self._planned, self._explained = self._explained, None
            return self._counter

    @property
    def stats(self) -> ScanStats:
        """The figures of the iteration that began last."""
        with self._lock:
            planned, counter = self._planned, self._counter
        return ScanStats(planned, counter.counts, counter.retries)

    def __reduce__(self) -> "tuple[type[ScanRecord], tuple[()]]":
        """Begin empty."""
        return ScanRecord, ()
