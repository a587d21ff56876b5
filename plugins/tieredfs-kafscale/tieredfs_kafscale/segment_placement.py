"""Store the objects of a segment at an offset where other copies may be.

A copy looks first, with one listing:

| there is | the copy |
|---|---|
| nothing | puts the log and the index concurrently, only if they do not exist |
| its own log | puts what is missing or is of another log |
| another log, listed | is refused |
| what another copy has left | removes it, if nothing changes for a request's deadline |

An index is put beside no log but its own, unless two copies have looked before either
has put anything. Then who has put the log replaces the index, and the other one waits.

A log that is there without its index is taken for a dead copy's after that deadline. So
a copy that took longer than it should looks again before it is acknowledged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    CorruptObjectError,
    NotFoundError,
    StoreCapability,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.storage import CopiedObject, copy_objects
from tieredfs_kafscale.object_names import Suffix, object_key, sidecar_key
from tieredfs_kafscale.prior_objects import PriorObjects, delete_objects
from tieredfs_kafscale.restore import StoredObjects
from tieredfs_kafscale.segment_content import SegmentContent
from tieredfs_kafscale.segment_file import FOOTER_SIZE, HEADER_SIZE
from tieredfs_kafscale.segment_indexes import build_index
from tieredfs_kafscale.segment_log import stored_log

__all__ = ["SegmentObjects", "SegmentPlacement"]

_ATTEMPTS: Final = 8
"""How often it is begun anew when other copies have changed what was there."""

_QUICK_SECONDS: Final = 1.0
"""A copy that takes less is not looked at again: no other one waits as briefly, whose
policy has this deadline or a longer one."""


@dataclass(frozen=True, slots=True)
class SegmentObjects:
    """The objects that are stored of a segment.

    Attributes:
        name: Name of the segment, used in error messages.
        log: Its log, between header and footer.
        checksum: CRC-32C of the log.
        index: Its index.
        interval: Number of records between two entries of the index.
        times: Its times, if they are stored.
        sidecars: What KafScale does not know.
    """

    name: str
    log: SegmentContent
    checksum: int
    index: bytes
    interval: int
    times: bytes | None
    sidecars: Mapping[Suffix, bytes]


@dataclass(frozen=True, slots=True)
class SegmentPlacement:
    """Store the objects of a segment.

    Attributes:
        prior: What is at its offset.
        objects: The objects.
    """

    prior: PriorObjects
    objects: SegmentObjects

    def replace(self) -> None:
        """Store it in place of any other segment.

        The other's log is deleted first: readers see no half of either.
        """
        prior = self.prior
        delete_objects(prior.store, prior.folder, prior.base_offset)
        self._put_all(overwrite=True)

    def create(self, listed: Callable[[], int | None]) -> None:
        """Store it, unless another segment is listed at its offset.

        Args:
            listed: Returns the checksum of the segment that is listed; None for none.

        Raises:
            AlreadyExistsError: Another segment is listed, or other processes copy there
                without an end.
        """
        is_displaced = False
        for _ in range(_ATTEMPTS):
            there = self.prior.look()
            if there.claims:  # another process is removing what is there
                if self.prior.stays(there):
                    self.prior.remove_claims(there)
            elif not there.own:
                if self._put_first(recheck=is_displaced):
                    return
            elif self._has_log(there):
                if self._complete():
                    return
            else:
                self._displace(there, listed)
                is_displaced = True
        raise AlreadyExistsError(
            f"{self.objects.name}: another process copies a segment there"
        )

    @property
    def _can_create(self) -> bool:
        capabilities = self.prior.store.probe_capabilities()
        return StoreCapability.EXCLUSIVE_CREATE in capabilities

    def _put_first(self, *, recheck: bool) -> bool:
        """Put all objects where there is none; return whether that is known to last.

        Args:
            recheck: Whether a scrub may be deleting what was here before.
        """
        store, can_create = self.prior.store, self._can_create
        begun = self.prior.clock()
        try:
            self._put_all(overwrite=not can_create, recheck=recheck)
        except AlreadyExistsError:
            return False
        taken = self.prior.clock() - begun
        return can_create and taken < min(store.policy.deadline, _QUICK_SECONDS)

    def _put_all(self, *, overwrite: bool, recheck: bool = True) -> None:
        store, name = self.prior.store, self.objects.name
        # No reader would miss one of these.
        copy_objects(store, name, self._sidecars())
        halves = [
            self._object(Suffix.LOG, self.objects.log, overwrite=overwrite),
            self._object(Suffix.INDEX, self.objects.index, overwrite=overwrite),
        ]
        if self.objects.log.size > store.options.multipart_threshold_bytes:
            # The index alone would be taken for a dead copy's while the log is sent.
            copy_objects(store, name, halves[:1], halves[1], recheck=recheck)
        else:
            copy_objects(store, name, halves, recheck=recheck)
        # Beside another log they would be taken for its own.
        copy_objects(store, name, self._times())

    def _complete(self) -> bool:
        """Put what is missing beside the own log; return whether all is there."""
        store, prior = self.prior.store, self.prior
        missing = [one for one in self._sidecars() if prior.get(one.key) != one.content]
        copy_objects(store, self.objects.name, missing)
        one = self._object(Suffix.INDEX, self.objects.index, overwrite=True)
        stored = prior.get(one.key)
        if stored != one.content:
            if stored is None and self._can_create:
                one = replace(one, overwrite=False)  # not that of a copy after this
            try:
                copy_objects(store, self.objects.name, [one])
            except AlreadyExistsError:
                return False
            missing.append(one)
        times = [one for one in self._times() if prior.get(one.key) != one.content]
        copy_objects(store, self.objects.name, times)
        missing += times
        if not missing:
            return True
        after = prior.look()
        is_whole = Suffix.INDEX in after.own and self._has_log(after)
        return is_whole and not after.claims

    def _displace(self, there: StoredObjects, listed: Callable[[], int | None]) -> None:
        """Remove what another copy has left, once that can no longer be in progress."""
        refusal = AlreadyExistsError(
            f"{self.objects.name}: another segment begins there"
        )
        # The same log may just be put by another process.
        if self._listed(there, listed) not in {None, self.objects.checksum}:
            raise refusal
        if self.prior.stays(there):
            # A segment after it may be whole by now, which makes it one, too.
            if self._listed(there, listed) is not None:
                raise refusal
            self.prior.remove(there)

    def _listed(
        self, there: StoredObjects, listed: Callable[[], int | None]
    ) -> int | None:
        """Return the checksum of the segment at the offset; None if there is none."""
        found = listed() if Suffix.LOG in there.own else None
        if found is not None and self._has_only_own_index(there):
            return None
        return found

    def _has_log(self, there: StoredObjects) -> bool:
        """Return whether the log that is there is this one: 16 bytes are read."""
        size, log = self.objects.log.size, there.own.get(Suffix.LOG)
        if log is None or log.size != size:
            return False
        try:
            footer = self.prior.store.get_range(log.key, size - FOOTER_SIZE, size)
        except (NotFoundError, CorruptObjectError):
            return False
        return footer == self.objects.log.footer

    def _has_only_own_index(self, there: StoredObjects) -> bool:
        """Return whether the index beside another log is this one, and not that log's.

        Then that log was not acknowledged. Logs of batches of the same offsets and
        sizes have the same index, so the other's is made from its log.
        """
        log = there.own.get(Suffix.LOG)
        entry = there.own.get(Suffix.INDEX)
        if log is None or entry is None:
            return False
        if self.prior.get(entry.key) != self.objects.index:
            return False
        size = (log.size or 0) - HEADER_SIZE - FOOTER_SIZE
        source = stored_log(self.prior.store, log.key, max(size, 0))
        try:
            index = build_index(source, self.objects.interval)
        except (
            CorruptDataError,
            NotFoundError,
            UnsupportedFormatError,
            UnsupportedOperationError,
        ):
            return False
        return index != self.objects.index

    def _object(
        self, suffix: Suffix, content: bytes | SegmentContent, *, overwrite: bool
    ) -> CopiedObject:
        key = object_key(self.prior.folder, self.prior.base_offset, suffix)
        return CopiedObject(key, content, overwrite)

    def _times(self) -> list[CopiedObject]:
        times = self.objects.times
        if times is None:
            return []
        return [self._object(Suffix.TIMES, times, overwrite=True)]

    def _sidecars(self) -> list[CopiedObject]:
        folder, base = self.prior.folder, self.prior.base_offset
        return [
            CopiedObject(sidecar_key(folder, base, self.objects.checksum, suffix), data)
            for suffix, data in self.objects.sidecars.items()
        ]
