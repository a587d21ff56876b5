"""The filesystem behind a store: created on first use, once in each process."""

import asyncio
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import fsspec.asyn
from fsspec import AbstractFileSystem

from tieredfs.errors import (
    InvalidArgumentError,
    PluginNotInstalledError,
    TieredFSWarning,
    UnsupportedOperationError,
)
from tieredfs.objects.backends import Backend, UnfinishedUpload, backend_of
from tieredfs.objects.backends.chain import ResolvedUrl, links_of, undo_wrappers
from tieredfs.objects.concurrency.finalizers import (
    close_when_collected,
    filesystem_finalizers,
)
from tieredfs.objects.concurrency.waiting import call_holding
from tieredfs.objects.errors_map import links, text_of
from tieredfs.objects.identity import is_local
from tieredfs.objects.policy import Deadline
from tieredfs.objects.redact import (
    redact_text,
    redact_url,
    secret_values,
    url_secrets,
)

__all__ = ["Connection"]

_REFUSALS = (ValueError, TypeError, LookupError, AttributeError)
"""What filesystems raise for a bad URL or option; no code of ours runs meanwhile."""


class Connection:
    """A URL with its options, and this process's backend for it."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Record the URL and options; no request is made."""
        self.url = url
        self.options = dict(options)
        self._lock = threading.RLock()
        self._made: Backend | None = None
        self._closing: weakref.finalize[..., object] | None = None
        self.probe_lock = threading.RLock()
        """Held by the thread that probes what the backend can do."""
        self.uploads: set[UnfinishedUpload] = set()
        """The multipart uploads in progress."""
        _connections.add(self)

    @cached_property
    def _resolved(self) -> ResolvedUrl:
        return undo_wrappers(self.url, self.options)

    @property
    def resolved_url(self) -> str:
        """The URL without links that only wrap another.

        Raises:
            InvalidArgumentError: The URL is invalid.
        """
        return self._resolved.url

    @property
    def kind(self) -> type[Backend]:
        """The class of the backend, derived from the URL alone.

        Raises:
            InvalidArgumentError: The URL is invalid.
        """
        return backend_of(self._resolved.url)

    @cached_property
    def destinations(self) -> Sequence[str]:
        """The endpoint of each link's client, as the client reports it.

        No request is made.

        Raises:
            UnsupportedOperationError: As in ``check_thread``: some clients cannot
                report it there.
        """
        self.check_thread()
        try:
            resolved = self._resolved
        except InvalidArgumentError:
            return ()
        return [
            _destination(link, options)
            for link, options in links_of(resolved.url, resolved.options)
        ]

    def check_thread(self) -> None:
        """Check that a call would not block the event loop that it waits for.

        Raises:
            UnsupportedOperationError: This thread runs the client's event loop, so no
                request could be answered before the call returns.
        """
        running = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises
        if running is None or is_local(self.url):
            return
        if running is self.options.get("loop") or running is fsspec.asyn.loop[0]:
            msg = (
                f"{redact_url(self.url)}: called on the event loop of its own client, "
                "which would wait for itself; call it in a thread, such as by "
                "asyncio.to_thread"
            )
            raise UnsupportedOperationError(msg)

    @property
    def made(self) -> Backend | None:
        """The backend, if it has been created."""
        return self._made

    def backend(self, timeout: float) -> Backend:
        """Return this process's backend; a forked child creates a new one.

        Args:
            timeout: Seconds to wait for a client that connects when it is created.

        Raises:
            InvalidArgumentError: The URL or an option is refused.
            PluginNotInstalledError: A package is missing.
            TimeoutError: The backend was not created in time.
            Exception: What a client raises that connects when it is created.
        """
        made = self._made
        if made is not None:
            return made
        deadline = Deadline(timeout)

        def make() -> Backend:
            if self._made is None:
                self._made = self._make(deadline.check())
            return self._made

        return call_holding(self._lock, timeout, make)

    def discard(self, backend: Backend) -> None:
        """Drop a backend whose connection is broken; calls in progress keep it."""
        if self._made is backend:  # no lock: a thread that connects may hold it long
            self._made = None
            if self._closing is not None:
                self._closing.detach()

    def redacted(self, text: str) -> str:
        """Return ``text`` without the secrets of the URL and the options."""
        secrets = secret_values(self.options) | url_secrets(self.url)
        return redact_text(text, secrets)

    def safe_cause(self, error: Exception) -> Exception | None:
        """Return ``error`` as a cause, unless its traceback would show a secret."""
        texts = [text_of(link) for link in links(error)]
        return error if texts == [self.redacted(text) for text in texts] else None

    def reset_after_fork(self) -> Backend | None:
        """Drop the backend, and return it; called in a forked child."""
        # Another thread of the parent may hold the old locks.
        self._lock, self.probe_lock = threading.RLock(), threading.RLock()
        self.uploads = set()  # they are the parent's
        made, self._made = self._made, None
        return made

    def _make(self, timeout: float) -> Backend:
        try:
            resolved = self._resolved
        except _REFUSALS as error:
            raise self._refused(error) from self.safe_cause(error)
        try:
            for cache in resolved.caches:
                msg = f"{cache} is ignored: it returns wrong bytes after a download "
                warnings.warn(f"{msg}that failed", TieredFSWarning, stacklevel=2)
            made = self.kind.open(resolved.url, resolved.options, timeout)
        except ImportError as error:
            # Not by the package that was missing first: other extras bring that, too.
            links = links_of(resolved.url, resolved.options)
            extras = dict.fromkeys(backend_of(link).extra for link, _ in links)
            named = ",".join(filter(None, extras))
            hint = f"pip install 'tieredfs[{named}]'" if named else str(error)
            msg = f"{redact_url(self.url)}: a package is missing: {hint}"
            raise PluginNotInstalledError(msg) from error
        except _REFUSALS as error:
            raise self._refused(error) from self.safe_cause(error)
        self._closing = close_when_collected(self, made.filesystem)
        return made

    def _refused(self, error: Exception) -> InvalidArgumentError:
        msg = f"{redact_url(self.url)}: {self.redacted(str(error))}"
        return InvalidArgumentError(msg)


def _destination(link: str, options: Mapping[str, object]) -> str:
    """Return the endpoint of one link's client; empty when the link has none."""
    try:
        return backend_of(link).destination(link, options)
    except Exception:  # noqa: BLE001 - a client's own; the first call reports it
        return ""


_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()

_never_finalized: list[object] = []
"""Objects a forked child must never finalize: it shares the parent's sockets and epoll.

Closing a connection in the child removes it from the epoll that the parent waits on,
and the parent's next request stalls for 15 s (seen with s3fs, 4 times of 4). fsspec's
own instances are included: fsspec drops all of them in a child.
"""


def _classes(kind: type[object]) -> Iterator[type[object]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _classes(child)


def _before_fork() -> None:
    for kind in _classes(AbstractFileSystem):
        _never_finalized.extend(list(getattr(kind, "_cache", {}).values()))
    _never_finalized.extend([*_connections, *fsspec.asyn.loop])


def _in_parent() -> None:
    _never_finalized.clear()


def _in_child() -> None:
    _never_finalized.extend(
        [connection.reset_after_fork() for connection in list(_connections)]
    )
    # Finalizers also close sessions when a process ends (seen with HTTP: the parent's
    # next request was never answered).
    for finalizer in filesystem_finalizers():
        finalizer.atexit = False
    # fsspec means to renew its lock, but assigns another name: a child that is forked
    # while a thread holds the lock would wait forever.
    fsspec.asyn.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child
    )
