"""Leader-epoch lineage: which leader epoch is valid at each offset of a partition.

Each leader of a partition writes under its own epoch. After a leader change a copied
segment may end in records that the next leader did not have. Such records carry an
epoch that the lineage does not have at their offset. Source: KIP-101, KIP-405.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.model import EpochEntry

__all__ = ["NO_EPOCH", "LeaderEpochs"]

NO_EPOCH = -1
"""The epoch of a batch without one."""

_start = attrgetter("start_offset")


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """The leader-epoch lineage of a partition.

    Attributes:
        entries: Epochs with their first offsets, both strictly increasing.
    """

    entries: tuple[EpochEntry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]]) -> Self:
        """Make a lineage from ``(epoch, start_offset)`` pairs.

        Raises:
            InvalidArgumentError: An epoch or offset is negative, too large, or not
                greater than the one before it.
        """
        made = tuple(EpochEntry(epoch, start) for epoch, start in entries)
        previous = EpochEntry(-1, -1)
        for entry in made:
            if (
                entry.epoch <= previous.epoch
                or entry.start_offset <= previous.start_offset
                or entry.epoch > MAX_INT32
                or entry.start_offset > MAX_INT64
            ):
                msg = (
                    f"leader epochs and their start offsets must increase: epoch "
                    f"{entry.epoch} at offset {entry.start_offset} follows epoch "
                    f"{previous.epoch} at offset {previous.start_offset}"
                )
                raise InvalidArgumentError(msg)
            previous = entry
        return cls(made)

    def extended(self, entries: Iterable[EpochEntry]) -> "LeaderEpochs":
        """Return this lineage followed by those of ``entries`` that continue it."""
        made = list(self.entries)
        for entry in entries:
            last = made[-1] if made else EpochEntry(NO_EPOCH, -1)
            if entry.epoch > last.epoch and entry.start_offset > last.start_offset:
                made.append(entry)
        return LeaderEpochs(tuple(made))

    def epoch_at(self, offset: int) -> int:
        """Return the epoch at ``offset``; NO_EPOCH before the first entry."""
        found = bisect_right(self.entries, offset, key=_start)
        return self.entries[found - 1].epoch if found else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> EpochEntry | None:
        """Return where an epoch ends, as Kafka's ``OffsetForLeaderEpoch`` does.

        Args:
            epoch: The epoch that is asked for.
            log_end: End (exclusive) of the log.

        Returns:
            The largest epoch up to ``epoch``, with the offset at which the next one
            begins, or ``log_end``. Before the first epoch: ``epoch``, and where the
            first one begins. None if ``epoch`` is later than all.
        """
        if not self.entries or epoch > self.entries[-1].epoch:
            return None
        later = bisect_right(self.entries, epoch, key=attrgetter("epoch"))
        if later == len(self.entries):
            return EpochEntry(epoch, log_end)
        known = self.entries[later - 1].epoch if later else epoch
        return EpochEntry(known, self.entries[later].start_offset)

    def accepts(self, epoch: int, offset: int) -> bool:
        """Return whether a batch written under ``epoch`` belongs at ``offset``.

        A batch without an epoch, and a batch at an offset before the lineage, cannot
        be checked and are accepted.
        """
        return epoch == NO_EPOCH or self.epoch_at(offset) in {epoch, NO_EPOCH}

    def accepts_each(
        self, epochs: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return for each batch whether it belongs at its offset: see ``accepts``."""
        starts = np.array([entry.start_offset for entry in self.entries], np.int64)
        held = np.array([NO_EPOCH, *(entry.epoch for entry in self.entries)])
        expected = held[np.searchsorted(starts, offsets, side="right")]
        accepted: npt.NDArray[np.bool_] = (
            (epochs == NO_EPOCH) | (expected == NO_EPOCH) | (expected == epochs)
        )
        return accepted

    def agreement_end(self, lineage: "LeaderEpochs", start: int, end: int) -> int:
        """Return the offset up to which this lineage agrees with ``lineage``.

        Args:
            lineage: The lineage to compare with.
            start: First offset to compare.
            end: End (exclusive) of the offsets to compare.

        Returns:
            The first offset in ``[start, end)`` at which both have an epoch and the
            epochs differ; ``end`` when there is no such offset.
        """
        turns = {
            entry.start_offset
            for entry in (*self.entries, *lineage.entries)
            if start < entry.start_offset < end
        }
        for offset in sorted({start, *turns}):
            if offset < end and not lineage.accepts(self.epoch_at(offset), offset):
                return offset
        return end
