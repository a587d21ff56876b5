"""A plugin, and the store that a rule tests it with."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from tieredfs.errors import NotFoundError
from tieredfs.model import SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.applicability import NotApplicableError
from tieredfs.testing.faults import Effect, FaultPlan, FaultyStore, StoreFault
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.requirement import require
from tieredfs.testing.samples import Sample, all_samples
from tieredfs.testing.stores import WRITES, WatchedStore

__all__ = ["Asked", "Case", "MakeStorage"]

MakeStorage = Callable[[ObjectStore], RemoteStorageManager]
"""Creates a new storage over the given store on each call. If the layout is read only,
it puts segments into an empty store, so that there is something to read."""

Asked = dict[str, Callable[[], object]]
"""Calls to make, by their descriptions."""

_MAX_REQUESTS: Final = 200


class Case:
    """A plugin and a store to check it with.

    Attributes:
        store: Empty at first, except for a layout that is read only.
        storage: The plugin over it.
    """

    def __init__(
        self, make_storage: MakeStorage, store: ObjectStore, raw: RawAccess
    ) -> None:
        """Make the storage."""
        self._make = make_storage
        self._raw = raw
        self.store = store
        self.storage = make_storage(store)
        made: object = self.storage
        require(
            isinstance(made, RemoteStorageManager),
            f"make_storage returned {made!r}, which is not a RemoteStorageManager.",
        )

    def another(self, store: ObjectStore | None = None) -> RemoteStorageManager:
        """Return an independent storage over the same objects."""
        return self._make(self.store if store is None else store)

    def over(self, store: ObjectStore) -> "Case":
        """Return the same plugin over another store, which is empty."""
        return Case(self._make, store, self._raw)

    def can(self, *capabilities: Capability) -> bool:
        """Return whether the storage has all of these capabilities."""
        return self.storage.capabilities >= set(capabilities)

    def raw_keys(self) -> set[str]:
        """Return the keys of all objects that are stored, whatever the plugin says."""
        return set(self._raw.raw_keys(self.store))

    def stored_keys(self) -> set[str]:
        """Return the keys of all objects, of which there has to be one."""
        keys = self.raw_keys()
        require(bool(keys), "There are segments, and raw_keys returned no object.")
        return keys

    def raw_get(self, key: str) -> bytes:
        """Return an object as it is stored."""
        return self._raw.raw_get(self.store, key)

    def raw_put(self, key: str, data: bytes) -> None:
        """Store or replace an object behind the plugin's back."""
        self._raw.raw_put(self.store, key, data)

    def raw_delete(self, key: str) -> None:
        """Delete an object behind the plugin's back."""
        self._raw.raw_delete(self.store, [key])

    def fill(self) -> list[Sample]:
        """Copy the samples, the last first, and return them in order."""
        samples = all_samples()
        for sample in reversed(samples):
            self.storage.copy_log_segment(sample.metadata, sample.data)
        return samples

    def listed(self, sample: Sample) -> SegmentMetadata:
        """Return the metadata of a sample as it is listed."""
        for found in self.storage.list_segments(sample.metadata.partition):
            if (found.start_offset, found.id) == sample.identity:
                return found
        raise AssertionError(f"{sample.metadata} was copied and is not listed.")

    def seen(self, sample: Sample) -> SegmentMetadata | None:
        """Return a sample as another storage lists it now; None if it does not."""
        try:
            found = self.another().list_segments(sample.metadata.partition)
        except NotFoundError:
            return None
        mine = [s for s in found if (s.start_offset, s.id) == sample.identity]
        return mine[0] if mine else None

    def stored(self, sample: Sample, where: str = "") -> SegmentMetadata:
        """Return the metadata of a sample as another storage lists it.

        Args:
            sample: What was copied.
            where: What happened before, as the beginning of a sentence.
        """
        listed = self.seen(sample)
        if listed is None:
            said = f"{where} {sample.metadata} was copied and is not listed."
            raise AssertionError(said.strip())
        return listed

    def failing_writes(
        self, effect: Effect, meanwhile: Callable[[int], object] = lambda _: None
    ) -> Iterator[tuple[int, RemoteStorageManager]]:
        """Yield a storage for each write of a call; with it, that write fails.

        The same call has to be made with each of them. They end after the one whose
        write the call did not reach, which so has made all of its writes.

        Args:
            effect: What happens to the write.
            meanwhile: What is done before the write is executed, if the effect is
                ``delay``; it is given the number of the write.

        Yields:
            The number of the write, from 0, and the storage.

        Raises:
            NotApplicableError: The call makes no write through the given store.
            AssertionError: It makes so many that not all of them were tried.
        """
        yield from self._failing(effect, meanwhile, of_writes=True)

    def failing_requests(
        self, effect: Effect
    ) -> Iterator[tuple[int, RemoteStorageManager]]:
        """Yield a storage for each request of a call; with it, that request fails.

        As ``failing_writes``, for reads too; a call may also send no request.

        Args:
            effect: What happens to the request.
        """
        yield from self._failing(effect, lambda _: None, of_writes=False)

    def failing_from(
        self, *, is_landed: bool
    ) -> Iterator[tuple[int, RemoteStorageManager]]:
        """Yield a storage for each write of a call; with it, all from that one on fail.

        As ``failing_writes``, but for a store that cannot be written to any more.

        Args:
            is_landed: Whether the first write that fails is executed nevertheless.
        """
        for at in _numbers():
            store = WatchedStore.over(self.store, WRITES, limit=at, is_landed=is_landed)
            yield at, self.another(store)
            if store.calls <= at:
                _need_writes(at)
                return

    def _failing(
        self, effect: Effect, meanwhile: Callable[[int], object], *, of_writes: bool
    ) -> Iterator[tuple[int, RemoteStorageManager]]:
        for at in _numbers():
            store = FaultyStore.over(self.store, during_pause=partial(meanwhile, at))
            storage = self.another(store)
            # What a read-only plugin sends while it is made is no part of the call.
            store.follow(FaultPlan((StoreFault(effect, at, of_writes=of_writes),)))
            yield at, storage
            if not any(request.effect for request in store.requests):
                if of_writes:
                    _need_writes(at)
                return

    def all_listed(self, storage: RemoteStorageManager) -> list[SegmentMetadata]:
        """Return every segment that a storage lists.

        A store may list the folder of a partition whose segments are all gone.
        """
        found: list[SegmentMetadata] = []
        for partition in storage.list_partitions():
            with suppress(NotFoundError):
                found += storage.list_segments(partition)
        return found

    def segments(self) -> list[SegmentMetadata]:
        """Return segments as they are listed: the samples, where they can be copied."""
        if self.can(Capability.WRITE):
            self.fill()
        found = self.all_listed(self.storage)
        require(bool(found), "There is no segment to read.")
        return found


def _numbers() -> Iterator[int]:
    """Yield the numbers of the requests of a call, up to those that are too many."""
    yield from range(_MAX_REQUESTS)
    raise AssertionError(
        f"A call sent {_MAX_REQUESTS} requests or more: too many to let each of them "
        "fail once."
    )


def _need_writes(count: int) -> None:
    if not count:
        raise NotApplicableError("the layout writes nothing through the given store")
