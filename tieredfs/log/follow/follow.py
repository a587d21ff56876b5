"""A topic's records from its tier, and then from its brokers, each once."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tieredfs.errors import NotFoundError
from tieredfs.format.records.schema import COLUMNS, project
from tieredfs.log.follow.handover import Handover, Source
from tieredfs.log.follow.history import Held, Read, plan_held, read_held
from tieredfs.log.follow.live_log import Arrived, Ended, Event, LiveLog, Refused
from tieredfs.log.follow.start import FollowStart, start_offset
from tieredfs.log.read.reader import TieredReader
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.storage import RemoteStorageManager

__all__ = ["Follow", "Followed"]

_WAITING_SECONDS: Final = 5.0
"""How long a tier is left alone that lacks the end of a transaction."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed.

    Attributes:
        storage: Where the segments are.
        topic: The topic's name.
        reader: Returns the reader of a partition, which the tier need not have.
        partitions: The partitions; None for all.
        tiered: The partitions that the tier has.
        start: Where to begin.
        columns: The columns to build; None for all.
        committed: Whether only committed records are read.
        broker: What messages call the brokers.
    """

    storage: RemoteStorageManager
    topic: str
    reader: Callable[[int], TieredReader]
    partitions: tuple[int, ...] | None
    tiered: tuple[int, ...]
    start: FollowStart
    columns: tuple[str, ...] | None
    committed: bool
    broker: str

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that are read: also the offsets, by which records are counted."""
        wanted = self.columns or COLUMNS
        return wanted if "offset" in wanted else (*wanted, "offset")


class Follow:
    """The records of a topic as they come, first from its tier, then from its brokers.

    Iterating gives ``pyarrow.RecordBatch``, with the columns of a scan, of one
    partition each: every record once, in offset order within its partition. It does not
    end: it waits for the next records until ``close`` is called, also by another
    thread.

    After an error, ``positions`` is where another call of ``Topic.follow`` goes on.
    """

    def __init__(
        self,
        followed: Followed,
        connect: Callable[[], LiveLog],
        now: Callable[[], float],
    ) -> None:
        """Begin nothing yet; called by ``Topic.follow``.

        Args:
            followed: What is followed.
            connect: Connects to the brokers.
            now: Returns a time in seconds that only grows.
        """
        self._followed = followed
        self._connect = connect
        self._now = now
        self._handovers: dict[int, Handover] = {}
        self._is_closed = threading.Event()
        self._batches = self._run()

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return project(self._followed.columns)

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition, after the batches so far.

        It is empty before the first batch was asked for.
        """
        return {number: one.position for number, one in self._handovers.items()}

    def __iter__(self) -> Self:
        """Return itself: records come once."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next records; wait for them.

        Raises:
            OffsetOutOfRangeError: Neither the tier nor the broker holds the next offset
                of a partition.
            NotFoundError: The brokers do not have the topic or a partition, or the
                topic's id is not that of the tier: it was deleted and created again.
            PermissionDeniedError: The store or the brokers refuse the credentials.
            CorruptDataError: The stored data is corrupt, or what a broker sent.
            InvalidArgumentError: A setting of the client is unknown or invalid.
            StorageUnavailableError: The store failed in all attempts of its policy, or
                no broker answered within its deadline.
            DeadlineExceededError: The store did not answer in time.
        """
        return next(self._batches)

    def close(self) -> None:
        """End the reading; calling it again does nothing.

        Where another thread waits for the next records, it waits no longer.
        """
        self._is_closed.set()
        with suppress(ValueError):  # it is running, and will see that it is closed
            self._batches.close()

    def __enter__(self) -> Self:
        """Close it at the end of a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the with block."""
        self.close()

    def __repr__(self) -> str:
        """Show the topic and the brokers."""
        return f"Follow({self._followed.topic!r}, bootstrap={self._followed.broker!r})"

    def _run(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the records of both places until it is closed."""
        wanted = list(self._followed.columns or COLUMNS)
        with closing(self._connect()) as live:
            self._handovers = _begin(self._followed, live)
            with closing(
                _Reading(self._followed, live, self._handovers, self._now)
            ) as reading:
                while not self._is_closed.is_set():
                    for records in reading.turn():
                        yield records.select(wanted)
                        if self._is_closed.is_set():
                            return


def _begin(followed: Followed, live: LiveLog) -> dict[int, Handover]:
    """Return where each partition begins.

    Raises:
        NotFoundError: The brokers do not have a partition.
    """
    there = set(live.partitions())
    numbers = followed.partitions
    if numbers is None:
        numbers = tuple(sorted({*followed.tiered, *there}))
    missing = [number for number in numbers if number not in there]
    if missing:
        listed = ", ".join(map(str, sorted(there)))
        msg = (
            f"{followed.broker}: not found: partition {missing[0]} of "
            f"{followed.topic!r}; the brokers have {listed}"
        )
        raise NotFoundError(msg)
    url = followed.storage.store.url
    return {
        number: Handover(
            f"{url} and {followed.broker}: {followed.topic}-{number}",
            start_offset(followed.reader(number), followed.start, live),
        )
        for number in numbers
    }


