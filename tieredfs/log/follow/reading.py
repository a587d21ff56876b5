"""The reading of several partitions from both places, a turn at a time."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.errors import NotFoundError
from tieredfs.log.follow.followed import Followed
from tieredfs.log.follow.handover import Handover, Source
from tieredfs.log.follow.history import Held, Read, plan_held, read_held
from tieredfs.log.follow.live_log import Arrived, Ended, Event, LiveLog, Refused
from tieredfs.log.read.reader import TieredReader
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS

__all__ = ["Reading"]

_WAITING_SECONDS: Final = 5.0
"""How long a tier is left alone that lacks the end of a transaction."""

_QUIET_SECONDS: Final = 30.0
"""After which it is asked whether a partition that gives nothing has something."""


class Reading:
    """The reading of both places, which is taken a turn at a time."""

    def __init__(
        self,
        followed: Followed,
        live: LiveLog,
        handovers: dict[int, Handover],
        now: Callable[[], float],
    ) -> None:
        """Ask for nothing yet.

        Args:
            followed: What is followed.
            live: What the brokers have.
            handovers: Where each partition begins; kept up to date.
            now: Returns a time in seconds that only grows.
        """
        self._followed = followed
        self._live = live
        self._handovers = handovers
        self._now = now
        self._history: Generator[Read, None, None] | None = None
        self._planned: dict[int, Held] = {}
        self._followed_live: set[int] = set()
        self._plan_at = now()
        self._heard_at: dict[int, float] = {}
        self._lost_at: Mapping[int, int] | None = None

    def turn(self) -> Iterator[Arrived]:
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
        self._heard_at.update(dict.fromkeys(new, self._now()))

    def _from_tier(self) -> Iterator[Arrived]:
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

    def _from_brokers(self) -> Iterator[Arrived]:
        """Yield what brokers have sent; wait for it, unless the tier has more."""
        seconds = 0.0 if self._history is not None else SIGNAL_CHECK_SECONDS
        for event in self._live.poll(seconds):
            if event.partition in self._followed_live:
                self._heard_at[event.partition] = self._now()
                yield from self._taken(event)
        self._read_stalled_again()

    def _read_stalled_again(self) -> None:
        """Begin anew with partitions that give nothing, although they have more.

        A client that has lost its way, after a change of leaders for instance, does not
        say so.
        """
        if not self._live.is_answering:
            return
        now = self._now()
        quiet = [
            number
            for number in self._followed_live
            if now - self._heard_at[number] >= _QUIET_SECONDS
        ]
        for number, end in self._live.ends(quiet).items():
            self._heard_at[number] = now
            if end > self._handovers[number].position:
                self._followed_live.discard(number)

    def _taken(self, event: Event) -> Iterator[Arrived]:
        number = event.partition
        match event:
            case Arrived():
                yield from self._advanced(number, event.records)
            case Ended():
                one = self._handovers[number]
                self._handovers[number] = one.read_to(event.offset)
            case Refused():
                self._followed_live.discard(number)
                self._live.confirm()  # another topic of the name has other offsets
                held = self._live.bounds(number)
                self._handovers[number] = self._handovers[number].refused(held)

    def _advanced(self, number: int, records: pa.RecordBatch) -> Iterator[Arrived]:
        """Yield those records that were not read before, and remember them."""
        one = self._handovers[number]
        offsets = records["offset"].to_numpy()
        new = records.slice(int(np.searchsorted(offsets, one.position)))
        if new.num_rows:
            self._handovers[number] = one.read_to(int(offsets[-1]) + 1)
            yield Arrived(number, new)
