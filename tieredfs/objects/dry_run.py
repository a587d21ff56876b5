"""An object store that records the writes it is asked for, and performs none."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from heapq import merge
from operator import attrgetter
from typing import NoReturn, Self

from tieredfs.errors import (
    AlreadyExistsError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.objects.backends import Listing, ObjectInfo
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content
from tieredfs.objects.keys import check_key, check_keys, check_target
from tieredfs.objects.policy import Deadline, RequestPolicy
from tieredfs.objects.request import Requests
from tieredfs.objects.store import ObjectStore
from tieredfs.objects.write.new_key import new_key

__all__ = ["DryRunStore"]


class DryRunStore(ObjectStore):
    """A view of another store that shows the effect of writes without making them.

    A write passes every check of a real write. Its object is then listed, with its
    size; its content is not kept. No request changes the store: a verb that this class
    does not override cannot write either.
    """

    _changes: "_Changes"

    @classmethod
    def over(cls, store: ObjectStore) -> Self:
        """Return a store over the objects of ``store``, on its connections."""
        made = cls.__new__(cls)
        vars(made).update(vars(store))
        vars(made).update(
            _requests=_ReadingRequests.like(made._requests),  # noqa: SLF001 - of this class
            _changes=_Changes(),
        )
        return made

    @property
    def identity(self) -> str:
        """A text that differs from the store's own identity, so caches stay apart."""
        return f"{super().identity}\0dry run"

    def probe_capabilities(self) -> frozenset[StoreCapability]:
        """Return what the store can do, as far as that is known without a write.

        Raises:
            TieredFSError: The store cannot be reached.
        """
        return self._requests.backend("probe_capabilities", "").capabilities

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return a dry-run view of this store under another policy."""
        view = type(self).over(super().with_policy(policy))
        vars(view).update(_changes=self._changes)
        return view

    def copy(self, source: str, target: str) -> None:
        """Record a copy.

        Raises:
            NotFoundError: There is no object ``source``.
            InvalidArgumentError: A key is invalid, or ``target`` is reserved.
            UnsupportedOperationError: The store is read-only.
        """
        check_key(source)
        check_target(target)
        self._need_write("copy", target)
        self._changes.put(target, self.head(source).size or 0)

    def head(self, key: str) -> ObjectInfo:
        """Return the size and version an object would have after the recorded writes.

        Raises:
            NotFoundError: The object would not exist.
            InvalidArgumentError: The key is invalid.
        """
        check_key(key)
        if self._changes.is_deleted(key):
            raise NotFoundError(f"not found: {self._requests.name(key)}")
        written = self._changes.of(key)
        return super().head(key) if written is None else written

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects that would exist, in key order.

        Raises:
            InvalidArgumentError: No valid key begins with ``prefix``, or ``delimiter``
                is neither ``/`` nor empty.
            NotFoundError: The container that the URL names does not exist.
            UnsupportedOperationError: The store returns pages that are not in key
                order.
        """
        there = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return self._merged(there, Listing(prefix, start_after, delimiter))

    def delete(self, keys: Iterable[str]) -> None:
        """Record the deletion of objects.

        Raises:
            InvalidArgumentError: ``keys`` is one key, not several; or one of them is
                invalid, and nothing was recorded.
            UnsupportedOperationError: The store is read-only.
        """
        wanted = check_keys(keys)
        if wanted:
            self._need_write("delete", wanted[0])
        self._changes.delete(wanted)

    def abort_uploads(self, older_than: timedelta = timedelta(days=1)) -> Sequence[str]:
        """Abort nothing."""
        del older_than
        return ()

    def _put(self, verb: str, key: str, content: Content, *, overwrite: bool) -> None:
        self._need_write(verb, key)
        if not overwrite:
            with suppress(NotFoundError):
                self.head(key)
                msg = f"{verb} {self._requests.name(key)}: the object already exists"
                raise AlreadyExistsError(msg)
        self._changes.put(key, content.size)

    def _put_new(self, prefix: str, content: Content) -> str:
        key = new_key(prefix)
        self._put("put", key, content, overwrite=True)
        return key

    def _merged(
        self, there: Iterator[ObjectInfo], listing: Listing
    ) -> Iterator[ObjectInfo]:
        """Yield what the store lists and what was written, without what is hidden."""
        written, hidden = self._changes.listed(listing.prefix)
        folded = (
            _folded(entry, listing.prefix, listing.delimiter) for entry in written
        )
        ours = {entry.key: entry for entry in folded if entry.key > listing.start_after}
        last = None
        for entry in merge(
            (entry for entry in there if not self._is_hidden(entry, hidden)),
            (ours[key] for key in sorted(ours)),
            key=attrgetter("key"),
        ):
            if entry.key != last:  # a folder may be in both
                yield entry
            last = entry.key

    def _is_hidden(self, entry: ObjectInfo, hidden: AbstractSet[str]) -> bool:
        """Return whether an entry of the store, or every key below it, is hidden."""
        if not entry.is_prefix or not any(key.startswith(entry.key) for key in hidden):
            return entry.key in hidden
        return all(below.key in hidden for below in super().list(entry.key))

    def _need_write(self, verb: str, key: str) -> None:
        """Check that the store takes objects."""
        deadline = self._requests.deadline()
        Requests.need(self._requests, StoreCapability.WRITE, verb, key, deadline)


class _Changes:
    """The recorded writes and deletions; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[str, ObjectInfo] = {}
        self._deleted: set[str] = set()

    def put(self, key: str, size: int) -> None:
        with self._lock:
            self._written[key] = ObjectInfo(key, size)
            self._deleted.discard(key)

    def delete(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._written.pop(key, None)
                self._deleted.add(key)

    def of(self, key: str) -> ObjectInfo | None:
        with self._lock:
            return self._written.get(key)

    def is_deleted(self, key: str) -> bool:
        with self._lock:
            return key in self._deleted

    def listed(self, prefix: str) -> tuple[list[ObjectInfo], set[str]]:
        """Return the entries written below a prefix, and the keys hidden in the store.

        A key of the store is hidden when it was deleted or written again.
        """
        with self._lock:
            found = [
                one for key, one in self._written.items() if key.startswith(prefix)
            ]
            return found, self._deleted | self._written.keys()


class _ReadingRequests(Requests):
    """Requests that refuse every change of the store."""

    @classmethod
    def like(cls, requests: Requests) -> Self:
        """Return requests over the same connection that refuse to write."""
        return cls(*(getattr(requests, field.name) for field in fields(requests)))

    def need(
        self,
        capability: StoreCapability,
        verb: str,
        key: str,
        deadline: Deadline,
    ) -> NoReturn:
        """Refuse the call: only writes need a capability."""
        del capability, deadline
        msg = f"{verb} {self.name(key)}: nothing is written in a dry run"
        raise UnsupportedOperationError(msg)


def _folded(entry: ObjectInfo, prefix: str, delimiter: str) -> ObjectInfo:
    """Return an entry as a listing gives it: its folder when keys are folded."""
    folder, found, _ = entry.key[len(prefix) :].partition(delimiter or "\0")
    return ObjectInfo(f"{prefix}{folder}/", None) if found else entry
