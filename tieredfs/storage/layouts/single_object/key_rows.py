"""Segments whose metadata is made from their keys when it is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, overload

import numpy as np

from tieredfs.format.segment.key import SegmentFlag
from tieredfs.format.segment.key_scheme import KeyScheme
from tieredfs.format.segment.key_table import KeyTable, key_at
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage.layouts.single_object.segment_object import listed_metadata
from tieredfs.storage.segment_table import UNKNOWN_SIZE, SegmentTable

__all__ = ["KeyRows"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows(Sequence[SegmentMetadata]):
    """The segments of one partition, as their keys.

    Attributes:
        partition: The partition.
        scheme: How the objects are named.
        keys: The fields of each key.
    """

    partition: TopicIdPartition
    scheme: KeyScheme
    keys: KeyTable

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> SegmentMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> SegmentMetadata | Self:
        """Return the metadata of one segment, or a part of the segments."""
        if isinstance(index, slice):
            return type(self)(self.partition, self.scheme, self.keys[index])
        key = key_at(self.keys, index)
        return listed_metadata(self.partition, key, self.scheme.stem(key))

    def table(self) -> SegmentTable:
        """Return the segments with their columns, sorted by their offsets."""
        rows = self.keys
        starts, ends = rows["start_offset"], rows["end_offset"]
        if not (starts[:-1] <= starts[1:]).all():
            rows = rows[np.lexsort((ends, starts))]
        is_chunked = rows["flags"] & SegmentFlag.TRANSFORMED != 0
        sizes = np.where(is_chunked, UNKNOWN_SIZE, rows["log_length"])
        return SegmentTable(
            type(self)(self.partition, self.scheme, rows),
            rows["start_offset"],
            rows["end_offset"],
            rows["max_timestamp_ms"],
            sizes,
            rows["epoch"],
        )
