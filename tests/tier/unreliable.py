"""An object store in memory whose requests fail, die or are overtaken on command."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from fsspec.implementations.memory import MemoryFileSystem

from tieredfs import ObjectStore, RequestPolicy
from tieredfs.objects.backends.listing import Listing, ObjectInfo, Page
from tieredfs.objects.backends.memory import MemoryBackend
from tieredfs.objects.content import Content

__all__ = ["DeadError", "Fault", "Place", "Trouble", "UnreliableBackend"]

_T = TypeVar("_T")

_PATIENCE = RequestPolicy(attempts=2, backoff=0, max_backoff=0)


class Trouble(Enum):
    """What happens at a request."""

    REFUSED = auto()
    """It is never sent; the next one is."""

    LOST_REQUEST = auto()
    """The connection breaks before it is done."""

    LOST_REPLY = auto()
    """The connection breaks after it was done."""

    DOWN = auto()
    """It is not done, and no later one is."""

    DOWN_AFTERWARDS = auto()
    """It is done, its reply is lost, and no later one is done."""

    DEAD = auto()
    """The process dies before it."""

    DEAD_AFTERWARDS = auto()
    """The process dies when it was done."""

    OVERTAKEN = auto()
    """Another process comes first."""


_DONE = {Trouble.LOST_REPLY, Trouble.DOWN_AFTERWARDS, Trouble.DEAD_AFTERWARDS}


@dataclass(frozen=True, slots=True)
class Fault:
    """One trouble in the requests of an operation.

    Attributes:
        at: The number of the request; 0 is the first.
        trouble: What happens there.
    """

    at: int
    trouble: Trouble


class DeadError(Exception):
    """The process has died."""


class Place:
    """A store of a test's own; it is forgotten with its last reference.

    Attributes:
        url: What it is opened by; nothing else has it.
        filesystem: Where its objects are.
    """

    def __init__(self, name: str) -> None:
        """Begin with no object."""
        self.url = f"memory://{name}"
        self.filesystem = MemoryFileSystem(skip_instance_cache=True)
        self.filesystem.store = {}  # otherwise that of the whole process
        self.filesystem.pseudo_dirs = [""]

    def open(self) -> "tuple[ObjectStore, UnreliableBackend]":
        """Open it as another process would, and return what breaks its connection."""
        store = ObjectStore(self.url, policy=_PATIENCE)
        root = self.url.removeprefix("memory:/")
        backend = UnreliableBackend(self.filesystem, root)
        store._requests.connection._made = backend
        return store, backend


class UnreliableBackend(MemoryBackend):
    """The connection of one process.

    Attributes:
        has_failed: Whether the fault has come about.
    """

    def __init__(self, filesystem: MemoryFileSystem, root: str) -> None:
        """Fail nothing yet."""
        super().__init__(filesystem, root)
        self.calm()

    def expect(self, fault: Fault | None, overtake: Callable[[], object]) -> None:
        """Count requests from now on, and fail as told.

        Args:
            fault: Which one fails, and how.
            overtake: What another process does at an OVERTAKEN request.
        """
        self._fault, self._overtake = fault, overtake
        self._requests = 0
        self._is_down = self._is_dead = self.has_failed = False

    def calm(self) -> None:
        """Fail no more."""
        self.expect(None, lambda: None)

    def get(self, key: str, timeout: float) -> bytes | memoryview:
        """Return a whole object."""
        return self._make(partial(super().get, key, timeout))

    def get_range(
        self, key: str, start: int, end: int, timeout: float
    ) -> bytes | memoryview:
        """Return a range of an object."""
        return self._make(partial(super().get_range, key, start, end, timeout))

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Make an object appear."""
        put = partial(super().put, key, content, timeout, overwrite=overwrite)
        self._make(put)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Make one object what another one is."""
        # It puts as well: that is no request of its own.
        self._make(partial(self._copy, source, target, timeout))

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return an object's size and version."""
        return self._make(partial(super().head, key, timeout))

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Return a page of a listing."""
        return self._make(partial(super().page, listing, at, timeout))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Delete objects."""
        return self._make(partial(super().delete, keys, timeout))

    def _copy(self, source: str, target: str, timeout: float) -> None:
        del timeout
        content = self._file(source).getvalue()
        self.filesystem.pipe_file(self.path(target), content)

    def _make(self, request: Callable[[], _T]) -> _T:
        number, self._requests = self._requests, self._requests + 1
        if self._is_dead:
            raise DeadError
        if self._is_down:
            raise ConnectionResetError
        fault = self._fault
        if fault is None or fault.at != number:
            return request()
        self.has_failed = True
        trouble = fault.trouble
        self._is_down = trouble in {Trouble.DOWN, Trouble.DOWN_AFTERWARDS}
        self._is_dead = trouble in {Trouble.DEAD, Trouble.DEAD_AFTERWARDS}
        if trouble is Trouble.OVERTAKEN:
            self._overtake()
            return request()
        if trouble in _DONE:
            request()
        if self._is_dead:
            raise DeadError
        refused = trouble is Trouble.REFUSED
        raise ConnectionRefusedError if refused else ConnectionResetError
