"""Object stores to check plugins with: empty ones, and ones that are watched."""

import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from tieredfs.errors import StorageUnavailableError
from tieredfs.model import ByteRange
from tieredfs.objects import Content, ObjectInfo, ObjectStore, RequestPolicy

__all__ = [
    "READS",
    "WRITES",
    "InterceptedStore",
    "OpenStore",
    "WatchedStore",
    "scratch_store",
]

_T = TypeVar("_T")

READS: Final = frozenset({"get", "get_range", "get_ranges", "head", "list"})
WRITES: Final = frozenset({"put", "put_new", "put_file", "copy", "delete"})

OpenStore = Callable[[], AbstractContextManager[ObjectStore]]
"""Opens a store without objects, and removes it afterwards."""

_numbers = itertools.count()


@contextmanager
def scratch_store() -> Iterator[ObjectStore]:
    """Yield an empty store in memory, and delete its objects afterwards."""
    store = ObjectStore(f"memory://tieredfs-testing/{os.getpid()}/{next(_numbers)}")
    try:
        yield store
    finally:
        store.delete([entry.key for entry in store.list()])


class InterceptedStore(ObjectStore):
    """The same objects, where each request passes through ``_send`` of a subclass.

    Views under another policy share what the subclass keeps.
    """

    @classmethod
    def _onto(cls, store: ObjectStore) -> Self:
        """Return another store over the objects of ``store``, on its connections."""
        made = cls.__new__(cls)
        vars(made).update(vars(store))
        return made

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        """Send a request.

        Args:
            verb: The method of the store.
            keys: Its keys, or the prefix of a listing.
            execute: Sends it to the objects.
        """
        raise NotImplementedError(f"{verb} {keys} {execute}")

    def get(self, key: str) -> memoryview:
        """Return the whole object."""
        return self._send("get", [key], partial(super().get, key))

    def get_range(self, key: str, start: int, end: int) -> memoryview:
        """Return the bytes ``[start, end)`` of an object; none without a request."""
        get = partial(super().get_range, key, start, end)
        return get() if start == end else self._send("get_range", [key], get)

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Return several ranges of one object; empty ones without a request."""
        get = partial(super().get_ranges, key, ranges)
        return self._send("get_ranges", [key], get) if any(ranges) else get()

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version."""
        return self._send("head", [key], partial(super().head, key))

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``."""
        ask = partial(super().list, prefix, start_after=start_after)
        return self._send("list", [prefix], partial(ask, delimiter=delimiter))

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        """Store an object."""
        self._send("put", [key], partial(super().put, key, data, overwrite=overwrite))

    def put_new(self, prefix: str, data: bytes | bytearray | memoryview) -> str:
        """Store an object under a key that no other write has."""
        return self._send("put_new", [prefix], partial(super().put_new, prefix, data))

    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        """Store an object from a local file."""
        put = partial(super().put_file, key, source, overwrite=overwrite)
        self._send("put_file", [key], put)

    def copy(self, source: str, target: str) -> None:
        """Copy one object to another key."""
        self._send("copy", [target], partial(super().copy, source, target))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; without a key no request is sent."""
        wanted = sorted(keys)
        if wanted:
            self._send("delete", wanted, partial(super().delete, wanted))


class WatchedStore(InterceptedStore):
    """The same objects, where calls of some verbs are counted and can be made to fail.

    Calls of views under another policy are counted and fail as well.

    Attributes:
        verbs: The counted verbs.
        calls: Number of counted calls.
        received: Bytes of objects that counted calls have returned.
        policies: The policies that counted calls were made under.
        limit: How many calls succeed before all others fail; None for all of them.
        is_landed: Whether the first call that fails is executed nevertheless.
    """

    verbs: frozenset[str]
    calls: int
    received: int
    policies: set[RequestPolicy]
    limit: int | None
    is_landed: bool

    @classmethod
    def over(
        cls,
        store: ObjectStore,
        verbs: Collection[str],
        *,
        limit: int | None = None,
        is_landed: bool = False,
    ) -> Self:
        """Return another store over the objects of ``store``, on its connections."""
        made = cls._onto(store)
        made.verbs = frozenset(verbs)
        made.calls = 0
        made.received = 0
        made.policies = set()
        made.limit = limit
        made.is_landed = is_landed
        made._lock = threading.Lock()  # noqa: SLF001 - of this class
        made._watched = made  # noqa: SLF001 - of this class
        return made

    _lock: threading.Lock
    _watched: Self

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        watched = self._watched  # of a view, the original store
        if verb not in watched.verbs:
            return execute()
        with self._lock:
            before, watched.calls = watched.calls, watched.calls + 1
            watched.policies.add(self.policy)
        if watched.limit is None or before < watched.limit:
            answer = execute()
            with self._lock:
                watched.received += _size(answer)
            return answer
        if watched.is_landed and before == watched.limit:
            execute()
        raise StorageUnavailableError(
            f"{verb} {self.url}/{keys[0]}: a fault was injected"
        )


def _size(answer: object) -> int:
    """Return how many bytes of objects an answer has."""
    pieces = answer if isinstance(answer, list) else [answer]
    return sum(piece.nbytes for piece in pieces if isinstance(piece, memoryview))
