"""One call of a store: bounded, repeated, its failures made ours, and reported."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from tieredfs.errors import (
    DeadlineExceededError,
    ErrorKind,
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
from tieredfs.objects.pace import Pace
from tieredfs.objects.policy import CommonDeadline, Deadline, RequestPolicy
from tieredfs.objects.redact import redact_url

__all__ = ["Call", "Requests"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call(Generic[_T]):
    """What is asked of a backend.

    Attributes:
        verb: The store's verb.
        key: What it is about, relative to the store.
        attempt: One try, given the backend and the seconds that are left.
        size: Bytes moved, told from the answer.
        span: The range, for messages.
    """

    verb: str
    key: str
    attempt: Callable[[Backend, float], _T]
    size: Callable[[_T], int] = lambda _: 0
    span: str = ""


@dataclass(frozen=True, slots=True)
class Requests:
    """The one owner of retries, time and errors, above a connection.

    Attributes:
        connection: The backend, by URL and options.
        policy: How long and how often a call may try.
        observer: Sees every call when it has ended.
        pace: The rate at which objects are sent; None for as fast as it goes.
    """

    connection: Connection
    policy: RequestPolicy
    observer: RequestObserver | None
    pace: Pace | None = None

    def deadline(self) -> Deadline:
        """Set the moment by which a call that begins now has to end.

        Raises:
            UnsupportedOperationError: It begins where the client could never answer.
        """
        self.connection.check_thread()
        return Deadline(self.policy.deadline)

    def renewed(self, deadline: Deadline) -> Deadline:
        """Return the deadline of a call's next request: a new one where a pace is kept.

        The waits for that would use up the one that it began with.
        """
        return deadline if self.pace is None else self.deadline()

    def name(self, key: str) -> str:
        """Return what messages call an object, or the store: its URL, no secrets."""
        url = redact_url(self.connection.url)
        return f"{url}{key}" if not key or url.endswith("/") else f"{url}/{key}"

    def backend(self, verb: str, key: str, deadline: Deadline | None = None) -> Backend:
        """Return the backend; its failure to connect is one of ours, and repeated.

        Raises:
            TieredFSError: It cannot be made.
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
        deadline: Deadline | None = None,
    ) -> Backend:
        """Return the backend, which must be able to do this.

        Raises:
            UnsupportedOperationError: It is not; where no store of its kind is,
                nothing is asked.
        """
        if capability in self.connection.kind.capabilities:
            backend = self.backend(verb, key, deadline)
            if capability in backend.capabilities:
                return backend
        msg = f"{verb} {self.name(key)}: this store has no {capability.value}"
        raise UnsupportedOperationError(msg)

    def make(self, call: Call[_T], deadline: Deadline | None = None) -> _T:
        """Make a call: repeat it if that may help, tell the observer.

        Args:
            call: What is asked.
            deadline: That of the call it is a part of; its own when left out.

        Returns:
            What the attempt returned.

        Raises:
            TieredFSError: What a client raised, as one of ours.
            DeadlineExceededError: It was not done in time.
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
                    del ours  # in this frame it would keep itself, and what was put

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
                self._tell(
                    RequestEvent(
                        call.verb, call.key, moved, attempts, begun.elapsed, outcome
                    )
                )
        return answer

    def make_all(
        self, calls: Sequence[Call[_T]], deadline: Deadline, *, at_once: int
    ) -> list[_T]:
        """Make several calls, a few at a time; the first failure ends the rest.

        An attempt that is under way then goes on alone; none is made after it.

        Args:
            calls: What is asked.
            deadline: When all of them have to be done.
            at_once: Most that are under way.

        Returns:
            The answers, in the order of the calls.
        """
        if len(calls) == 1:
            return [self.make(calls[0], deadline)]
        end = CommonDeadline(deadline.remaining)
        tasks = [partial(self.make, call, end) for call in calls]
        return run_all(tasks, at_once=at_once, stop=end.expire, is_waited_for=False)

    def _tell(self, event: RequestEvent) -> None:
        """Tell the observer; what it fails by concerns nobody who made the call."""
        if self.observer is None:
            return
        try:
            self.observer.on_request(event)
        except Exception as error:  # noqa: BLE001 - an observer is anybody's
            said = self.connection.redacted(text_of(error))
            msg = f"the observer of {self.name(event.key)} failed: {said}"
            warnings.warn(msg, TieredFSWarning, stacklevel=3)

    def _failure(
        self, verb: str, name: str, error: Exception, end: Deadline, share: Deadline
    ) -> Exception:
        """Make our error of a client's; one that is ours already stays as it is."""
        ours = failure_class(error)
        if isinstance(error, TieredFSError) or ours is None:
            return error
        # One line: what Azure and Hadoop add to it is in the cause.
        text = self.connection.redacted(text_of(error))
        said, _, rest = text.partition("\n")
        if said.endswith(":"):  # botocore says the reason in the next
            said += f" {rest.partition(chr(10))[0]}"
        if ours is StorageUnavailableError and not end.remaining:
            msg = f"{verb} {name}: not done in {self.policy.deadline:g} s ({said})"
            return DeadlineExceededError(msg)
        if ours is NotFoundError:
            return self._missing(verb, name, error)
        if ours is StorageUnavailableError and not share.remaining:
            # Another attempt may have a connection that answers.
            said = f"one attempt was not done in {share.elapsed:.3g} s ({said})"
        elif ours is StorageFullError:
            said = f"the store is full: {said}"
        return ours(f"{verb} {name}: {said}")

    def _missing(self, verb: str, name: str, error: Exception) -> NotFoundError:
        """Return the error of an object that is not there, or of its container."""
        container = self.connection.kind.container
        # A listing of a folder that is not there is empty.
        if container and (verb == "list" or is_container_missing(error)):
            place = redact_url(self.connection.url)
            return NotFoundError(f"not found: {place}: there is no such {container}")
        return NotFoundError(f"not found: {name}")
