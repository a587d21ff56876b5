"""Claim an offset for an append: one writer wins, and a dead one blocks no other.

A segment's key contains its own id, so a put cannot detect that another writer was
first. An append has three steps:

1. The object is staged under a unique name: its stem and a token.
2. The offset is claimed by a create that has one winner. The claim contains that name.
3. The staged object that the claim names is copied to the segment's key, and deleted.

A claim counts only at the end of the log. No writer claims an offset that a segment
contains, or one that the log no longer reaches because its end was deleted; the staged
object of an older claim there is not completed but removed. Otherwise a writer would
overlap another that begins earlier. A log without a segment ends at 0.

While a staged object is copied, it may be removed and its claim regarded as spent, or
the end of the log may be deleted. So a writer that has copied looks for a segment that
overlaps its own: of two writers the later one sees the other's, removes its own, and
has lost.

Claims are never removed: a writer that knows an older end of the log could otherwise
claim an offset that is free again. Claims are numbered, and number ``n + 1`` counts
once ``n`` is spent: neither its staged object nor its segment exists. A spent claim
stays spent, since no name is staged twice, not even by two attempts of one put, of
which the server may execute the first one late. A claim is spent when the segment is
deleted, and when ``cancel_copying`` runs between steps 2 and 3.

=====================  ===================  ============================================
a writer ends          it leaves            who appends next at the offset
=====================  ===================  ============================================
before or in step 1    nothing, or what     the same writer or another: wins
                       ``scrub`` finds
in step 2, refused     what ``scrub``       the same writer or another: loses to the one
                       finds                that the claim names
in step 2, unknown,    a staged object,     any other completes it, and loses; the same
or before step 3       and a claim of it    writer completes it, and has succeeded in
step 3, or later    a segment            the same; there is nothing to complete
=====================  ===================  ============================================

The same writer is one that appends the same segment. An id is used by one append only,
so a completed claim of its own stem is its own success, and a claim of another stem is
not, even if both contain the same bytes. A create that is still in progress when its
writer has moved on finds its number taken, or wins as if the writer had died.

Claims of earlier releases contain only the stem, which is the name of their staged
object.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    StorageUnavailableError,
    UnsupportedFormatError,
)
from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.key_scheme import JOURNAL_FOLDER, OWN_FOLDER, KeyScheme
from tieredfs.format.segment.tail import parse_manifest
from tieredfs.model import TopicIdPartition, Uuid
from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.storage.contract import Leftover
from tieredfs.storage.layouts.single_object.segment_object import check_facts

__all__ = ["OffsetClaims"]

_STAGING: Final = f"{OWN_FOLDER}aside/"
_CLAIMS: Final = f"{OWN_FOLDER}claims/"
_SEPARATOR: Final = "."  # no character of a stem


@dataclass(frozen=True, slots=True)
class OffsetClaims:
    """The claims of a store, and the objects that are staged for them.

    Attributes:
        store: Where they and the segments are.
        keys: How segments are named.
    """

    store: ObjectStore
    keys: KeyScheme

    def append(
        self, partition: TopicIdPartition, key: SegmentKey, content: bytes
    ) -> None:
        """Make ``content`` the segment at the end of the log, unless that is claimed.

        An existing claim is completed, because its writer may have died. Afterwards,
        also after a crash, the segment exists whole, or not at all, or as soon as
        another writer appends. Called again with the same segment, the method
        continues, or finds the segment stored.

        Args:
            partition: The partition to append to.
            key: The fields of the segment's key.
            content: The whole object.

        Raises:
            AlreadyExistsError: Another writer was first, or the log does not end at the
                segment's start offset; nothing was stored.
            StorageUnavailableError: The staged object was removed meanwhile, or the
                segment would overlap another: nothing was stored. Or the store failed,
                and the segment may exist now or later.
        """
        stem = self.keys.stem(key)
        staged = self.store.put_new(_staging_key(f"{stem}{_SEPARATOR}"), content)
        own = staged.removeprefix(_STAGING)
        winner = self._claim(partition, key.start_offset, own)
        if winner != own:
            self.store.delete([staged])
        if _stem(winner) != stem:
            reason = (
                "was appended by another writer"
                if winner
                else "is not the end of the log: it was appended to, or truncated"
            )
            msg = f"{self.store.url}: {partition}: offset {key.start_offset} {reason}"
            raise AlreadyExistsError(msg)

    def staged(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the objects that incomplete appends to a partition have staged.

        The name of a staged object does not contain its partition, so each object costs
        one range read. An object whose partition cannot be determined is skipped.
        """
        for entry in self.store.list(_STAGING):
            if self._partition_of(entry) == partition:
                reason = f"staged for an append to {partition} that was not completed"
                yield Leftover(entry.key, entry.size or 0, reason)

    def staged_partitions(self) -> Iterator[TopicIdPartition]:
        """Yield the partition of each staged object, each for one range read.

        An object whose partition cannot be determined is skipped.
        """
        for entry in self.store.list(_STAGING):
            partition = self._partition_of(entry)
            if partition is not None:
                yield partition

    def remove_staged(self, stem: str) -> None:
        """Remove the staged objects of a segment, which its writer may have left.

        Otherwise the claim would be completed with them again after the segment is
        deleted.
        """
        staged = self.store.list(_staging_key(f"{stem}{_SEPARATOR}"))
        self.store.delete([entry.key for entry in staged])

    def _partition_of(self, entry: ObjectInfo) -> TopicIdPartition | None:
        """Return the partition of a staged object, which its manifest contains."""
        name = f"{self.store.url}/{entry.key}"
        try:
            key = self.keys.parse_stem(_stem(entry.key.removeprefix(_STAGING)))
            if key is None or key.size != entry.size:
                return None
            tail = self.store.get_range(entry.key, key.log_length, key.size)
            manifest = parse_manifest(tail, key.log_length, key.flags, name=name)
            facts = manifest.segment
            topic_id = Uuid(facts.topic_id)
            partition = TopicIdPartition(facts.topic, facts.partition, topic_id)
            check_facts(manifest, partition, key, name)
        except (
            CorruptObjectError,
            InvalidArgumentError,
            NotFoundError,  # completed meanwhile
            UnsupportedFormatError,
        ):
            return None
        return partition

    def _claim(self, partition: TopicIdPartition, offset: int, own: str) -> str:
        """Claim an offset for ``own``, and complete the claim that counts.

        Returns:
            The name in that claim; empty if the log does not end at the offset.
        """
        place = f"{_CLAIMS}{self.keys.partition_prefix(partition)}{offset:020d}"
        for number in count():
            claim = f"{place}-{number}"
            # This writer may know an outdated end of the log: the end may have been
            # deleted, and another writer may append before this offset.
            if not self._ends_at(partition, offset):
                winner = self._read(claim)
                if not winner:
                    return ""
                is_done = self._spend(partition, winner)
            else:
                winner = own
                try:
                    self.store.put(claim, own.encode(), overwrite=False)
                except AlreadyExistsError:
                    winner = self._read(claim)
                is_done = self._complete(partition, winner)
            if is_done:
                return winner
            if winner == own:
                msg = (
                    f"{self.store.url}: {partition}: the segment to append at offset "
                    f"{offset} was removed, or came too late; nothing was stored: "
                    "append again"
                )
                raise StorageUnavailableError(msg)
        raise AssertionError

    def _read(self, claim: str) -> str:
        """Return the name in a claim; empty if there is no claim."""
        with suppress(NotFoundError):
            return bytes(self.store.get(claim)).decode("ascii", "replace")
        return ""

    def _ends_at(self, partition: TopicIdPartition, offset: int) -> bool:
        """Return whether an offset is the end of the log: after its last segment.

        Where there is none, it is 0, or wherever a log ended that has expired.
        The names alone show that, also those of segments of a newer release.
        """
        prefix = self.keys.partition_prefix(partition)
        after = self.keys.seek_key(partition, offset - 1)
        segments = self._segments(prefix, after)
        if offset == 0:
            return next(segments, None) is None
        last = f"{prefix}{self.keys.stem_beginning(offset - 1)}"
        is_reached = False
        for segment in segments:
            if not segment.startswith(last):
                return False
            is_reached = True
        return is_reached or self._has_expired(prefix)

    def _has_expired(self, prefix: str) -> bool:
        """Return whether there is no segment, but a journal that says why."""
        if next(self._segments(prefix), None) is not None:
            return False
        journal = self.store.list(f"{JOURNAL_FOLDER}{prefix}")
        return next(journal, None) is not None

    def _segments(self, prefix: str, after: str = "") -> Iterator[str]:
        listed = self.store.list(prefix, start_after=after)
        return (e.key for e in listed if e.key.endswith(self.keys.suffix))

    def _complete(self, partition: TopicIdPartition, name: str) -> bool:
        """Turn a staged object into a segment; return whether the segment exists."""
        key = self._key(partition, name)
        segment = self.keys.object_key(partition, _stem(name))
        with suppress(NotFoundError):
            self.store.copy(_staging_key(name), segment)
            self.store.delete([_staging_key(name)])
            if self._is_overlapped(partition, key):
                self.store.delete([segment])
                return False
            return True
        return self._is_there(segment)

    def _spend(self, partition: TopicIdPartition, name: str) -> bool:
        """Remove a staged object; return whether it has become a segment."""
        self._key(partition, name)
        self.store.delete([_staging_key(name)])
        return self._is_there(self.keys.object_key(partition, _stem(name)))

    def _is_overlapped(self, partition: TopicIdPartition, key: SegmentKey) -> bool:
        """Return whether another segment has offsets of this one."""
        prefix = self.keys.partition_prefix(partition)
        own = self.keys.object_key(partition, self.keys.stem(key))
        after = self.keys.seek_key(partition, key.start_offset)
        for entry in self.store.list(prefix, start_after=after):
            stem = self.keys.stem_of(entry.key[len(prefix) :])
            if entry.key == own or stem is None:
                continue
            other = self.keys.parse_stem(stem)
            if other is not None and other.start_offset <= key.end_offset:
                return True
        return False

    def _key(self, partition: TopicIdPartition, name: str) -> SegmentKey:
        """Return the key of the segment that a claim is about."""
        key = self.keys.parse_stem(_stem(name))
        if key is None:
            msg = f"{self.store.url}: {partition}: a claim names no segment: {name!r}"
            raise CorruptObjectError(msg)
        return key

    def _is_there(self, key: str) -> bool:
        with suppress(NotFoundError):
            self.store.head(key)
            return True
        return False


def _staging_key(name: str) -> str:
    return f"{_STAGING}{name}"


def _stem(name: str) -> str:
    """Return the stem of the segment that a staged object is for."""
    return name.partition(_SEPARATOR)[0]
