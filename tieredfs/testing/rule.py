"""One rule of the contract: how it is checked, and how a violation is reported.

The rules are in the modules beside this one, by what they are about, such as
``listing`` and ``reading``. A function there with the decorator ``rule``, and its name
in the module's ``__all__``, is all that a rule takes: ``CHECKS`` has it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

from tieredfs.errors import NotFoundError
from tieredfs.model import SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability, RemoteStorageManager
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
    "rule",
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
    """

    __name__: str
    needs: frozenset[Capability]

    def __call__(
        self, make_storage: MakeStorage, store: ObjectStore | None = None
    ) -> None:
        """Check the rule; return if it holds.

        Args:
            make_storage: Makes the plugin's storage over a store.
            store: An empty store that only this call uses; None for one in memory.

        Raises:
            AssertionError: The rule is broken; the message is the rule, and how.
        """


class Case:
    """A plugin and a store to check it with.

    Attributes:
        store: Empty at first, except for a layout that is read only.
        storage: The plugin over it.
    """

    def __init__(self, make_storage: MakeStorage, store: ObjectStore) -> None:
        """Make the storage."""
        self._make = make_storage
        self.store = store
        self.storage = make_storage(store)

    def another(self, store: ObjectStore | None = None) -> RemoteStorageManager:
        """Return an independent storage over the same objects."""
        return self._make(self.store if store is None else store)

    def can(self, *capabilities: Capability) -> bool:
        """Return whether the storage has all of these capabilities."""
        return self.storage.capabilities >= set(capabilities)

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


def rule(*needs: Capability) -> Callable[[Callable[[Case], None]], Check]:
    """Turn a function into a check; the first line of its docstring is the rule.

    Args:
        needs: The capabilities that the rule needs.
    """

    def make(ask: Callable[[Case], None]) -> Check:
        said = (ask.__doc__ or ask.__name__).strip().partition("\n")[0]

        @wraps(ask)
        def check(make_storage: MakeStorage, store: ObjectStore | None = None) -> None:
            with scratch_store() as scratch, _telling(said):
                case = Case(make_storage, scratch if store is None else store)
                if case.can(*needs):
                    ask(case)

        made = cast("Check", check)
        made.needs = frozenset(needs)
        return made

    return make


def checks_in(module: ModuleType) -> Iterator[Check]:
    """Yield the checks that a module defines, in its order."""
    for found in vars(module).values():
        if isinstance(found, Check) and found.__module__ == module.__name__:
            yield found


def require(condition: bool, sentence: str) -> None:  # noqa: FBT001 - reads as assert
    """Raise AssertionError with a sentence unless a condition holds."""
    if not condition:
        raise AssertionError(sentence)


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
    except Exception as error:
        raise AssertionError(f"{said} A call raised {error!r}") from error
