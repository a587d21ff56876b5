"""The object store: eleven verbs, the same on every backend."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    UnsupportedOperationError,
)
from tieredfs.model import ByteRange
from tieredfs.objects.backends import (
    Backend,
    Listing,
    MultipartConfig,
    ObjectInfo,
    Page,
    UnfinishedUpload,
)
from tieredfs.objects.backends.chain import absolute
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.connection import Connection
from tieredfs.objects.content import BufferContent, Content, opened
from tieredfs.objects.identity import identity_of, is_local
from tieredfs.objects.keys import check_key, check_target, is_key, is_probe
from tieredfs.objects.observer import RequestObserver
from tieredfs.objects.pace import PACED_PART, Pace, PacedContent, tries
from tieredfs.objects.policy import RequestPolicy
from tieredfs.objects.ranges import plan_ranges
from tieredfs.objects.redact import redact_url
from tieredfs.objects.request import Call, Requests
from tieredfs.objects.write.delete import delete
from tieredfs.objects.write.exclusive import probe_conditional_put
from tieredfs.objects.write.multipart import abandon_all, abort_all, upload
from tieredfs.objects.write.new_key import Send, new_key, put_new
from tieredfs.objects.write.verified import write_verified

__all__ = ["ObjectStore"]


class ObjectStore:
    """A place for objects under keys, at any fsspec URL.

    Keys are relative to the URL, with ``/`` between their parts; no key leaves it. An
    object appears whole or not at all. Every failure is a TieredFSError that names the
    store, the key and the range; every call ends by the policy's deadline.

    A store connects when it is first used. It may be shared by threads, and pickled to
    other processes: what travels is the URL, the options as given and the policy, not
    the observer or the pace, and each process makes its own connections.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, object] | None = None,
        *,
        policy: RequestPolicy | None = None,
        observer: RequestObserver | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Describe a store; nothing is asked of it yet.

        Args:
            url: Any fsspec URL, chained ones included, or a local path. One that is
                relative is so to the working directory of this moment.
            storage_options: fsspec's own, for the filesystem of the URL.
            policy: How long and how often calls may try.
            observer: Sees every request.
            pace: The rate at which objects are sent, which several stores may share;
                the wait for it is no part of a call's deadline, and each part of a
                large object has a deadline of its own.

        Raises:
            InvalidArgumentError: The URL is empty, or relative to a folder that is not
                there.
        """
        place = os.fspath(url)
        if not place:
            raise InvalidArgumentError("the URL of a store is empty")
        self._requests = Requests(
            Connection(absolute(place), storage_options or {}),
            RequestPolicy() if policy is None else policy,
            observer,
            pace,
        )

    @property
    def url(self) -> str:
        """The URL, a local path made absolute, without any secret that was in it."""
        return redact_url(self._requests.connection.url)

    @property
    def identity(self) -> str:
        """What tells this store from others: the URL and where it leads, no secret."""
        connection = self._requests.connection
        return identity_of(connection.url, connection.options, connection.destinations)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine: on its disks, or in this process's memory."""
        return is_local(self._requests.connection.url)

    def check_thread(self) -> None:
        """Check that a call from here would not wait for the event loop that it is on.

        Each call does so by itself; one who makes calls in other threads, and waits for
        these, asks before.

        Raises:
            UnsupportedOperationError: It would; call it in a thread.
        """
        self._requests.connection.check_thread()

    @property
    def policy(self) -> RequestPolicy:
        """How long and how often calls may try."""
        return self._requests.policy

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        """What this store can do, found out by trying where there is no other way.

        Raises:
            TieredFSError: The store cannot be reached, or may not be written to.
        """
        backend = self._requests.backend("capabilities", "")
        probe_conditional_put(self._requests, backend, "", self._requests.deadline())
        return backend.capabilities

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return a view of this store, on the same connections, under ``policy``.

        It is of the same class, and has what a subclass keeps.
        """
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would connect anew, as pickle does
        view._requests = replace(self._requests, policy=policy)
        return view

    def get(self, key: str) -> memoryview:
        """Return the whole object.

        Raises:
            NotFoundError: There is none.
        """
        check_key(key)
        call = Call("get", key, lambda backend, left: backend.get(key, left), len)
        return memoryview(self._requests.make(call)).toreadonly()

    def get_range(self, key: str, start: int, end: int) -> memoryview:
        """Return the bytes ``[start, end)`` of an object, exactly.

        Args:
            key: The object's key.
            start: First byte.
            end: Byte after the last. The range must lie inside the object, whose size
                the caller knows from a listing or ``head``; an empty one asks nothing.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before ``end``.
            InvalidArgumentError: ``start`` is negative or past ``end``, or ``end`` is
                past what an object can have: 63 bits.
        """
        check_key(key)
        span = ByteRange(start, end)
        if start == end:
            return memoryview(b"")
        return self._requests.make(self._range(key, span))

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Return several ranges of one object, in the order they are given.

        Ranges that lie close together are asked for at once, the others in parallel;
        those that came in one request share its memory.

        Args:
            key: The object's key.
            ranges: As in ``get_range``; they may overlap and repeat.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before a range does.
        """
        check_key(key)
        if not any(ranges):
            return [memoryview(b"")] * len(ranges)
        deadline = self._requests.deadline()
        backend = self._requests.backend("get_ranges", key, deadline)
        plan = plan_ranges(ranges, gap=backend.gap)
        calls = [self._range(key, span) for span in plan.requests]
        found = self._requests.make_all(calls, deadline, at_once=backend.at_once)
        empty = memoryview(b"")
        return [
            empty if place is None else _cut(found[place], plan.requests[place], span)
            for span, place in zip(ranges, plan.places, strict=True)
        ]

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        """Make an object appear, whole.

        Args:
            key: The object's key.
            data: Its content: bytes, or any other buffer.
            overwrite: Whether an object that is there is replaced. If not, exactly one
                of several writers succeeds.

        Raises:
            AlreadyExistsError: There is one, and ``overwrite`` is false.
            InvalidArgumentError: ``data`` is no buffer, or the key is kept for what is
                not finished, and left out of listings.
            UnsupportedOperationError: The store takes no objects, or cannot tell who
                is first and ``overwrite`` is false.
        """
        check_target(key)
        self._put("put", key, BufferContent(data), overwrite=overwrite)

    def put_new(self, prefix: str, data: bytes | bytearray | memoryview) -> str:
        """Make an object appear, whole, under a key that no other write has.

        Each attempt has a key of its own. So one that was given up, and is done by the
        server long afterwards, brings nothing back: what it makes is an object that no
        caller knows of.

        Args:
            prefix: What the key begins with; 22 letters, digits, `-` and `_` follow.
            data: As in ``put``.

        Returns:
            The key.

        Raises:
            InvalidArgumentError: As in ``put``.
            UnsupportedOperationError: The store takes no objects.
        """
        check_target(new_key(prefix))
        return self._put_new(prefix, BufferContent(data))

    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        """Make an object appear, whole, from a local file.

        Args:
            key: The object's key.
            source: The file, or what else can be read a piece at a time, by several
                threads: an error that it raises ends the put, and nothing appears.
            overwrite: As in ``put``.

        Raises:
            AlreadyExistsError: There is one, and ``overwrite`` is false.
            NotFoundError: There is no file ``source``.
            InvalidArgumentError: ``source`` is no regular file, or becomes shorter
                while it is read; or the key, as in ``put``.
            UnsupportedOperationError: As in ``put``.
        """
        check_target(key)
        with opened(source) as content:
            self._put("put_file", key, content, overwrite=overwrite)

    def copy(self, source: str, target: str) -> None:
        """Make the object ``target`` what the object ``source`` is.

        Raises:
            NotFoundError: There is no object ``source``.
            InvalidArgumentError: The key ``target``, as in ``put``.
            UnsupportedOperationError: The store takes no objects.
        """
        check_key(source)
        check_target(target)
        self._requests.need(StoreCapability.WRITE, "copy", target)
        self._requests.make(
            Call(
                "copy", source, lambda backend, left: backend.copy(source, target, left)
            )
        )

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version.

        Raises:
            NotFoundError: There is none.
        """
        check_key(key)
        call = Call("head", key, lambda backend, left: backend.head(key, left))
        return self._requests.make(call)

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``, in the order of keys.

        Folder markers are left out, and so is what has a name that is no key. Each
        page is asked for when it is needed, and has the policy's deadline for itself.

        Args:
            prefix: What the keys begin with; it need not be a whole path component.
            start_after: Only keys after this one.
            delimiter: ``/`` to fold the keys below a folder into one entry, whose key
                ends in ``/`` and whose size is None.

        Raises:
            NotFoundError: The container that the URL names is not there. A missing
                folder is just empty.
            UnsupportedOperationError: The store gives pages in another order than that
                of keys.
        """
        if not is_key(f"{prefix}x"):
            msg = f"{self.url}: no key begins with {prefix!r}"
            raise InvalidArgumentError(msg)
        if delimiter not in {"", "/"}:
            msg = f"{self.url}: a listing folds keys at '/', not at {delimiter!r}"
            raise InvalidArgumentError(msg)
        last = start_after
        for page in self._pages(Listing(prefix, start_after, delimiter)):
            for entry in page.entries:
                key = entry.key
                if not key.startswith(prefix) or key <= start_after:
                    continue  # more may be given than was asked for
                if not is_key(key[:-1] if entry.is_prefix else key):
                    continue
                if is_probe(key):
                    continue
                if key == last:
                    continue  # rclone lists an object twice while it is replaced
                if key < last:
                    msg = f"{self.url}: the store lists {key!r} after {last!r}"
                    raise UnsupportedOperationError(msg)
                last = key
                yield entry

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is success.

        Every key is tried, whatever happens to others.

        Raises:
            InvalidArgumentError: ``keys`` is one key, not several.
            TieredFSError: Some may still be there; ``keys`` of the error tells which.
            UnsupportedOperationError: The store takes no objects, and gives none up.
        """
        if isinstance(keys, str | bytes):  # whose letters are keys, too
            msg = f"delete takes a list of keys, not one: [{keys!r}]"
            raise InvalidArgumentError(msg)
        wanted = [check_key(key) for key in dict.fromkeys(keys)]
        if wanted:
            backend = self._requests.need(StoreCapability.WRITE, "delete", wanted[0])
            delete(self._requests, wanted, backend)

    def abort_uploads(self, older_than: timedelta = timedelta(days=1)) -> Sequence[str]:
        """Remove what unfinished uploads below this store's URL have left.

        Nobody sees them, but some stores keep their parts, and charge for them, for
        ever. Nothing outside the store is touched. Every upload is tried, whatever
        happens to others.

        Args:
            older_than: Uploads that began later may still be under way, and stay.

        Returns:
            The keys that the uploads were to become, sorted.

        Raises:
            TieredFSError: Some may still be there; ``keys`` of the error tells which.
        """
        requests = self._requests
        deadline = requests.deadline()
        before = datetime.now(UTC) - older_than

        def find(backend: Backend, left: float) -> Sequence[UnfinishedUpload]:
            return backend.unfinished(before, left)

        found = requests.make(Call("list_uploads", "", find), deadline)
        abort_all(requests, found, deadline)
        return sorted(each.key for each in found)

    def abandon_uploads(self) -> None:
        """Remove what this process is uploading in parts, in half a second at most.

        For the end of a process, such as by Ctrl-C, which waits for no other thread.
        The calls under way fail; what cannot be removed in time stays for
        `abort_uploads`.
        """
        abandon_all(self._requests)

    def __repr__(self) -> str:
        """Show the URL, without secrets."""
        return f"ObjectStore({self.url!r})"

    def __getstate__(self) -> dict[str, object]:
        """Give what another process needs to make its own."""
        return {
            "url": self._requests.connection.url,
            "options": self._requests.connection.options,
            "policy": self.policy,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        """Describe the same store in this process."""
        ObjectStore.__init__(
            self,
            state["url"],  # type: ignore[arg-type] # what __getstate__ gave
            state["options"],  # type: ignore[arg-type] # what __getstate__ gave
            policy=state["policy"],  # type: ignore[arg-type] # what __getstate__ gave
        )

    def __enter__(self) -> Self:
        """Use the store in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the connections to the process: they serve every view."""

    def _range(self, key: str, span: ByteRange) -> Call[memoryview]:
        """Describe the call for one range, which is not empty."""
        start, end = span.start, span.end
        where = f" [{start}, {end})"

        def attempt(backend: Backend, left: float) -> memoryview:
            data = memoryview(backend.get_range(key, start, end, left))
            if len(data) != end - start:
                msg = (
                    f"{self._requests.name(key)}{where}: the object gave {len(data)} "
                    f"of {end - start} bytes: it is shorter than was said"
                )
                raise CorruptObjectError(msg)
            return data.toreadonly()

        return Call("get_range", key, attempt, len, where)

    def _put(self, verb: str, key: str, content: Content, *, overwrite: bool) -> None:
        requests = self._requests
        deadline = requests.deadline()
        backend = requests.need(StoreCapability.WRITE, verb, key, deadline)
        if not overwrite:
            probe_conditional_put(requests, backend, key, deadline)
            exclusive = StoreCapability.EXCLUSIVE_CREATE
            requests.need(exclusive, f"exclusive {verb}", key, deadline)
        limits = self._limits(backend)
        if limits is not None and content.size > limits.threshold:
            upload(requests, key, content, limits, deadline, overwrite=overwrite)
            return
        send = self._sender(backend, content)
        deadline = requests.renewed(deadline)

        def attempt(backend: Backend, left: float) -> None:
            send(backend, key, left, overwrite=overwrite)

        call = Call(verb, key, attempt, lambda _: content.size)
        write_verified(requests, call, content, deadline)

    def _put_new(self, prefix: str, content: Content) -> str:
        requests = self._requests
        deadline = requests.deadline()
        backend = requests.need(StoreCapability.WRITE, "put", prefix, deadline)
        limits = self._limits(backend)
        if limits is not None and content.size > limits.threshold:
            key = new_key(prefix)  # one will do: an upload can be finished once
            upload(requests, key, content, limits, deadline, overwrite=True)
            return key
        send = self._sender(backend, content)
        return put_new(requests, prefix, content, send, requests.renewed(deadline))

    def _limits(self, backend: Backend) -> MultipartConfig | None:
        """Return how large objects go in parts; a pace makes the parts smaller."""
        limits = backend.parts
        if self._requests.pace is None or limits is None:
            return limits
        return replace(
            limits, threshold=PACED_PART, part_size=PACED_PART, concurrency=1
        )

    def _sender(self, backend: Backend, content: Content) -> Send:
        """Wait for the turn of a whole object; return what makes one attempt."""
        pace = self._requests.pace
        sent: Content = content
        if pace is not None and backend.sends_in_pieces:
            sent, pace = PacedContent(content, pace), None
        tried = tries(pace, content.size)

        def send(backend: Backend, key: str, left: float, *, overwrite: bool) -> None:
            tried()
            backend.put(key, sent, left, overwrite=overwrite)

        return send

    def _pages(self, listing: Listing) -> Iterator[Page]:
        """Yield the pages of a listing, each one request; a failed one is repeated."""
        at: object = None

        def attempt(backend: Backend, left: float) -> Page:
            return backend.page(listing, at, left)

        while True:
            page = self._requests.make(Call("list", listing.prefix, attempt))
            yield page
            at = page.following
            if at is None:
                return


def _cut(data: memoryview, request: ByteRange, span: ByteRange) -> memoryview:
    """Return the bytes of a range out of those of the request that has it."""
    return data[span.start - request.start : span.end - request.start]
