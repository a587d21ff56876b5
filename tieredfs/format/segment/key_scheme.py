"""How the objects of segments are named in a store.

A key is ``<folders>/<stem><suffix>``: the folders are those of a partition, and the
stem has the fields of one segment. The native layout knows names only through its
scheme, so another scheme is one subclass of ``KeyScheme`` in a module beside
``native_keys``, which a subclass of ``SingleObject`` has as its ``keys``; an entry
point in ``pyproject.toml`` gives that layout a name.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import UnsupportedFormatError
from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.key_table import KEY_DTYPE, KeyTable, RowMask
from tieredfs.model import TopicIdPartition

__all__ = ["JOURNAL_FOLDER", "MANAGER_FOLDER", "OWN_FOLDER", "KeyScheme"]

OWN_FOLDER: Final = "@tieredfs/"
"""Folder of the layout's own objects that are not segments. No topic name can contain
the ``@``."""

MANAGER_FOLDER: Final = f"{OWN_FOLDER}manager/"
"""Folder of what managers note of partitions, in a store of any layout."""

JOURNAL_FOLDER: Final = f"{MANAGER_FOLDER}journal/"
"""Folder of what was done with each partition; below it, one named as by the native
layout."""


class KeyScheme(ABC):
    """Write the names of partitions and segments, and read them back.

    Two partitions or segments never have the same name, and what is read from a name is
    written again as the same name. No folder begins with ``@``. A stem is at most 128
    ASCII characters without slash or dot. The stems of a partition sort by end offset,
    then by start offset, so that a listing that starts after an offset begins with the
    segment that covers it.

    It is stateless, so it may be used from many threads, and be pickled.
    """

    depth: ClassVar[int]
    """Number of folders above a segment."""

    suffix: ClassVar[str] = ".segment"
    """End of the keys of segments, and of no other key in their folders."""

    @abstractmethod
    def topic_prefix(self, topic: str) -> str:
        """Return the folder of a topic, with a slash at its end."""

    @abstractmethod
    def partition_prefix(self, partition: TopicIdPartition) -> str:
        """Return the folder of a partition, below its topic's, with a slash at its end.

        It is the common prefix of the keys of the partition's segments.
        """

    @abstractmethod
    def parse_partition(self, folders: Sequence[str]) -> TopicIdPartition | None:
        """Parse the folders of a partition; None when they are not a partition's."""

    def may_lead_to_partitions(self, folders: Sequence[str]) -> bool:
        """Return whether folders, fewer than ``depth``, may have partitions below them.

        Implementers: the default is True. Return False for foreign folders, so that
        they are not listed.
        """
        del folders
        return True

    @abstractmethod
    def stem(self, key: SegmentKey) -> str:
        """Return the last part of a segment's key, without the suffix."""

    @abstractmethod
    def parse_stem(self, stem: str) -> SegmentKey | None:
        """Parse the last part of a key, without the suffix.

        Returns:
            The key; None when the object is foreign.

        Raises:
            UnsupportedFormatError: The stem is of a newer release.
        """

    def parse_stems(self, stems: Sequence[str]) -> tuple[KeyTable, RowMask]:
        """Parse as many of some stems as can be parsed together.

        Implementers: the default parses none.

        Args:
            stems: Last parts of keys, without the suffix.

        Returns:
            A row for each stem, and a mask of the rows that hold what ``parse_stem``
            returns. The other rows are undefined: parse those stems one by one.
        """
        return np.zeros(len(stems), KEY_DTYPE), np.zeros(len(stems), np.bool_)

    @abstractmethod
    def stem_beginning(self, end_offset: int, start_offset: int | None = None) -> str:
        """Return how the stems of segments begin that end at an offset, and no others.

        All beginnings have the same length, and sort by offset.

        Args:
            end_offset: Last offset of the segments; at least 0.
            start_offset: First offset of the segments; None for any.
        """

    def epoch_of(self, stem: str) -> int:
        """Return only the leader epoch of a stem that ``parse_stem`` accepts.

        Implementers: the default parses all of it.
        """
        key = self.parse_stem(stem)
        return NO_EPOCH if key is None else key.epoch

    def object_key(self, partition: TopicIdPartition, stem: str) -> str:
        """Return the key of a segment's object."""
        return f"{self.partition_prefix(partition)}{stem}{self.suffix}"

    def seek_key(self, partition: TopicIdPartition, offset: int) -> str:
        """Return a key that sorts after every segment that ends before ``offset``.

        It is empty if there can be no such segment.
        """
        if offset <= 0:
            return ""
        before = self.stem_beginning(offset - 1)
        behind = f"{before[:-1]}{chr(ord(before[-1]) + 1)}"
        return f"{self.partition_prefix(partition)}{behind}"

    def stem_of(self, name: str) -> str | None:
        """Return the stem of a name in a partition's folder; None for a foreign one."""
        stem = name.removesuffix(self.suffix)
        return None if stem == name else stem

    def is_segment_key(self, key: str) -> bool:
        """Return whether a key is that of a segment, of any release."""
        *folders, name = key.split("/")
        stem = self.stem_of(name)
        if stem is None or self.parse_partition(folders) is None:
            return False
        try:
            return self.parse_stem(stem) is not None
        except UnsupportedFormatError:
            return True
