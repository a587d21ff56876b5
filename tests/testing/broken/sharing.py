"""Plugins that are created, pickled, shared or closed in a wrong way."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Self

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RequestObserver,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource

__all__ = ["BROKEN", "SharesOneSlot"]


class AsksAtOnce(Native):
    """Looks into the store while it is created."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        list(store.list())


class HoldsALock(Native):
    """Has an attribute that cannot be pickled."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.lock = threading.Lock()


class ComesBackAsAnother(Native):
    """Comes back from a pickle as another class."""

    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return StorageWrapper, (self.inner,)


class LosesWhatItWritesWith(SingleObject):
    """Comes back from a pickle without what it needs to copy."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.broker = 1

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "broker"}

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        assert self.broker
        return super().copy_log_segment(metadata, data)


class IsAnotherWhenItComesBack(SingleObject):
    """Has another identity after it was pickled."""

    @property
    @override
    def identity(self) -> str:
        return f"{super().identity} {id(self.store)}" if self.back else super().identity

    back = False

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.back = True


class ListsInOnePlace(KafkaLocal):
    """Keeps what it is asked to list in one place, whichever thread asks."""

    wanted: TopicIdPartition

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        self.wanted = partition
        next(self.store.list(delimiter="/"), None)
        return super().list_segments(self.wanted, min_offset)


class WritesByItsFirstClient(SingleObject):
    """Copies with what it was built with, in a view too."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.client = SingleObject(store)

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        return self.client.copy_open_log(metadata, log, indexes)


class BelongsToAThread(Native):
    """Serves only the thread that created it."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.thread = threading.get_ident()

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        if threading.get_ident() != self.thread:
            raise RuntimeError("this is not my thread")
        return super().fetch_all_indexes(metadata)


class SharesOneSlot(KafkaLocal):
    """Keeps what it is asked for in one place, whichever thread asks."""

    asked: SegmentMetadata

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        self.asked = metadata
        found: dict[IndexType, memoryview] = {}
        for kind in IndexType:
            with suppress(NotFoundError):
                found[kind] = self.fetch_index(self.asked, kind)
        return SegmentIndexes(found)


class ChangesItsPolicy(Native):
    """Changes its own policy, instead of a view's."""

    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        self.inner = self.inner.with_policy(policy)
        self.store = self.inner.store
        return self


class IgnoresThePolicy(Native):
    """Ignores the policy of a view."""

    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        return self


class IsAnotherAsAView(SingleObject):
    """Takes its policy for a part of what it is."""

    @property
    @override
    def identity(self) -> str:
        return f"{super().identity} {self.store.policy}"


class KeepsItsFirstClient(SingleObject):
    """Lists by what it was built with, in a view too."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.client = SingleObject(store)

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return self.client.list_segments(partition, min_offset)


class LosesItsObserver(SingleObject):
    """Returns a view without the observer."""

    @override
    def with_observer(self, observer: RequestObserver) -> Self:
        return self.with_policy(self.store.policy)


class ClosesWithItsView(Native):
    """As one whose views are closed as the storage itself is."""

    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        view = super().with_policy(policy)
        view._view = None
        return view

    @override
    def close(self) -> None:
        self.store.delete([entry.key for entry in self.store.list()])


class ClosesTheStore(Native):
    """Deletes what is stored when it is closed."""

    @override
    def close(self) -> None:
        self.store.delete([entry.key for entry in self.store.list()])


BROKEN: Final = (
    Broken(rules.check_construction_sends_no_request, AsksAtOnce, "It made 1 calls"),
    Broken(rules.check_storage_pickles, HoldsALock, "cannot pickle"),
    Broken(rules.check_storage_pickles, ComesBackAsAnother, "as StorageWrapper"),
    Broken(rules.check_storage_pickles, LosesWhatItWritesWith, "no attribute 'broker'"),
    Broken(
        rules.check_storage_pickles,
        IsAnotherWhenItComesBack,
        "It came back with the identity",
    ),
    Broken(rules.check_threads_share_it, BelongsToAThread, "not my thread"),
    Broken(rules.check_policy_is_that_of_the_view, ChangesItsPolicy, "storage itself"),
    Broken(
        rules.check_policy_is_that_of_the_view, IgnoresThePolicy, "The view's policy"
    ),
    Broken(
        rules.check_policy_is_that_of_the_view,
        KeepsItsFirstClient,
        "A request of the view, by list_segments of .*, was sent under",
    ),
    Broken(
        rules.check_policy_is_that_of_the_view,
        WritesByItsFirstClient,
        "A request of the view, by copy_.*, was sent under",
    ),
    Broken(
        rules.check_policy_is_that_of_the_view, IsAnotherAsAView, "The view's identity"
    ),
    Broken(
        rules.check_policy_is_that_of_the_view,
        ClosesWithItsView,
        "A call raised NotFound",
    ),
    Broken(
        rules.check_observer_is_notified,
        LosesItsObserver,
        r"list_partitions of the view sent \d+ requests, and the view's observer saw 0",
    ),
    Broken(
        rules.check_close_leaves_the_store, ClosesTheStore, "A call raised NotFound"
    ),
    Broken(
        rules.check_concurrent_fetches_stay_apart,
        SharesOneSlot,
        "were read concurrently",
        bug="serves another segment's index under concurrency",
    ),
    Broken(
        rules.check_concurrent_fetches_stay_apart,
        ListsInOnePlace,
        "were looked for concurrently, and list_segments",
    ),
)
