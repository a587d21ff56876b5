"""The object store: nine verbs, the same on every backend."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import tenacity
from fsspec.core import url_to_fs
from fsspec.utils import get_protocol

from tieredfs.errors import (
    CorruptObjectError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PluginNotInstalledError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.model import ByteRange
from tieredfs.objects.failures import failure_class
from tieredfs.objects.observer import RequestEvent, RequestObserver
from tieredfs.objects.policy import Deadline, RequestPolicy
from tieredfs.objects.quirks import BACKENDS, Backend
from tieredfs.objects.quirks.default import ObjectInfo
from tieredfs.objects.secrets import redact_text, redact_url, secret_values

__all__ = ["ObjectStore"]

_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
_T = TypeVar("_T")


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
        """
        self._connection = _Connection(os.fspath(url), dict(storage_options or {}))
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
        backend = self._backend(key)
        return memoryview(
            self._call("get", key, lambda left: backend.get(key, left), len)
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
        span = ByteRange(start, end)
        backend = self._backend(key)
        if not len(span):
            return memoryview(b"")
        data = self._call(
            "get_range",
            key,
            lambda left: backend.get_range(key, start, end, left),
            len,
            f" [{start}, {end})",
        )
        if len(data) != len(span):
            msg = (
                f"{self._name(key)} [{start}, {end}): the object gave {len(data)} of "
                f"{len(span)} bytes: it is shorter than was said"
            )
            raise CorruptObjectError(msg)
        return memoryview(data)

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        """Return several ranges of one object, in the order they are given.

        Raises:
            NotFoundError: There is no such object.
            CorruptObjectError: The object ends before a range does.
        """
        return [self.get_range(key, span.start, span.end) for span in ranges]

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
        backend = self._backend(key)
        content = bytes(data)
        self._call(
            "put",
            key,
            lambda left: backend.put(key, content, left, overwrite=overwrite),
            lambda _: len(content),
            again=overwrite,
        )

    def put_file(self, key: str, source: Path, *, overwrite: bool) -> None:
        """Make an object appear, whole, from a local file.

        Raises:
            AlreadyExistsError: There is one, and ``overwrite`` is false.
        """
        backend = self._backend(key)
        size = source.stat().st_size
        self._call(
            "put_file",
            key,
            lambda left: backend.put_file(key, source, left, overwrite=overwrite),
            lambda _: size,
            again=overwrite,
        )

    def copy(self, source: str, target: str) -> None:
        """Make the object ``target`` what the object ``source`` is.

        Raises:
            NotFoundError: There is no object ``source``.
        """
        backend = self._backend(source)
        check_key(target)
        self._call("copy", source, lambda left: backend.copy(source, target, left))

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version.

        Raises:
            NotFoundError: There is none.
        """
        backend = self._backend(key)
        return self._call("head", key, lambda left: backend.head(key, left))

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``, in the order of keys.

        Folder markers are left out. Each page is asked for when it is needed.

        Args:
            prefix: What the keys begin with; it need not be a whole path component.
            start_after: Only keys after this one.
            delimiter: ``/`` to fold the keys below a folder into one entry, whose key
                ends in ``/`` and whose size is None.

        Raises:
            NotFoundError: The container that the URL names is not there. A missing
                folder is just empty.
        """
        if prefix.strip("/"):
            check_key(prefix.strip("/"))
        if delimiter not in {"", "/"}:
            msg = f"{self.url}: a listing folds keys at '/', not at {delimiter!r}"
            raise InvalidArgumentError(msg)
        backend = self._connection.backend()
        pages: Iterator[Sequence[ObjectInfo]] | None = None
        last = start_after

        def page(_: float) -> Sequence[ObjectInfo] | None:
            nonlocal pages
            if pages is None:
                limit = self.policy.deadline
                pages = backend.pages(prefix, last, delimiter, limit)
            try:
                return next(pages, None)
            except BaseException:
                pages = None  # it has ended: another try begins after the last key
                raise

        while (entries := self._call("list", prefix, page)) is not None:
            for entry in entries:
                if entry.key.startswith(prefix) and entry.key > last:
                    last = entry.key
                    yield entry

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is success."""
        wanted = list(keys)
        backend = self._connection.backend()
        for key in wanted:
            check_key(key)
        if wanted:
            name = wanted[0]
            self._call("delete", name, lambda left: backend.delete(wanted, left))

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

    def _backend(self, key: str) -> Backend:
        check_key(key)
        return self._connection.backend()

    def _name(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{key}"

    def _call(
        self,
        verb: str,
        key: str,
        attempt: Callable[[float], _T],
        size: Callable[[_T], int] = lambda _: 0,
        span: str = "",
        *,
        again: bool = True,
    ) -> _T:
        """Make one call: map its errors, repeat it if it may help, tell the observer.

        Args:
            verb: The verb.
            key: What it is about.
            attempt: One try, given the seconds that are left.
            size: Bytes moved, of the answer.
            span: The range, for errors.
            again: Whether an unclear failure may be repeated.
        """
        deadline = Deadline(self.policy.deadline)
        attempts = 0
        outcome: TieredFSError | None = None
        moved = 0

        def once() -> _T:
            nonlocal attempts
            attempts += 1
            try:
                return attempt(deadline.remaining)
            except Exception as error:
                raise self._failure(verb, key, span, error, deadline) from error

        try:
            try:
                answer = once()
            except StorageUnavailableError:
                if not again or self.policy.attempts == 1:
                    raise
                answer = self._retrying(deadline)(once)
            moved = size(answer)
        except TieredFSError as error:
            outcome = error
            raise
        finally:
            if self._observer is not None:
                kind = None if outcome is None else outcome.kind
                self._observer.on_request(
                    RequestEvent(verb, key, moved, attempts, deadline.elapsed, kind)
                )
        return answer

    def _retrying(self, deadline: Deadline) -> tenacity.Retrying:
        policy = self.policy
        wait = tenacity.wait_random_exponential(policy.backoff, policy.max_backoff)
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(StorageUnavailableError),
            stop=(
                tenacity.stop_after_attempt(policy.attempts - 1)
                | tenacity.stop_before_delay(deadline.remaining)
            ),
            wait=wait,
            reraise=True,
        )

    def _failure(
        self, verb: str, key: str, span: str, error: Exception, deadline: Deadline
    ) -> Exception:
        """Make our error of a client's; it is raised from the client's own."""
        if isinstance(error, TieredFSError):
            return error
        ours = failure_class(error)
        if ours is None:
            return error
        secrets = secret_values(self._connection.options)
        said = redact_text(f"{type(error).__name__}: {error}", secrets)
        name = f"{self._name(key)}{span}"
        if ours is StorageUnavailableError and not deadline.remaining:
            msg = f"{verb} {name}: not done in {self.policy.deadline:g} s ({said})"
            return DeadlineExceededError(msg)
        if ours is NotFoundError:
            return NotFoundError(f"not found: {name}")
        return ours(f"{verb} {name}: {said}")


class _Connection:
    """The filesystem behind a store and its views: one for each process."""

    def __init__(self, url: str, options: dict[str, object]) -> None:
        self.url = url
        self.options = options
        self._lock = threading.Lock()
        self._made: tuple[int, Backend] | None = None

    def backend(self) -> Backend:
        """Return this process's backend; a fork makes a new one."""
        made = self._made
        if made is not None and made[0] == os.getpid():
            return made[1]
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make())
            return self._made[1]

    def _make(self) -> Backend:
        protocol = get_protocol(self.url)
        kind = BACKENDS.get(protocol, Backend) if "::" not in self.url else Backend
        try:
            filesystem, root = url_to_fs(
                self.url, **{**kind.options, **self.options}, skip_instance_cache=True
            )
        except ImportError as error:
            extra = _EXTRAS.get(protocol)
            hint = f"pip install 'tieredfs[{extra}]'" if extra else str(error)
            msg = f"{redact_url(self.url)}: {protocol}:// needs {hint}"
            raise PluginNotInstalledError(msg) from error
        except ValueError as error:
            secrets = secret_values(self.options)
            msg = f"{redact_url(self.url)}: {redact_text(str(error), secrets)}"
            raise InvalidArgumentError(msg) from error
        return kind(filesystem, root)


def check_key(key: str) -> str:
    """Return ``key`` if it names an object below a root.

    Raises:
        InvalidArgumentError: It is empty, absolute, has an empty, ``.`` or ``..``
            part, or a character that no store takes.
    """
    parts = key.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\0" in key or "\\" in key:
        msg = f"not a key: {key!r}"
        raise InvalidArgumentError(msg)
    return key
