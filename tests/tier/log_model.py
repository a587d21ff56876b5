"""What a partition of a tier has to hold: its records, and who appended them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tier.source_log import Row
from tieredfs import OffsetAndTimestamp

__all__ = ["Intention", "LogModel", "Payload", "Span"]


class Span(NamedTuple):
    """The offsets of a segment; the end is exclusive."""

    start: int
    end: int


_PRESENT = -1
"""Stands for the time of an append until it is seen."""

Payload = tuple[tuple[bytes | None, int | None], ...]
"""The values of an append, and their timestamps; None for the present time."""


@dataclass(eq=False, slots=True)
class Intention:
    """What a writer wants to append, once.

    Attributes:
        payload: The records.
        may_be_there: Whether an attempt ended without an answer.
    """

    payload: Payload
    may_be_there: bool = False

    def is_at(self, rows: Iterable[Row]) -> bool:
        """Tell whether records are those."""
        found = [(row.value, row.timestamp) for row in rows]
        return len(found) == len(self.payload) and all(
            value == wanted and (stamp in {None, told} or told == _PRESENT)
            for (value, told), (wanted, stamp) in zip(found, self.payload, strict=True)
        )


@dataclass(slots=True)
class LogModel:
    """One partition.

    Attributes:
        stored: The segments that are there, and their records.
        unsettled: Those of which nobody was told whether they are there.
        acked: The segments of ``stored`` whose append was acknowledged.
        intentions: Appends that nobody was told the outcome of.
        removed: Segments that were deleted since ``begin``, and whether an append of
            theirs had been acknowledged before.
    """

    stored: dict[Span, list[Row]] = field(default_factory=dict)
    unsettled: dict[Span, list[Row]] = field(default_factory=dict)
    acked: set[Span] = field(default_factory=set)
    intentions: list[Intention] = field(default_factory=list)
    removed: dict[Span, bool] = field(default_factory=dict)

    @property
    def beginning(self) -> int:
        """The first offset."""
        return min((span.start for span in self.stored), default=0)

    @property
    def end(self) -> int:
        """The end (exclusive)."""
        return max((span.end for span in self.stored), default=0)

    @property
    def gaps(self) -> list[Span]:
        """What no segment holds between the first offset and the end."""
        found, reached = [], self.beginning
        for span in sorted(self.stored):
            if span.start > reached:
                found.append(Span(reached, span.start))
            reached = max(reached, span.end)
        return found

    @property
    def overlaps(self) -> bool:
        """Whether two segments hold one offset."""
        return sum(s.end - s.start for s in (*self.stored, *self.gaps)) > (
            self.end - self.beginning
        )

    def rows(self, start: int = 0, end: int | None = None) -> list[Row]:
        """Return the records of ``[start, end)``, each once, control records too."""
        found = {
            row.offset: row
            for rows in self.stored.values()
            for row in rows
            if start <= row.offset and (end is None or row.offset < end)
        }
        return [found[offset] for offset in sorted(found)]

    def at_time(self, timestamp: int) -> OffsetAndTimestamp | None:
        """Return the first record at or after a time."""
        for row in self.rows():
            if row.timestamp >= timestamp:
                return OffsetAndTimestamp(row.offset, row.timestamp, row.epoch)
        return None

    def begin(self) -> None:
        """Begin an operation."""
        self.removed.clear()

    def hold(self, span: Span, rows: list[Row]) -> None:
        """Take note of a copy that was acknowledged."""
        if span in self.removed:  # by another process, before the answer came
            self.unsettled[span] = rows
        else:
            self.stored[span] = rows
            self.acked.add(span)

    def acknowledge(self, intention: Intention, offsets: range) -> None:
        """Take note of an append that was acknowledged: its offsets are its own."""
        span = Span(offsets.start, offsets.stop)
        rows = [
            Row(offset, _PRESENT if stamp is None else stamp, None, value)
            for offset, (value, stamp) in zip(offsets, intention.payload, strict=True)
        ]
        assert span not in self.acked, f"{span} was acknowledged twice"
        self.forget(intention)
        if self.removed.get(span) is False:
            # This one, before the answer came; or it was deleted, and written again.
            self.unsettled[span] = rows
            return
        there = self.stored.get(span)
        assert there is None or intention.is_at(there), f"{span} holds other records"
        self.stored[span] = there or rows
        self.acked.add(span)

    def doubt(self, intention: Intention) -> None:
        """Take note of an append that ended without an answer."""
        intention.may_be_there = True
        if intention not in self.intentions:
            self.intentions.append(intention)

    def forget(self, intention: Intention) -> None:
        """Take note that nothing of an append is there, or all of it is known."""
        intention.may_be_there = False
        if intention in self.intentions:
            self.intentions.remove(intention)

    def remove(self, span: Span) -> None:
        """Take note of a segment that was deleted: it never comes back by itself."""
        rows = self.stored.pop(span, None)
        self.unsettled.pop(span, None)
        self.removed[span] = span in self.acked
        if rows is not None and span not in self.acked:
            mine = [one for one in self.intentions if one.is_at(rows)]
            if len(mine) == 1:  # otherwise nobody knows whose it was
                self.forget(mine[0])
        self.acked.discard(span)

    def lose(self, span: Span) -> None:
        """Take note of a deletion that ended without an answer."""
        if span in self.stored:
            self.unsettled[span] = self.stored[span]

    def replace(self, span: Span) -> None:
        """Take note of a push whose segment may stand for those of the same records.

        Where a replica's segment ends with offsets that a cleaner has emptied, it is
        the same log with another end, and one object of the two is enough.
        """
        rows = self.unsettled.get(span) or self.stored.get(span)
        for other, held in self.stored.items():
            if other.start == span.start and other != span and held == rows:
                self.unsettled[other] = held

    def cancel(self) -> None:
        """Take note that what was not completed never will be."""
        for one in list(self.intentions):
            if not any(one.is_at(rows) for rows in self._orphans.values()):
                self.forget(one)

    def settle(self, listed: set[Span], rows: Mapping[Span, list[Row]]) -> None:
        """Compare with what is listed, and learn what nobody was told.

        Args:
            listed: Every segment.
            rows: The records that are served of them.
        """
        gone = self.stored.keys() - listed
        assert gone <= self.unsettled.keys(), f"lost: {sorted(gone)}"
        for span in gone:
            self.remove(span)
        for span in listed - self.stored.keys():
            if span in self.unsettled:
                self.stored[span] = self.unsettled[span]
                self.acked.add(span)
            else:  # an append, or it comes from nowhere
                self.stored[span] = rows[span]
        self.unsettled.clear()
        for span, known in self.stored.items():
            if any(row.timestamp == _PRESENT for row in known):
                stamps = {row.offset: row.timestamp for row in rows[span]}
                self.stored[span] = [
                    row._replace(timestamp=stamps.get(row.offset, _PRESENT))
                    if row.timestamp == _PRESENT
                    else row
                    for row in known
                ]
        for found in self._orphans.values():
            have = sum(
                [(r.value, r.timestamp) for r in one]
                == [(r.value, r.timestamp) for r in found]
                for one in self._orphans.values()
            )
            may = sum(one.is_at(found) for one in self.intentions)
            assert have <= may, f"{have} times there, {may} unanswered: {found}"

    @property
    def _orphans(self) -> dict[Span, list[Row]]:
        """The appends that are there and were not acknowledged."""
        return {s: r for s, r in self.stored.items() if s not in self.acked}