class _Reading:
    """The reading of both places, which is taken a turn at a time."""

    def __init__(
        self,
        followed: Followed,
        live: LiveLog,
        handovers: dict[int, Handover],
        now: Callable[[], float],
    ) -> None:
        self._followed = followed
        self._live = live
        self._handovers = handovers  # changed here, for ``Follow.positions``
        self._now = now
        self._history: Generator[Read, None, None] | None = None
        self._planned: dict[int, Held] = {}
        self._followed_live: set[int] = set()
        self._plan_at = now()
        self._lost_at: Mapping[int, int] | None = None

    def turn(self) -> Iterator[pa.RecordBatch]:
        """Yield one batch of the tier, if there is one, and what brokers have sent."""
        self._plan()
        self._assign()
        yield from self._from_tier()
        yield from self._from_brokers()

    def close(self) -> None:
        """End the downloads."""
        if self._history is not None:
            self._history.close()
            self._history = None
        self._planned.clear()

    def _plan(self) -> None:
        """Plan what the tier is asked for, if that is more than is being read."""
        asked = [n for n, one in self._handovers.items() if one.source is Source.TIER]
        if set(asked) <= self._planned.keys() or self._now() < self._plan_at:
            return
        self.close()
        for number, held in zip(asked, self._plans(asked), strict=True):
            one = self._handovers[number]
            if held.slices:
                self._planned[number] = held
            elif held.next_held == one.position:
                self._handovers[number] = one.tier_waits()
                self._plan_at = self._now() + _WAITING_SECONDS
            else:
                self._handovers[number] = one.tier_lacks(held.next_held)
        if self._planned:
            self._history = read_held(
                self._followed.storage,
                list(self._planned.values()),
                self._followed.read_columns,
                committed=self._followed.committed,
            )

    def _plans(self, numbers: Sequence[int]) -> list[Held]:
        readers = [self._followed.reader(number) for number in numbers]

        def plan(reader: TieredReader) -> Held:
            position = self._handovers[reader.partition.partition].position
            return plan_held(reader, position, committed=self._followed.committed)

        return readers[0].calls.map(plan, readers)

    def _assign(self) -> None:
        """Have the brokers send what the tier does not hold."""
        new = {
            number: one.position
            for number, one in self._handovers.items()
            if one.source is Source.BROKER and number not in self._followed_live
        }
        self._live.read(new)
        self._followed_live.update(new)

    def _from_tier(self) -> Iterator[pa.RecordBatch]:
        """Yield the next records of the tier."""
        if self._history is None:
            return
        try:
            read = next(self._history, None)
        except NotFoundError:
            self._plan_again()
            return
        if read is None:
            self.close()
        elif read.records is None:
            end = self._planned.pop(read.partition).end
            one = self._handovers[read.partition]
            self._handovers[read.partition] = one.tier_ended(end)
        else:
            yield from self._advanced(read.partition, read.records)

    def _plan_again(self) -> None:
        """Plan again after a segment was deleted: its records may be elsewhere.

        Raises:
            NotFoundError: Nothing was read since that happened last.
        """
        positions = {n: one.position for n, one in self._handovers.items()}
        if positions == self._lost_at:
            raise  # noqa: PLE0704 - it is called while the error is handled
        self._lost_at = positions
        self.close()

    def _from_brokers(self) -> Iterator[pa.RecordBatch]:
        """Yield what brokers have sent; wait for it, unless the tier has more."""
        seconds = 0.0 if self._history is not None else SIGNAL_CHECK_SECONDS
        for event in self._live.poll(seconds):
            if event.partition in self._followed_live:
                yield from self._taken(event)

    def _taken(self, event: Event) -> Iterator[pa.RecordBatch]:
        number = event.partition
        match event:
            case Arrived():
                yield from self._advanced(number, event.records)
            case Ended():
                one = self._handovers[number]
                self._handovers[number] = one.read_to(event.offset)
            case Refused():
                self._followed_live.discard(number)
                held = self._live.bounds(number)
                self._handovers[number] = self._handovers[number].refused(held)

    def _advanced(
        self, number: int, records: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Yield those records that were not read before, and remember them."""
        one = self._handovers[number]
        offsets = records["offset"].to_numpy()
        new = records.slice(int(np.searchsorted(offsets, one.position)))
        if new.num_rows:
            self._handovers[number] = one.read_to(int(offsets[-1]) + 1)
            yield new
