"""What the steps of a machine share: two handles, and what the store has to hold."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from tieredfs.errors import NotFoundError
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.faults import (
    FAILURES,
    NO_FAULTS,
    STORE_ERRORS,
    CrashError,
    FaultPlan,
    FaultyStore,
)
from tieredfs.testing.plugin_machine.limited_search import Search
from tieredfs.testing.plugin_machine.model import SegmentName, StorageModel, name_of
from tieredfs.testing.plugin_machine.pool import NAMESAKES
from tieredfs.testing.plugin_machine.promise import Promise, keep
from tieredfs.testing.plugin_machine.reading_back import keep_whole
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.rule import MakeStorage
from tieredfs.testing.samples import Sample
from tieredfs.testing.stores import OpenStore

__all__ = [
    "Handle",
    "PluginState",
    "Setup",
    "can_write",
    "found",
    "has_segments",
    "run_concurrently",
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Setup:
    """What a machine is made of.

    Attributes:
        make_storage: Makes the plugin's storage over a store.
        open_store: Opens a store without objects, and removes it afterwards.
        search: What the machine takes part in.
        crowd: Segments of the largest partition.
    """

    make_storage: MakeStorage
    open_store: OpenStore
    search: Search
    crowd: int


@dataclass(frozen=True, slots=True)
class Handle:
    """A storage as one process has it.

    Attributes:
        storage: The storage.
        store: What it is made over; its requests fail as planned.
    """

    storage: RemoteStorageManager
    store: FaultyStore


def can_write(machine: "PluginState") -> bool:
    """Return whether the layout can be written."""
    return Capability.WRITE in machine.capabilities


def has_segments(machine: "PluginState") -> bool:
    """Return whether there is a segment that every reader sees."""
    return bool(machine.model.whole)


class PluginState(RuleBasedStateMachine):
    """Two handles on one store, and the model of what it holds; it has no steps.

    Attributes:
        search: What the machine takes part in.
        steps: The steps so far.
        is_outage_ignored: Whether the current step went on as if no request had failed.
        model: What the storage has to hold.
        handles: The two storages that take turns.
        capabilities: Those of the layout.
        pool: The segments that the steps are about.
        partitions: The partitions that the steps are about.
        listed: Each segment as it was last listed.
        custom: What the first copy of each segment has returned.
    """

    setup: ClassVar[Setup]
    steps: list[Step]

    def __init__(self) -> None:
        """Begin with an empty store."""
        super().__init__()
        self._opened = ExitStack()
        self._store = self._opened.enter_context(self.setup.open_store())
        self.search = self.setup.search
        self.steps = []
        self.is_outage_ignored = False
        self.model = StorageModel()
        self.listed: dict[SegmentName, SegmentMetadata] = {}
        self.custom: dict[SegmentName, bytes] = {}
        self.handles = [self.open_handle(), self.open_handle()]
        self.capabilities = self.handles[0].storage.capabilities
        self.pool: list[Sample] = []
        self.partitions = [*NAMESAKES]

    def teardown(self) -> None:
        """Remove the store."""
        self._opened.close()

    def check(self) -> None:
        """List and read all with a storage that is new, and list with an older one."""
        fresh = self.open_handle().storage
        self._check_listings(fresh, is_over=True)
        for name, one in self.model.whole.items():
            keep_whole(fresh, self.listed[name], one)
        # One that has been there for longer, and may remember what is no longer so.
        older = self.handles[len(self.steps) % len(self.handles)].storage
        for partition in self.partitions:
            listed = found(partial(older.list_segments, partition))
            self.model.check_segments(partition, listed)

    def check_clean(self, partition: TopicIdPartition) -> None:
        """Require that a new storage finds no leftovers in a partition."""
        left = list(self.open_handle().storage.scrub(partition))
        keep(
            Promise.LEFTOVERS_ARE_REMOVED,
            not left,
            f"all was removed, and scrub of {partition} found {left}",
        )

    def open_handle(self) -> Handle:
        """Return a new storage over the same store, as another process opens it."""
        store = FaultyStore.over(self._store, during_pause=self._during_call)
        return Handle(self.setup.make_storage(store), store)

    def try_call(
        self, handle: int, faults: FaultPlan, call: Callable[[], _T]
    ) -> tuple[_T] | None:
        """Make a call of a handle while its requests fail as planned.

        After a crash the handle is a new one.

        Returns:
            What it returned; None if it failed because of the faults.

        Raises:
            AssertionError: It failed for want of the store, and no request did.
        """
        # Each call may take as long as a step: a step makes up to a thousand.
        self.search.failures.current = tuple(self.steps)
        store = self.handles[handle].store
        store.follow(faults)
        try:
            returned = (call(),)
            self._note_outage(store)
        except CrashError:
            self.handles[handle] = self.open_handle()
        except STORE_ERRORS as error:
            if not any(request.effect for request in store.requests):
                raise AssertionError(f"without a fault it raised {error!r}") from error
        except Exception:
            self._note_outage(store)
            raise
        else:
            return returned
        finally:
            store.follow(NO_FAULTS)
        return None

    def act_meanwhile(self, storage: RemoteStorageManager) -> None:
        """List everything in the middle of a call, as a third process.

        Args:
            storage: That of the third process.
        """
        self._check_listings(storage, is_over=False)

    def partition(self, number: int) -> TopicIdPartition:
        """Return a partition by its number, which is taken modulo their count."""
        return self.partitions[number % len(self.partitions)]

    def whole(self, number: int) -> Sample:
        """Return a whole segment by its number, which is taken modulo their count."""
        ones = [*self.model.whole.values()]
        return ones[number % len(ones)]

    def known(self, one: Sample) -> SegmentMetadata:
        """Return a segment's metadata, as it was last listed if it was."""
        return self.listed.get(name_of(one.metadata), one.metadata)

    def _during_call(self) -> None:
        self.act_meanwhile(self.open_handle().storage)

    def _note_outage(self, store: FaultyStore) -> None:
        """Note whether a call went on though a request of it had failed."""
        if any(request.effect in FAILURES for request in store.requests):
            self.is_outage_ignored = True

    def _check_listings(self, storage: RemoteStorageManager, *, is_over: bool) -> None:
        """List everything; while a call is made, what is unknown stays unknown."""
        listed_partitions = storage.list_partitions()
        self.model.check_partitions(listed_partitions)
        names = [*self.model.whole, *self.model.unknown]
        for partition in {
            *listed_partitions,
            *self.partitions,
            *(name.partition for name in names),
        }:
            listed = found(partial(storage.list_segments, partition))
            self.model.check_segments(partition, listed)
            for metadata in listed or ():
                name = name_of(metadata)
                self.listed[name] = metadata
                if name in self.model.unknown:
                    # Another thread of the call may have deleted it since.
                    gone = () if is_over else (NotFoundError,)
                    with suppress(*gone):
                        keep_whole(storage, metadata, self.model.unknown[name])
            if is_over:
                self.model.observe(partition, listed)


def found(call: Callable[[], _T]) -> _T | None:
    """Return what a call returns; None for NotFoundError."""
    try:
        return call()
    except NotFoundError:
        return None


def run_concurrently(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """Make calls in a thread each, and return their results."""
    with DaemonExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
