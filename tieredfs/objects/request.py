"""One call of a store: its deadline, its retries, its errors and its observer."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from tieredfs.errors import (
    DeadlineExceededError,
    ErrorKind,
    InvalidArgumentError,
    NotFoundError,
    StorageFullError,
    StorageUnavailableError,
    TieredFSError,
    TieredFSWarning,
    UnsupportedOperationError,
)
from tieredfs.objects.backends import Backend
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.objects.connection import Connection
from tieredfs.objects.errors_map import (
    failure_class,
    is_container_missing,
    retry_after,
    text_of,
)
from tieredfs.objects.observer import RequestEvent, RequestObserver
from tieredfs.objects.policy import CommonDeadline, Deadline, RequestPolicy
from tieredfs.objects.rate_limit import RateLimit
from tieredfs.objects.redact import redact_url
from tieredfs.options import DEFAULTS, Options

__all__ = ["Call", "Requests"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call(Generic[_T]):
    """One operation to be made on a backend.

    Attributes:
        verb: The store's verb.
        key: The key or prefix of the operation, relative to the store.
        attempt: Makes one attempt, given the backend and the seconds that are left.
        size: Returns the number of bytes moved, given the answer.
        span: The range, for messages.
    """

    verb: str
    key: str
    attempt: Callable[[Backend, float], _T]
    size: Callable[[_T], int] = lambda _: 0
    span: str = ""


@dataclass(frozen=True, slots=True)
class Requests:
    """Make calls on a connection, with retries, deadlines and mapped errors.

    Attributes:
        connection: The backend, by URL and options.
        policy: How long a call may take, and how often it is attempted.
        observer: Is notified of every call that has ended.
        rate_limit: The rate at which objects are sent; None for no limit.
        options: What the user has tuned.
    """

    connection: Connection
    policy: RequestPolicy
    observer: RequestObserver | None
    rate_limit: RateLimit | None = None
    options: Options = DEFAULTS

    def __post_init__(self) -> None:
        """Refuse a policy of another class, such as a dict of its fields.

        Raises:
            InvalidArgumentError: It is not a RequestPolicy.
        """
        if not isinstance(self.policy, RequestPolicy):
            msg = f"give policy=RequestPolicy(…), not {type(self.policy).__name__}"  # type: ignore[unreachable] # without types it is not
            raise InvalidArgumentError(msg)

    def concurrency(self, backend: Backend) -> int:
        """Return the maximum number of concurrent requests of one call."""
        return self.options.max_concurrent_requests or backend.concurrency

    def deadline(self) -> Deadline:
        """Return the deadline of a call that begins now.

        Raises:
            UnsupportedOperationError: This thread runs the client's event loop, so the
                client could never answer.
        """
        self.connection.check_thread()
        return Deadline(self.policy.deadline)

    def renewed(self, deadline: Deadline) -> Deadline:
        """Return the deadline of a call's next request: a new one under a rate limit.

        Waiting for the turn would use up the deadline that the call began with.
        """
        return deadline if self.rate_limit is None else self.deadline()

    def name(self, key: str) -> str:
        """Return the name of an object, or of the store, for messages: its safe URL."""
        url = redact_url(self.connection.url)
        return f"{url}{key}" if not key or url.endswith("/") else f"{url}/{key}"

    def backend(self, verb: str, key: str, deadline: Deadline | None = None) -> Backend:
        """Return the backend; a failed connection is retried and mapped like a call.

        Args:
            verb: The verb of the call that needs it, for messages.
            key: The key of that call, for messages.
            deadline: The deadline of that call, which includes the connection; None
                for a connection that no other call needs.

        Raises:
            TieredFSError: The backend cannot be created.
        """
        made = self.connection.made
        if made is not None:
            return made
        call = Call(verb, key, lambda backend, _: backend)
        return replace(self, observer=None).make(call, deadline)

    def need(
        self,
        capability: StoreCapability,
        verb: str,
        key: str,
        deadline: Deadline,
    ) -> Backend:
        """Return the backend, which must have a capability.

        Args:
            capability: What the call needs.
            verb: The verb of the call, for messages.
            key: The key of the call, for messages.
            deadline: The deadline of the call, which includes the connection.

        Raises:
            UnsupportedOperationError: It lacks the capability. No request is made when
                no store of its kind has it.
        """
        if capability in self.connection.kind.capabilities:
            backend = self.backend(verb, key, deadline)
            if capability in backend.capabilities:
                return backend
        lacking = capability.value.replace("_", " ")
        if capability is StoreCapability.WRITE:
            lacking = f"{verb}: it is read-only"
        msg = f"{verb} {self.name(key)}: this store does not support {lacking}"
        raise UnsupportedOperationError(msg)

    def make(self, call: Call[_T], deadline: Deadline | None = None) -> _T:
        """Make a call: retry it where that may help, and notify the observer.

        Args:
            call: The call to make.
            deadline: The deadline of the enclosing call; None for one of its own.

        Returns:
            The result of the attempt that succeeded.

        Raises:
            TieredFSError: The client's error, mapped.
            DeadlineExceededError: The call was not done in time.
        """
        begun = self.deadline()
        end = deadline or begun
        tries, attempts, moved, pause = 0, 0, 0, 0.0
        outcome: ErrorKind | None = ErrorKind.ERROR

        def once() -> _T:
            nonlocal tries, attempts, pause
            backend: Backend | None = None
            tries += 1
            share = Deadline(self.policy.share(end.remaining, tries))
            try:
                backend = self.connection.backend(share.check())
                left = share.check()
                attempts += 1
                return call.attempt(backend, left)
            except Exception as error:
                if backend is not None and backend.is_broken_by(error):
                    self.connection.discard(backend)
                name = f"{self.name(call.key)}{call.span}"
                ours = self._failure(call.verb, name, error, end, share)
                if ours is error:
                    raise
                pause = retry_after(error)
                try:
                    raise ours from self.connection.safe_cause(error)
                finally:
                    del ours  # this frame would keep it, and the content, alive

        try:
            try:
                answer = once()
            except StorageUnavailableError as error:
                answer = self.policy.repeat(once, error, lambda: pause, end)
            moved = call.size(answer)
            outcome = None
        except TieredFSError as error:
            outcome = error.kind
            raise
        finally:
            if attempts:
                self._notify(
                    RequestEvent(
                        call.verb, call.key, moved, attempts, begun.elapsed, outcome
                    )
                )
        return answer

    def make_all(
        self, calls: Sequence[Call[_T]], deadline: Deadline, *, concurrency: int
    ) -> list[_T]:
        """Make several calls, a few at a time; the first failure ends the rest.

        An attempt that is in progress then is not waited for; no other is begun.

        Args:
            calls: The calls to make.
            deadline: When all of them have to be done.
            concurrency: Maximum number of calls in progress.

        Returns:
            The answers, in the order of the calls.
        """
        if len(calls) == 1:
            return [self.make(calls[0], deadline)]
        end = CommonDeadline(deadline.remaining)
        tasks = [partial(self.make, call, end) for call in calls]
        return run_all(
            tasks, concurrency=concurrency, stop=end.expire, is_waited_for=False
        )

    def _notify(self, event: RequestEvent) -> None:
        """Notify the observer; its errors do not reach the caller."""
        if self.observer is None:
            return
        try:
            self.observer.on_request(event)
        except Exception as error:  # noqa: BLE001 - an observer may raise anything
            reason = self.connection.redacted(text_of(error))
            msg = f"the observer of {self.name(event.key)} failed: {reason}"
            warnings.warn(msg, TieredFSWarning, stacklevel=3)

    def _failure(
        self, verb: str, name: str, error: Exception, end: Deadline, share: Deadline
    ) -> Exception:
        """Map a client's error to ours; a TieredFSError is returned unchanged."""
        ours = failure_class(error)
        if isinstance(error, TieredFSError) or ours is None:
            return error
        # One line: the lines that Azure and Hadoop add are in the cause.
        text = self.connection.redacted(text_of(error))
        reason, _, rest = text.partition("\n")
        if reason.endswith(":"):  # botocore gives the reason in the next line
            reason += f" {rest.partition(chr(10))[0]}"
        if ours is StorageUnavailableError and not end.remaining:
            msg = f"{verb} {name}: not done in {self.policy.deadline:g} s ({reason})"
            return DeadlineExceededError(msg)
        if ours is NotFoundError:
            return self._missing(verb, name, error)
        if ours is StorageUnavailableError and not share.remaining:
            # Another attempt may have a connection that answers.
            reason = f"one attempt was not done in {share.elapsed:.3g} s ({reason})"
        elif ours is StorageFullError:
            reason = f"the store is full: {reason}"
        return ours(f"{verb} {name}: {reason}")

    def _missing(self, verb: str, name: str, error: Exception) -> NotFoundError:
        """Return the error for a missing object, or for its missing container."""
        container = self.connection.kind.container_noun
        # A listing of a missing folder is empty, not an error.
        if container and (verb == "list" or is_container_missing(error)):
            url = redact_url(self.connection.url)
            return NotFoundError(f"not found: {url}: there is no such {container}")
        return NotFoundError(f"not found: {name}")
