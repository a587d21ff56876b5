"""A plugin, and the store that a rule tests it with."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from tieredfs.errors import NotFoundError, UnsupportedOperationError
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.applicability import NotApplicableError
from tieredfs.testing.faults import Effect, FaultPlan, FaultyStore, StoreFault
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.reads import Asked, every_read
from tieredfs.testing.requirement import expect_error, require
from tieredfs.testing.samples import PARTITIONS, Sample, all_samples, sample
from tieredfs.testing.stores import WRITES, WatchedStore

__all__ = ["Asked", "Case", "MakeStorage"]

MakeStorage = Callable[[ObjectStore], RemoteStorageManager]
"""Creates a new storage over the given store on each call. If the layout is read only,
it puts segments into an empty store, so that there is something to read."""

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

    def keys_of(self, listed: SegmentMetadata) -> list[str]:
        """Return the keys of the objects that are read for a segment.

        They are all keys, if the layout reads nothing through the given store.
        """
        store = FaultyStore.over(self.store)
        storage = self.another(store)
        store.follow()
        for call in every_read(storage, listed).values():
            with suppress(NotFoundError):
                call()
        read = {request.key for request in store.requests}
        keys = self.stored_keys()
        return sorted(keys & read or keys)

    def raw_get(self, key: str) -> bytes:
        """Return an object as it is stored."""
        return self._raw.raw_get(self.store, key)

    def raw_put(self, key: str, data: bytes) -> None:
        """Store or replace an object behind the plugin's back."""
        self._raw.raw_put(self.store, key, data)

    def raw_delete(self, key: str) -> None:
        """Delete an object behind the plugin's back."""
        self._raw.raw_delete(self.store, [key])

    def raw_objects(self) -> dict[str, bytes]:
        """Return all stored objects by their keys."""
        return {key: self.raw_get(key) for key in self.raw_keys()}

    def raw_restore(self, objects: Mapping[str, bytes]) -> None:
        """Let exactly these objects be stored, behind the plugin's back."""
        for key in self.raw_keys() - objects.keys():
            self.raw_delete(key)
        for key, content in objects.items():
            self.raw_put(key, content)

    def fill(self) -> list[Sample]:
        """Copy the samples, the last first, and return them in order."""
        samples = all_samples()
        for one in reversed(samples):
            self.storage.copy_log_segment(one.metadata, one.data)
        return samples

    def listed(self, sample: Sample) -> SegmentMetadata:
        """Return the metadata of a sample as it is listed."""
        for found in self.storage.list_segments(sample.metadata.partition):
            if (found.start_offset, found.id) == sample.identity:
                return found
        raise AssertionError(f"{sample.metadata} was copied and is not listed.")

    def only(
        self, storage: RemoteStorageManager, partition: TopicIdPartition
    ) -> SegmentMetadata:
        """Return the segment of a partition that has one."""
        found = storage.list_segments(partition)
        require(len(found) == 1, f"Of one segment {partition} lists {found}.")
        return found[0]

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
        self, effect: Effect, meanwhile: Callable[[int], object] = lambda _: None
    ) -> Iterator[tuple[int, RemoteStorageManager]]:
        """Yield a storage for each request of a call; with it, that request fails.

        As ``failing_writes``, for reads too; a call may also send no request.

        Args:
            effect: What happens to the request.
            meanwhile: As ``failing_writes`` takes it.
        """
        yield from self._failing(effect, meanwhile, of_writes=False)

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

    def interrupted(self) -> Iterator[tuple[str, RemoteStorageManager]]:
        """Yield a storage for each way in which a call can end in its middle.

        The same call has to be made with each of them. The store fails from one write
        on, which is executed or not; or one write fails, which executes one of its keys
        if it is a deletion.

        Yields:
            How it ends, as what follows "A copy" in a sentence; and the storage.

        Raises:
            NotApplicableError: The call makes no write through the given store.
            AssertionError: It makes so many that not all of them were tried.
        """
        for is_landed, when in ((False, "at"), (True, "after")):
            for at, storage in self.failing_from(is_landed=is_landed):
                yield f"failed {when} write {at + 1}", storage
        for at in _numbers():
            for key in _numbers():
                store = FaultyStore.over(self.store)
                storage = self.another(store)
                cut = StoreFault(Effect.CUT, at, of_writes=True, key=key)
                store.follow(FaultPlan((cut,)))
                part = f"at most key {key + 1} of it was executed"
                yield f"was cut in write {at + 1} ({part})", storage
                keys = [one.keys for one in store.requests if one.effect]
                if not keys:
                    return
                if key + 1 >= keys[0]:
                    break

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

    def can_append(self) -> bool:
        """Return whether the layout can be appended to; then one segment is there.

        It is the first one of the second partition.
        """
        one = sample(PARTITIONS[1], 0)
        before = self.raw_keys()
        try:
            self.another().append_log_segment(one.metadata, one.data)
        except UnsupportedOperationError:
            left = sorted(self.raw_keys() - before)
            require(not left, f"An append was refused, and it has stored {left}.")
            return False
        return True

    def require_refusal(
        self, call: Callable[[], object], error: type[Exception], said: str
    ) -> None:
        """Make a call that must raise an error of ours, and store nothing.

        Args:
            call: What is called.
            error: The class that must be raised.
            said: What was called, as the beginning of a sentence.
        """
        before = self.raw_keys()
        expect_error(call, error, said)
        found = sorted(self.raw_keys() - before)
        require(not found, f"{said} was refused, and it has stored {found}.")

    def all_listed(self, storage: RemoteStorageManager) -> list[SegmentMetadata]:
        """Return every segment that a storage lists.

        A store may list the folder of a partition whose segments are all gone.
        """
        found: list[SegmentMetadata] = []
        for partition in storage.list_partitions():
            with suppress(NotFoundError):
                found += storage.list_segments(partition)
        return found

    def one_segment(self) -> SegmentMetadata:
        """Return a segment as it is listed, which has every index if it was copied.

        Of a layout that is read only it is a small one.
        """
        if not self.can(Capability.WRITE):
            return min(self.segments(), key=lambda listed: listed.size or 0)
        one = sample(PARTITIONS[0], 1)
        self.storage.copy_log_segment(one.metadata, one.data)
        return self.listed(one)

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
