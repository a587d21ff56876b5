"""Leader-epoch lineage: which history of a partition is the true one.

Each leader of a partition writes under its own epoch. After a leader change a copied
segment may end in records that the next leader did not have; they carry an epoch that
the lineage does not have at their offset. Source: KIP-101, KIP-405.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from tieredfs.errors import InvalidArgumentError
from tieredfs.model import EpochEntry

__all__ = ["NO_EPOCH", "LeaderEpochs"]

NO_EPOCH = -1
"""The epoch of a batch that carries none."""

_MAX_EPOCH = (1 << 31) - 1
_MAX_OFFSET = (1 << 63) - 1
_start = attrgetter("start_offset")


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """Which leader epoch holds at which offset.

    Attributes:
        entries: Epochs with their first offsets; both rise strictly.
    """

    entries: tuple[EpochEntry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]]) -> Self:
        """Make a lineage from ``(epoch, start_offset)`` pairs.

        Raises:
            InvalidArgumentError: An epoch or offset is negative or does not rise.
        """
        made = tuple(EpochEntry(epoch, start) for epoch, start in entries)
        previous = EpochEntry(-1, -1)
        for entry in made:
            if (
                entry.epoch <= previous.epoch
                or entry.start_offset <= previous.start_offset
                or entry.epoch > _MAX_EPOCH
                or entry.start_offset > _MAX_OFFSET
            ):
                msg = (
                    f"leader epochs must rise: epoch {entry.epoch} at offset "
                    f"{entry.start_offset} follows epoch {previous.epoch} at "
                    f"{previous.start_offset}"
                )
                raise InvalidArgumentError(msg)
            previous = entry
        return cls(made)

    def extended(self, entries: Iterable[EpochEntry]) -> "LeaderEpochs":
        """Return the history that goes on with ``entries``, as far as they are new."""
        made = list(self.entries)
        for entry in entries:
            last = made[-1] if made else EpochEntry(NO_EPOCH, -1)
            if entry.epoch > last.epoch and entry.start_offset > last.start_offset:
                made.append(entry)
        return LeaderEpochs(tuple(made))

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that holds at ``offset``; NO_EPOCH before the first."""
        found = bisect_right(self.entries, offset, key=_start)
        return self.entries[found - 1].epoch if found else NO_EPOCH

    def accepts(self, epoch: int, offset: int) -> bool:
        """Tell whether a batch written under ``epoch`` belongs at ``offset``.

        A batch without an epoch, and an offset older than the lineage, cannot be
        judged and are accepted.
        """
        return epoch == NO_EPOCH or self.epoch_at(offset) in {epoch, NO_EPOCH}

    def accepts_each(
        self, epochs: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Tell of each of some batches whether it belongs: see ``accepts``."""
        starts = np.array([entry.start_offset for entry in self.entries], np.int64)
        held = np.array([NO_EPOCH, *(entry.epoch for entry in self.entries)])
        expected = held[np.searchsorted(starts, offsets, side="right")]
        accepted: npt.NDArray[np.bool_] = (
            (epochs == NO_EPOCH) | (expected == NO_EPOCH) | (expected == epochs)
        )
        return accepted

    def agreement_end(self, lineage: "LeaderEpochs", start: int, end: int) -> int:
        """Return the end (exclusive) of what this history shares with ``lineage``.

        Args:
            lineage: The history to compare with.
            start: First offset to look at.
            end: End (exclusive) of the offsets to look at.

        Returns:
            The first offset in ``[start, end)`` at which both know an epoch and the
            epochs differ; ``end`` when there is none.
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
