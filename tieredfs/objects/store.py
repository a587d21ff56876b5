"""The object store: the same verbs, and the same behaviour, on every backend."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tieredfs.arguments import to_mapping, to_path
from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
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
from tieredfs.objects.content import PIECE_BYTES, BufferContent, Content, opened
from tieredfs.objects.identity import identity_of, is_local, local_path
from tieredfs.objects.keys import (
    check_key,
    check_keys,
    check_prefix,
    check_target,
)
from tieredfs.objects.listed_page import ListedPage, check_page, pages_of
from tieredfs.objects.observer import BothObservers, RequestObserver
from tieredfs.objects.policy import RequestPolicy
from tieredfs.objects.ranges import plan_ranges
from tieredfs.objects.rate_limit import LimitedContent, RateLimit, limited_attempts
from tieredfs.objects.redact import redact_url
from tieredfs.objects.request import Call, Requests
from tieredfs.objects.write.delete import delete
from tieredfs.objects.write.exclusive import probe_conditional_put
from tieredfs.objects.write.new_key import Send, new_key, put_new
from tieredfs.objects.write.upload import abandon_all, abort_all, upload
from tieredfs.objects.write.verified import write_verified
from tieredfs.options import DEFAULTS, Options

__all__ = ["ObjectStore"]

_NOTHING: Final = memoryview(b"")


class ObjectStore:
    """Objects stored under keys at any fsspec URL.

    Keys are relative to the URL, with ``/`` between their parts; no key leads outside
    it. An object appears whole or not at all. Every failure is a TieredFSError that
    names the store, the key and the range; every call ends by the policy's deadline.

    A store connects when it is first used. It may be shared by threads, and pickled to
    other processes. The pickle contains the URL, all options as given and the policy,
    not the observer or the rate limit, and each process makes its own connections.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, object] | None = None,
        *,
        policy: RequestPolicy | None = None,
        observer: RequestObserver | None = None,
        rate_limit: RateLimit | None = None,
        options: Options = DEFAULTS,
    ) -> None:
        """Create a store; no request is made yet.

        Args:
            url: Any fsspec URL, including chained ones, or a local path. A relative
                path is resolved now, against the current working directory.
            storage_options: fsspec's options for the filesystem of the URL.
            policy: How long a call may take, and how often it is attempted.
            observer: Is notified of every request.
            rate_limit: The rate at which objects are sent, which several stores may
                share. The wait for it does not count towards a call's deadline, and
                each part of a large object has a deadline of its own.
            options: The sizes and limits of requests, and of what is read from this
                store.

        Raises:
            InvalidArgumentError: The URL is empty, or relative to a folder that does
                not exist; or an argument is of another type: ``storage_options`` not a
                dict, ``policy`` not a RequestPolicy, ``options`` not Options.
        """
        _check_options(options)
        given = to_path(url, "the URL of a store")
        if not given:
            raise InvalidArgumentError("the URL of a store is empty")
        self._requests = Requests(
            Connection(absolute(given), to_mapping(storage_options, "storage_options")),
            RequestPolicy() if policy is None else policy,
            observer,
            rate_limit,
            options,
        )

    @property
    def url(self) -> str:
        """The URL without its secrets; a local path is absolute."""
        return redact_url(self._requests.connection.url)

    @property
    def identity(self) -> str:
        """A text that identifies the store: its URL and endpoint, without secrets.

        Raises:
            UnsupportedOperationError: As in ``check_thread``: some clients cannot
                report their endpoint there.
        """
        connection = self._requests.connection
        return identity_of(connection.url, connection.options, connection.destinations)

    @property
    def is_local(self) -> bool:
        """Whether the store is on this machine's disks or in this process's memory."""
        return is_local(self._requests.connection.url)

    @property
    def local_path(self) -> Path | None:
        """The store's directory on this machine's disks; None if it is not on them.

        Raises:
            InvalidArgumentError: The URL is invalid.
        """
        return local_path(self._requests.connection.resolved_url)

    def is_inside(self, other: "ObjectStore") -> bool:
        """Return whether every object of this store is one of another store's.

        Two URLs with different endpoints are apart, as far as the options show these.

        Raises:
            InvalidArgumentError: One of the URLs is invalid.
        """
        mine, theirs = self.local_path, other.local_path
        if mine is not None and theirs is not None:
            return mine.is_relative_to(theirs)
        url, above = (
            store._requests.connection.resolved_url.rstrip("/")  # noqa: SLF001 - of this class
            for store in (self, other)
        )
        if url != above and not url.startswith(f"{above}/"):
            return False
        one, two = (
            identity_of("", connection.options, connection.destinations)
            for connection in (self._requests.connection, other._requests.connection)  # noqa: SLF001 - of this class
        )
        return (self.is_local and other.is_local) or one == two

    def check_thread(self) -> None:
        """Check that a call from this thread would not block the client's event loop.

        Each call checks this by itself. Code that makes calls in other threads, and
        waits for them here, has to check first.

        Raises:
            UnsupportedOperationError: This thread runs the client's event loop; make
                the call in another thread.
        """
        self._requests.connection.check_thread()

    @property
    def policy(self) -> RequestPolicy:
        """How long a call may take, and how often it is attempted."""
        return self._requests.policy

    @property
    def options(self) -> Options:
        """The sizes and limits that the user has tuned."""
        return self._requests.options

    def probe_capabilities(self) -> frozenset[StoreCapability]:
        """Return what this store can do, probed by a write where nothing else can tell.

        The probe creates and deletes an object that listings omit, once for all views
        of the store; only some servers need it.

        Raises:
            TieredFSError: The store cannot be reached, or may not be written to.
        """
        deadline = self._requests.deadline()
        backend = self._requests.backend("probe_capabilities", "", deadline)
        probe_conditional_put(self._requests, backend, "", deadline)
        return backend.capabilities

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return a view of this store, on the same connections, under ``policy``.

        The view has the same class and the same attributes, a subclass's included.

        Raises:
            InvalidArgumentError: ``policy`` is not a RequestPolicy.
        """
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would connect anew, as pickle does
        view._requests = replace(self._requests, policy=policy)
        return view

    def with_options(self, options: Options) -> Self:
        """Return a view of this store, on the same connections, with other options.

        The view has the same class and the same attributes, a subclass's included.

        Args:
            options: The sizes and limits of requests, in place of all of the store's.

        Raises:
            InvalidArgumentError: ``options`` is not Options.
        """
        _check_options(options)
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would connect anew, as pickle does
        view._requests = replace(self._requests, options=options)
        return view

    def with_observer(self, observer: RequestObserver) -> Self:
        """Return a view of this store, on the same connections, with one more observer.

        The view has the same class and the same attributes, a subclass's included. Its
        requests are also those of this store's own observer.

        Args:
            observer: Is notified of every request of the view.
        """
        own = self._requests.observer
        both = observer if own is None else BothObservers(own, observer)
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would connect anew, as pickle does
        view._requests = replace(self._requests, observer=both)
        return view

    def get(self, key: str) -> memoryview:
        """Return the whole object.

        Raises:
            NotFoundError: There is no such object.
            InvalidArgumentError: The key is invalid.
        """
        check_key(key)
        call = Call("get", key, lambda backend, left: backend.get(key, left), len)
        return memoryview(self._requests.make(call)).toreadonly()

    def get_range(self, key: str, start: int, end: int) -> memoryview:
        """Return the bytes ``[start, end)`` of an object, exactly.

        Args:
            key: The object's key.
            start: First byte.
            end: Byte after the last. The range must be inside the object, whose size
                the caller knows from a listing or ``head``; an empty range makes no
                request.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before ``end``.
            InvalidArgumentError: The key is invalid; or ``start`` is negative or past
                ``end``, or ``end`` exceeds 63 bits.
        """
        check_key(key)
        span = ByteRange(start, end)
        if start == end:
            return _NOTHING
        return self._requests.make(self._range(key, span))

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Return several ranges of one object, in the order they are given.

        Ranges that are close together are merged into one request; requests are made
        in parallel. Ranges from one request share its memory.

        Args:
            key: The object's key.
            ranges: As in ``get_range``; they may overlap and repeat.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before a range does.
            InvalidArgumentError: The key is invalid.
        """
        check_key(key)
        if not any(ranges):
            return [_NOTHING] * len(ranges)
        deadline = self._requests.deadline()
        backend = self._requests.backend("get_ranges", key, deadline)
        plan = plan_ranges(ranges, max_gap_bytes=backend.max_gap_bytes)
        calls = [self._range(key, span) for span in plan.requests]
        found = self._requests.make_all(
            calls, deadline, concurrency=self._requests.concurrency(backend)
        )
        return [
            _NOTHING
            if index is None
            else _cut(found[index], plan.requests[index], span)
            for span, index in zip(ranges, plan.request_indexes, strict=True)
        ]

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        """Write an object as a whole.

        Args:
            key: The object's key.
            data: Its content: bytes, or any other buffer.
            overwrite: Whether to replace an existing object. If false, exactly one of
                several concurrent writers succeeds.

        Raises:
            AlreadyExistsError: The object exists, and ``overwrite`` is false.
            InvalidArgumentError: ``data`` is not a buffer, or the key is invalid, or
                reserved for unfinished writes, which listings omit.
            UnsupportedOperationError: The store is read-only, or cannot create objects
                exclusively and ``overwrite`` is false.
        """
        check_target(key)
        self._put("put", key, BufferContent(data), overwrite=overwrite)

    def put_new(self, prefix: str, data: bytes | bytearray | memoryview) -> str:
        """Write an object as a whole, under a key that no other write has.

        Each attempt has a key of its own. So an attempt that was given up, and that the
        server performs long afterwards, brings no deleted object back: it creates an
        object that no caller knows of.

        Args:
            prefix: Prefix of the key; 22 letters, digits, `-` and `_` follow.
            data: As in ``put``.

        Returns:
            The key.

        Raises:
            InvalidArgumentError: As in ``put``.
            UnsupportedOperationError: The store is read-only.
        """
        check_target(new_key(prefix))
        return self._put_new(prefix, BufferContent(data))

    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        """Write an object as a whole, from a local file.

        Args:
            key: The object's key.
            source: The file, or a content that several threads can read in pieces. An
                error that it raises ends the put, and no object appears.
            overwrite: As in ``put``.

        Raises:
            AlreadyExistsError: The object exists, and ``overwrite`` is false.
            NotFoundError: The file ``source`` does not exist.
            InvalidArgumentError: ``source`` is not a regular file, or becomes shorter
                while it is read; or the key is invalid or reserved, as in ``put``.
            UnsupportedOperationError: As in ``put``.
        """
        check_target(key)
        with opened(source) as content:
            self._put("put_file", key, content, overwrite=overwrite)

    def copy(self, source: str, target: str) -> None:
        """Copy the object ``source`` to ``target``, replacing it if it exists.

        Raises:
            NotFoundError: There is no object ``source``.
            InvalidArgumentError: A key is invalid, or ``target`` is reserved, as in
                ``put``.
            UnsupportedOperationError: The store is read-only.
        """
        check_key(source)
        check_target(target)
        deadline = self._requests.deadline()
        self._requests.need(StoreCapability.WRITE, "copy", target, deadline)

        def attempt(backend: Backend, left: float) -> None:
            backend.copy(source, target, left)

        self._requests.make(Call("copy", source, attempt), deadline)

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version.

        Raises:
            NotFoundError: There is no such object.
            InvalidArgumentError: The key is invalid.
        """
        check_key(key)
        call = Call("head", key, lambda backend, left: backend.head(key, left))
        return self._requests.make(call)

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``, in key order.

        Folder markers, and objects whose name is not a valid key, are omitted. Each
        page is requested when it is needed, and has the policy's deadline to itself.

        Args:
            prefix: Prefix of the keys; it need not be a whole path component.
            start_after: Only keys after this one.
            delimiter: ``/`` to fold the keys below a folder into one entry, whose key
                ends in ``/`` and whose size is None.

        Raises:
            InvalidArgumentError: No valid key begins with ``prefix``, or ``delimiter``
                is neither ``/`` nor empty. This is raised by the call, everything else
                while the objects are yielded.
            NotFoundError: The container that the URL names does not exist. A missing
                folder is just empty.
            UnsupportedOperationError: The store returns pages that are not in key
                order.
        """
        check_prefix(prefix)
        if delimiter not in {"", "/"}:
            msg = f"invalid delimiter {delimiter!r}: give '/', or '' to list every key"
            raise InvalidArgumentError(msg)
        return self._list(Listing(prefix, start_after, delimiter))

    def list_pages(
        self, prefix: str = "", *, start_after: str = ""
    ) -> Iterator[ListedPage]:
        """Yield the keys and sizes of the objects that ``list`` yields, by the page.

        A page costs much less than its entries one by one. On an object store each page
        is one request, and may be empty, as where a store has deleted what it listed. A
        store without pages, and a subclass that overrides ``list``, have their entries
        divided into pages here.

        Args:
            prefix: Prefix of the keys; it need not be a whole path component.
            start_after: Only keys after this one.

        Raises:
            InvalidArgumentError: No valid key begins with ``prefix``. This is raised by
                the call, everything else while the pages are yielded.
            NotFoundError: The container that the URL names does not exist.
            UnsupportedOperationError: The store returns pages that are not in key
                order.
        """
        if type(self).list is not ObjectStore.list:  # which yields other objects
            return pages_of(self.list(prefix, start_after=start_after))
        check_prefix(prefix)
        listing = Listing(prefix, start_after, "")
        return map(ListedPage.of, self._checked_pages(listing))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing object is not an error.

        Every key is tried, even when others fail.

        Raises:
            InvalidArgumentError: ``keys`` is one key, not several; or one of them is
                invalid, and nothing was deleted.
            TieredFSError: Some objects may remain; the error's ``keys`` lists them.
            UnsupportedOperationError: The store is read-only.
        """
        wanted = check_keys(keys)
        if wanted:
            deadline = self._requests.deadline()
            backend = self._requests.need(
                StoreCapability.WRITE, "delete", wanted[0], deadline
            )
            delete(self._requests, wanted, backend, deadline)

    def abort_uploads(self, older_than: timedelta = timedelta(days=1)) -> Sequence[str]:
        """Remove the remains of unfinished uploads below this store's URL.

        They are invisible, but some stores keep their parts, and charge for them,
        forever. Nothing outside the store is touched. Every upload is tried, even when
        others fail.

        Args:
            older_than: Minimum age. Younger uploads may still be in progress, and stay.

        Returns:
            The keys that the uploads were to become, sorted.

        Raises:
            TieredFSError: Some uploads may remain; the error's ``keys`` lists them.
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
        """Abort this process's multipart uploads, in half a second at most.

        For the end of a process, such as after Ctrl-C, when no thread is waited for.
        The calls in progress fail; an upload that cannot be aborted in time stays until
        `abort_uploads`.
        """
        abandon_all(self._requests)

    def __repr__(self) -> str:
        """Show the URL, without secrets."""
        return f"ObjectStore({self.url!r})"

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs to create the same store."""
        return {
            "url": self._requests.connection.url,
            "storage_options": self._requests.connection.options,
            "policy": self.policy,
            "options": self.options,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        """Create the same store in this process."""
        ObjectStore.__init__(
            self,
            state["url"],  # type: ignore[arg-type] # what __getstate__ gave
            state["storage_options"],  # type: ignore[arg-type] # what __getstate__ gave
            policy=state["policy"],  # type: ignore[arg-type] # what __getstate__ gave
            options=state["options"],  # type: ignore[arg-type] # what __getstate__ gave
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
        """Keep the connections open: they serve every view of the store."""

    def _range(self, key: str, span: ByteRange) -> Call[memoryview]:
        """Return the call for one range, which is not empty."""
        start, end = span.start, span.end
        where = f" [{start}, {end})"

        def attempt(backend: Backend, left: float) -> memoryview:
            data = memoryview(backend.get_range(key, start, end, left))
            if len(data) != end - start:
                msg = (
                    f"{self._requests.name(key)}{where}: the object gave {len(data)} "
                    f"of {end - start} bytes: it is shorter than expected"
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
        limits = self._limits(backend, content.size)
        if limits is not None:
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
        limits = self._limits(backend, content.size)
        if limits is not None:
            key = new_key(prefix)  # one is enough: an upload can be finished only once
            upload(requests, key, content, limits, deadline, overwrite=True)
            return key
        send = self._sender(backend, content)
        return put_new(requests, prefix, content, send, requests.renewed(deadline))

    def _limits(self, backend: Backend, size: int) -> MultipartConfig | None:
        """Return how an object is split; None to put it in one request.

        A rate limit makes the requests smaller.
        """
        is_limited = self._requests.rate_limit is not None
        threshold = self.options.multipart_threshold_bytes
        if is_limited:
            threshold = min(threshold, PIECE_BYTES)
        if backend.parts is None or size <= threshold:
            return None
        limits = backend.parts.tuned(self.options)
        if not is_limited:
            return limits
        part_size = min(limits.part_size, PIECE_BYTES)
        return replace(limits, part_size=part_size, concurrency=1)

    def _sender(self, backend: Backend, content: Content) -> Send:
        """Wait for the turn of a whole object; return a function for one attempt."""
        limit = self._requests.rate_limit
        sent: Content = content
        if limit is not None and backend.sends_in_pieces:
            sent, limit = LimitedContent(content, limit), None
        tried = limited_attempts(limit, content.size)

        def send(backend: Backend, key: str, left: float, *, overwrite: bool) -> None:
            tried()
            backend.put(key, sent, left, overwrite=overwrite)

        return send

    def _list(self, listing: Listing) -> Iterator[ObjectInfo]:
        """Yield the objects of a listing, in key order."""
        for page in self._checked_pages(listing):
            yield from page.entries

    def _checked_pages(self, listing: Listing) -> Iterator[Page]:
        """Yield the pages of a listing with only what was asked for, in key order."""
        last = listing.start_after
        for page in self._pages(listing):
            checked = check_page(page, listing, last, self.url)
            if checked.entries:
                last = checked.entries[-1].key
            yield checked

    def _pages(self, listing: Listing) -> Iterator[Page]:
        """Yield the pages of a listing, one request each; a failed one is retried."""
        at: object = None

        def attempt(backend: Backend, left: float) -> Page:
            return backend.page(listing, at, left)

        while True:
            page = self._requests.make(Call("list", listing.prefix, attempt))
            yield page
            at = page.following
            if at is None:
                return


def _check_options(options: Options) -> None:
    if not isinstance(options, Options):
        msg = f"give options=Options(…), not {type(options).__name__}"  # type: ignore[unreachable] # without types it is not
        raise InvalidArgumentError(msg)


def _cut(data: memoryview, request: ByteRange, span: ByteRange) -> memoryview:
    """Return the bytes of a range from the answer to the request that contains it."""
    return data[span.start - request.start : span.end - request.start]
