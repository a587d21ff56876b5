"""The object store: nine verbs, the same on every backend."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tieredfs.errors import (
    CorruptObjectError,
    DeadlineExceededError,
    ErrorKind,
    InvalidArgumentError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.model import ByteRange
from tieredfs.objects.connection import Connection
from tieredfs.objects.failures import failure_class, links, was_refused
from tieredfs.objects.keys import check_key, is_key
from tieredfs.objects.observer import RequestEvent, RequestObserver
from tieredfs.objects.policy import Deadline, RequestPolicy
from tieredfs.objects.quirks import Backend, Listing, ObjectInfo, Page
from tieredfs.objects.secrets import redact_url

__all__ = ["ObjectStore"]

_T = TypeVar("_T")
_Attempt = Callable[[Backend, float], _T]
"""One try of a call on a backend, given the seconds that are left."""


class ObjectStore:
    """A place for objects under keys, at any fsspec URL.

    Keys are relative to the URL, with ``/`` between their parts; no key leaves it. An
    object appears whole or not at all. Every failure is a TieredFSError that names the
    store, the key and the range; every call ends by the policy's deadline.

    A store connects when it is first used. It may be shared by threads, and pickled to
    other processes: what travels is the URL, the options as given and the policy, not
    the observer, and each process makes its own connections.
    """

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, object] | None = None,
        *,
        policy: RequestPolicy | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        """Describe a store; nothing is asked of it yet.

        Args:
            url: Any fsspec URL, chained ones included, or a local path.
            storage_options: fsspec's own, for the filesystem of the URL.
            policy: How long and how often calls may try.
            observer: Sees every request.

        Raises:
            InvalidArgumentError: The URL is empty.
        """
        place = os.fspath(url)
        if not place:
            raise InvalidArgumentError("the URL of a store is empty")
        self._connection = Connection(place, storage_options or {})
        self.policy = RequestPolicy() if policy is None else policy
        self._observer = observer

    @property
    def url(self) -> str:
        """The URL, without any secret that was in it."""
        return redact_url(self._connection.url)

    def with_policy(self, policy: RequestPolicy) -> "ObjectStore":
        """Return a view of this store, on the same connections, under ``policy``."""
        view = ObjectStore.__new__(ObjectStore)
        view._connection = self._connection  # noqa: SLF001 - a view of this class
        view._observer = self._observer  # noqa: SLF001 - a view of this class
        view.policy = policy
        return view

    def get(self, key: str) -> memoryview:
        """Return the whole object.

        Raises:
            NotFoundError: There is none.
        """
        check_key(key)
        return memoryview(
            self._call("get", key, lambda backend, left: backend.get(key, left), len)
        )

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
            InvalidArgumentError: ``start`` is negative or past ``end``.
        """
        check_key(key)
        return self._range(key, ByteRange(start, end), self._deadline())

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Return several ranges of one object, in the order they are given.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before a range does.
        """
        check_key(key)
        deadline = self._deadline()
        return [self._range(key, span, deadline) for span in ranges]

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        """Make an object appear, whole.

        Args:
            key: The object's key.
            data: Its content.
            overwrite: Whether an object that is there is replaced. If not, exactly one
                of several writers succeeds.

        Raises:
            AlreadyExistsError: There is one, and ``overwrite`` is false.
        """
        check_key(key)
        content = bytes(data)
        self._call(
            "put",
            key,
            lambda backend, left: backend.put(key, content, left, overwrite=overwrite),
            lambda _: len(content),
            again=overwrite,
        )

    def put_file(self, key: str, source: Path, *, overwrite: bool) -> None:
        """Make an object appear, whole, from a local file.

        Raises:
            AlreadyExistsError: There is one, and ``overwrite`` is false.
            NotFoundError: There is no file ``source``.
        """
        check_key(key)
        try:
            size = source.stat().st_size
        except FileNotFoundError as error:
            msg = f"not found: {source}"
            raise NotFoundError(msg) from error
        self._call(
            "put_file",
            key,
            lambda backend, left: backend.put_file(
                key, source, left, overwrite=overwrite
            ),
            lambda _: size,
            again=overwrite,
        )

    def copy(self, source: str, target: str) -> None:
        """Make the object ``target`` what the object ``source`` is.

        Raises:
            NotFoundError: There is no object ``source``.
        """
        check_key(source)
        check_key(target)
        self._call(
            "copy", source, lambda backend, left: backend.copy(source, target, left)
        )

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version.

        Raises:
            NotFoundError: There is none.
        """
        check_key(key)
        return self._call("head", key, lambda backend, left: backend.head(key, left))

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
        if prefix:
            check_key(prefix.removesuffix("/"))
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
                if key <= last:
                    msg = f"{self.url}: the store lists {key!r} after {last!r}"
                    raise UnsupportedOperationError(msg)
                last = key
                yield entry

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is success."""
        wanted = list(keys)
        for key in wanted:
            check_key(key)
        deadline = self._deadline()
        for key in wanted:

            def attempt(backend: Backend, left: float, key: str = key) -> None:
                backend.delete(key, left)

            self._call("delete", key, attempt, deadline=deadline)

    def __repr__(self) -> str:
        """Show the URL, without secrets."""
        return f"ObjectStore({self.url!r})"

    def __getstate__(self) -> dict[str, object]:
        """Give what another process needs to make its own."""
        return {
            "url": self._connection.url,
            "options": self._connection.options,
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

    def _name(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{key}"

    def _deadline(self) -> Deadline:
        return Deadline(self.policy.deadline)

    def _range(self, key: str, span: ByteRange, deadline: Deadline) -> memoryview:
        """Return one range; an empty one asks nothing."""
        start, end = span.start, span.end
        if start == end:
            return memoryview(b"")
        where = f" [{start}, {end})"
        data = self._call(
            "get_range",
            key,
            lambda backend, left: backend.get_range(key, start, end, left),
            len,
            span=where,
            deadline=deadline,
        )
        if len(data) != end - start:
            msg = (
                f"{self._name(key)}{where}: the object gave {len(data)} of "
                f"{end - start} bytes: it is shorter than was said"
            )
            raise CorruptObjectError(msg)
        return memoryview(data)

    def _pages(self, listing: Listing) -> Iterator[Page]:
        """Yield the pages of a listing, each one request; a failed one is repeated."""
        at: object = None

        def attempt(backend: Backend, left: float) -> Page:
            return backend.page(listing, at, left)

        while True:
            page = self._call("list", listing.prefix, attempt)
            yield page
            at = page.following
            if at is None:
                return

    def _call(  # noqa: PLR0913 - what one call is made of
        self,
        verb: str,
        key: str,
        attempt: _Attempt[_T],
        size: Callable[[_T], int] = lambda _: 0,
        *,
        span: str = "",
        again: bool = True,
        deadline: Deadline | None = None,
    ) -> _T:
        """Make one call: map its errors, repeat it if it may help, tell the observer.

        Args:
            verb: The verb.
            key: What it is about.
            attempt: One try.
            size: Bytes moved, of the answer.
            span: The range, for errors.
            again: Whether it may be repeated when it is not clear if it was done.
            deadline: That of the call it is a part of; its own when left out.
        """
        begun = self._deadline()
        end = deadline or begun
        attempts, moved, clear = 0, 0, False
        outcome: ErrorKind | None = ErrorKind.ERROR

        def once() -> _T:
            nonlocal attempts, clear
            try:
                left = end.check()
                backend = self._connection.backend()
                attempts += 1
                return attempt(backend, left)
            except Exception as error:
                ours = self._failure(verb, f"{self._name(key)}{span}", error, end)
                if ours is error:
                    raise
                clear = was_refused(error)
                raise ours from self._shown(error)

        def may_help(error: BaseException) -> bool:
            return isinstance(error, StorageUnavailableError) and (again or clear)

        try:
            try:
                answer = once()
            except StorageUnavailableError as error:
                answer = self.policy.repeat(once, error, may_help, end)
            moved = size(answer)
            outcome = None
        except TieredFSError as error:
            outcome = error.kind
            raise
        finally:
            if self._observer is not None and attempts:
                self._observer.on_request(
                    RequestEvent(verb, key, moved, attempts, begun.elapsed, outcome)
                )
        return answer

    def _failure(
        self, verb: str, name: str, error: Exception, deadline: Deadline
    ) -> Exception:
        """Make our error of a client's; one that is ours already stays as it is."""
        ours = failure_class(error)
        if isinstance(error, TieredFSError) or ours is None:
            return error
        said = self._connection.redacted(f"{type(error).__name__}: {error}")
        if ours is StorageUnavailableError and not deadline.remaining:
            msg = f"{verb} {name}: not done in {self.policy.deadline:g} s ({said})"
            return DeadlineExceededError(msg)
        if ours is NotFoundError:
            return NotFoundError(f"not found: {name}")
        return ours(f"{verb} {name}: {said}")

    def _shown(self, error: Exception) -> Exception | None:
        """Return ``error`` as a cause, unless a traceback of it would tell a secret."""
        texts = [f"{link}" for link in links(error)]
        return error if texts == [*map(self._connection.redacted, texts)] else None
