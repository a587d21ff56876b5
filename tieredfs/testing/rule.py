"""One rule of the contract: how it is checked, and how a violation is reported.

The rules are in the modules beside this one, by what they are about, such as
``listing`` and ``reading``. A function there with the decorator ``rule``, and its name
in the module's ``__all__``, is all that a rule takes: ``CHECKS`` has it.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

from tieredfs.errors import NotFoundError, TieredFSError
from tieredfs.model import SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.faults import (
    CrashError,
    Effect,
    FaultPlan,
    FaultyStore,
    StoreFault,
)
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.samples import Sample, all_samples
from tieredfs.testing.stores import scratch_store

__all__ = [
    "Asked",
    "Case",
    "Check",
    "MakeStorage",
    "checks_in",
    "expect_error",
    "require",
    "require_whole",
    "rule",
    "why_not_applicable",
]

MakeStorage = Callable[[ObjectStore], RemoteStorageManager]
"""Creates a new storage over the given store on each call. If the layout is read only,
it puts segments into an empty store, so that there is something to read."""


Asked = dict[str, Callable[[], object]]
"""Calls to make, by their descriptions."""


@runtime_checkable
class Check(Protocol):
    """A rule of the contract, to be checked for a plugin.

    Attributes:
        needs: The capabilities that the rule needs; without them it passes.
        excludes: Those with which it passes, as it is about layouts without them.
    """

    __name__: str
    needs: frozenset[Capability]
    excludes: frozenset[Capability]

    def __call__(
        self,
        make_storage: MakeStorage,
        store: ObjectStore | None = None,
        raw: RawAccess | None = None,
    ) -> None:
        """Check the rule; return if it holds.

        Args:
            make_storage: Makes the plugin's storage over a store.
            store: An empty store that only this call uses; None for one in memory.
            raw: Reaches the stored objects; None for through the store.

        Raises:
            AssertionError: The rule is broken; the message is the rule, and how.
        """


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

    def another(self, store: ObjectStore | None = None) -> RemoteStorageManager:
        """Return an independent storage over the same objects."""
        return self._make(self.store if store is None else store)

    def can(self, *capabilities: Capability) -> bool:
        """Return whether the storage has all of these capabilities."""
        return self.storage.capabilities >= set(capabilities)

    def raw_keys(self) -> set[str]:
        """Return the keys of all objects that are stored, whatever the plugin says."""
        return set(self._raw.raw_keys(self.store))

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

    def dies_copying(self, sample: Sample, effect: Effect, at: int) -> bool:
        """Copy a sample in a process that dies; return whether it made that write.

        Args:
            sample: What is copied.
            effect: One of ``CRASHES``.
            at: Number of the write at which the process dies, from 0.
        """
        plan = FaultPlan((StoreFault(effect, at, of_writes=True),))
        storage = self.another(FaultyStore.over(self.store, plan))
        try:
            storage.copy_log_segment(sample.metadata, sample.data)
        except CrashError:
            return True
        return False

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
        require(bool(found), "there is no segment to ask about")
        return found


def rule(
    *needs: Capability, excludes: Collection[Capability] = ()
) -> Callable[[Callable[[Case], None]], Check]:
    """Turn a function into a check; the first line of its docstring is the rule.

    Args:
        needs: The capabilities that the rule needs.
        excludes: Those that a layout must not have for the rule to apply.
    """

    def make(ask: Callable[[Case], None]) -> Check:
        said = (ask.__doc__ or ask.__name__).strip().partition("\n")[0]

        @wraps(ask)
        def check(
            make_storage: MakeStorage,
            store: ObjectStore | None = None,
            raw: RawAccess | None = None,
        ) -> None:
            with scratch_store() as scratch, _telling(said):
                used = scratch if store is None else store
                case = Case(make_storage, used, RawAccess() if raw is None else raw)
                if not why_not_applicable(made, case.storage.capabilities):
                    ask(case)

        made = cast("Check", check)
        made.needs = frozenset(needs)
        made.excludes = frozenset(excludes)
        return made

    return make


def why_not_applicable(check: Check, capabilities: Collection[Capability]) -> str:
    """Return why a rule does not apply to a layout; an empty text if it does.

    Args:
        check: The rule.
        capabilities: Those of the layout.
    """
    missing = sorted(one.name for one in check.needs - set(capabilities))
    if missing:
        return f"the layout does not have {' and '.join(missing)}"
    present = sorted(one.name for one in check.excludes & set(capabilities))
    return f"the layout has {' and '.join(present)}" if present else ""


def checks_in(module: ModuleType) -> Iterator[Check]:
    """Yield the checks that a module defines, in its order."""
    for found in vars(module).values():
        if isinstance(found, Check) and found.__module__ == module.__name__:
            yield found


def require(condition: bool, sentence: str) -> None:  # noqa: FBT001 - reads as assert
    """Raise AssertionError with a sentence unless a condition holds."""
    if not condition:
        raise AssertionError(sentence)


def require_whole(
    storage: RemoteStorageManager, listed: SegmentMetadata, one: Sample, where: str = ""
) -> None:
    """Require that a segment is, to the byte, the sample that was copied.

    Args:
        storage: What reads it.
        listed: The segment as it was listed.
        one: The sample.
        where: What happened before, as the beginning of the sentence.
    """
    try:
        described = storage.describe(listed)
        log = storage.fetch_log_segment(listed)
        indexes = storage.fetch_all_indexes(listed)
    except TieredFSError as error:
        said = f"{where} {listed} is listed, and reading it raised {error!r}.".strip()
        raise AssertionError(said) from error
    found = replace(described, version="", custom_metadata=b"")
    require(
        found == one.described,
        f"{where} Copied was {one.described}, described is {found}.".strip(),
    )
    require(
        log == one.log,
        f"{where} The log of {one.metadata} has other bytes: {len(log)} came, "
        f"{len(one.log)} were copied.".strip(),
    )
    for kind, content in one.data.indexes.items():
        require(
            kind in indexes and indexes[kind] == content,
            f"{where} {kind} of {one.metadata} is not the one that was copied.".strip(),
        )


def expect_error(
    call: Callable[[], object], error: type[Exception], sentence: str
) -> None:
    """Make a call that must raise an error of ours.

    Args:
        call: What is called.
        error: The class that must be raised.
        sentence: What was called, as the beginning of a sentence.
    """
    try:
        answer = call()
    except error:
        return
    except Exception as other:
        said = f"{sentence} raised {other!r}, not {error.__name__}"
        raise AssertionError(said) from other
    raise AssertionError(f"{sentence} returned {answer!r}, not {error.__name__}")


@contextmanager
def _telling(said: str) -> Iterator[None]:
    """Prefix an AssertionError with the rule."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{said} {error}") from error.__cause__
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is no Exception, nor is an exit
        raise AssertionError(f"{said} A call raised {error!r}") from error
