"""One call of a store, with a client whose answers are given: no server, no waiting."""

import asyncio
import re
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import fsspec.asyn
import pytest

from tieredfs import (
    DeadlineExceededError,
    ErrorKind,
    InvalidArgumentError,
    NotFoundError,
    Options,
    PermissionDeniedError,
    RequestEvent,
    RequestPolicy,
    StorageFullError,
    StorageUnavailableError,
    StoreCapability,
    TieredFSError,
    TieredFSWarning,
    UnsupportedOperationError,
)
from tieredfs.objects import RateLimit
from tieredfs.objects.backends import Backend
from tieredfs.objects.connection import Connection
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

AT_ONCE = RequestPolicy(attempts=4, backoff=0, max_backoff=0)


class Client(Backend):
    """A backend that has nothing but what the calls under test ask of it."""

    concurrency = 3
    container_noun = "bucket"

    def __init__(self) -> None:
        self.broken_by: type[Exception] | None = None

    def is_broken_by(self, error: Exception) -> bool:
        return self.broken_by is not None and isinstance(error, self.broken_by)


class Scripted(Connection):
    """A connection to that backend, which may fail to be made."""

    def __init__(self, url: str, **options: object) -> None:
        super().__init__(url, options)
        self.failures: list[Exception] = []
        self.clients: list[Client] = []

    @property
    def kind(self) -> type[Backend]:
        return Client

    def _make(self, timeout: float) -> Backend:
        assert timeout > 0
        if self.failures:
            raise self.failures.pop(0)
        self.clients.append(Client())
        return self.clients[-1]


@dataclass
class Seen:
    """An observer that keeps its events."""

    events: list[RequestEvent] = field(default_factory=list)

    def on_request(self, event: RequestEvent) -> None:
        self.events.append(event)


@dataclass
class Answers:
    """An attempt that raises errors, or returns what is not one, in order."""

    given: list[Any]
    left: list[float] = field(default_factory=list)

    def __call__(self, backend: Backend, left: float) -> Any:  # noqa: ANN401 - anything
        assert isinstance(backend, Client)
        self.left.append(left)
        answer = self.given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Sleeping(Deadline):
    """A deadline that notes how long it would have slept."""

    __slots__ = ("slept",)

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Impatient(RequestPolicy):
    """A policy whose attempts have no time."""

    __slots__ = ()

    def share(self, left: float, attempt: int) -> float:
        assert left > 0
        assert attempt > 0
        return 0.0


class BusyError(OSError):
    """A refusal of a server that says when to come again."""

    headers = {"retry-after": "7"}  # noqa: RUF012 - as clients have it


class NoSuchBucketError(FileNotFoundError):
    """botocore's, for a bucket that does not exist."""

    response = {"Error": {"Code": "NoSuchBucket"}}  # noqa: RUF012 - as clients have it


def requests(
    url: str = "s3://bucket/tier",
    policy: RequestPolicy = AT_ONCE,
    observer: Seen | None = None,
    **options: object,
) -> Requests:
    return Requests(Scripted(url, **options), policy, observer)


def client_of(made: Requests) -> Client:
    connection = made.connection
    assert isinstance(connection, Scripted)
    return connection.clients[-1]


class TestAttempts:
    def test_an_answer_is_returned_and_reported_with_its_size(self) -> None:
        seen = Seen()
        answers = Answers([b"abc"])
        call = Call("get", "a/b", answers, size=len)
        assert requests(observer=seen).make(call) == b"abc"
        (event,) = seen.events
        assert (event.verb, event.key, event.size) == ("get", "a/b", 3)
        assert (event.attempts, event.outcome) == (1, None)
        assert 0 <= event.seconds < 60

    def test_an_outage_is_retried_until_there_is_an_answer(self) -> None:
        seen = Seen()
        answers = Answers([OSError("reset"), OSError("reset"), b"x"])
        assert requests(observer=seen).make(Call("get", "k", answers)) == b"x"
        (event,) = seen.events
        assert (event.attempts, event.size, event.outcome) == (3, 0, None)

    def test_after_the_last_attempt_its_error_is_raised(self) -> None:
        seen = Seen()
        answers = Answers([OSError(f"reset {number}") for number in range(9)])
        with pytest.raises(StorageUnavailableError) as raised:
            requests(observer=seen).make(Call("get", "k", answers, span=" [1, 2)"))
        said = "get s3://bucket/tier/k [1, 2): OSError: reset 3"
        assert str(raised.value) == said
        assert isinstance(raised.value.__cause__, OSError)
        (event,) = seen.events
        assert (event.attempts, event.size) == (4, 0)
        assert event.outcome is ErrorKind.STORAGE_UNAVAILABLE

    def test_what_no_attempt_changes_is_not_retried(self) -> None:
        seen = Seen()
        answers = Answers([PermissionError("no"), b"x"])
        with pytest.raises(
            PermissionDeniedError, match=r"^put .*/k: PermissionError: no"
        ):
            requests(observer=seen).make(Call("put", "k", answers))
        assert answers.given == [b"x"]
        assert seen.events[0].outcome is ErrorKind.PERMISSION_DENIED

    @pytest.mark.parametrize("error", [KeyError("bug"), MemoryError()])
    def test_a_bug_is_raised_unchanged_and_reported_as_an_error(
        self, error: Exception
    ) -> None:
        seen = Seen()
        with pytest.raises(type(error)) as raised:
            requests(observer=seen).make(Call("get", "k", Answers([error])))
        assert raised.value is error
        assert (seen.events[0].attempts, seen.events[0].outcome) == (1, ErrorKind.ERROR)

    def test_our_own_error_is_raised_unchanged(self) -> None:
        error = InvalidArgumentError("given")
        with pytest.raises(InvalidArgumentError) as raised:
            requests().make(Call("get", "k", Answers([error])))
        assert raised.value is error

    def test_our_own_outage_is_retried_without_a_wait_of_its_own(self) -> None:
        deadline = Sleeping(600)
        answers = Answers([StorageUnavailableError("later"), b"x"])
        assert requests().make(Call("get", "k", answers), deadline) == b"x"
        assert deadline.slept == [0]

    def test_the_wait_that_a_server_asks_for_is_kept_for_that_failure_alone(
        self,
    ) -> None:
        deadline = Sleeping(600)
        answers = Answers([BusyError("busy"), OSError("reset"), b"x"])
        assert requests().make(Call("get", "k", answers), deadline) == b"x"
        assert deadline.slept == [7, 0]

    def test_a_broken_backend_is_made_anew_and_another_is_kept(self) -> None:
        made = requests()
        made.backend("get", "")
        first = client_of(made)
        first.broken_by = ConnectionResetError
        made.make(Call("get", "k", Answers([OSError("other"), b"x"])))
        assert client_of(made) is first
        made.make(Call("get", "k", Answers([ConnectionResetError(), b"x"])))
        assert client_of(made) is not first

    def test_each_attempt_has_half_of_the_time_and_the_last_all(self) -> None:
        answers = Answers([OSError("a"), OSError("b"), OSError("c"), b"x"])
        requests(policy=RequestPolicy(4, 0, 0, 100)).make(Call("get", "k", answers))
        halves, last = answers.left[:3], answers.left[3]
        assert all(40 < left <= 50 for left in halves)
        assert 90 < last <= 100


class TestDeadlines:
    def test_what_is_over_with_the_deadline_is_not_retried(self) -> None:
        seen = Seen()
        made = requests(policy=RequestPolicy(deadline=1e-9), observer=seen)
        with pytest.raises(
            DeadlineExceededError,
            match=r"^get s3://bucket/tier/k: not done in 1e-09 s \(TimeoutError\)$",
        ):
            made.make(Call("get", "k", Answers([])))
        assert seen.events == []  # no request was made

    def test_the_deadline_of_an_enclosing_call_counts(self) -> None:
        with pytest.raises(DeadlineExceededError):
            requests().make(Call("get", "k", Answers([])), Deadline(0))

    def test_an_attempt_that_is_over_before_the_deadline_is_retried(self) -> None:
        made = requests(policy=Impatient(2, 0, 0, 60))
        with pytest.raises(
            StorageUnavailableError,
            match=r"/k: one attempt was not done in [0-9.e-]+ s \(TimeoutError\)$",
        ):
            made.make(Call("get", "k", Answers([])))

    def test_an_outage_within_the_time_says_nothing_of_time(self) -> None:
        made = requests(policy=RequestPolicy(1, 0, 0, 60))
        with pytest.raises(StorageUnavailableError) as raised:
            made.make(Call("get", "k", Answers([OSError("reset")])))
        assert "not done" not in str(raised.value)

    def test_a_request_has_the_calls_deadline_or_under_a_rate_limit_a_new_one(
        self,
    ) -> None:
        made, begun = requests(), Deadline(5)
        assert made.renewed(begun) is begun
        limited = Requests(made.connection, AT_ONCE, None, RateLimit(10))
        renewed = limited.renewed(begun)
        assert 50 < renewed.remaining <= AT_ONCE.deadline

    def test_on_the_clients_own_event_loop_no_call_is_made(self) -> None:
        made, answers = requests(), Answers([b"x"])

        async def call() -> None:
            made.make(Call("get", "k", answers))

        loop = fsspec.asyn.get_loop()
        done = asyncio.run_coroutine_threadsafe(call(), loop)
        with pytest.raises(UnsupportedOperationError, match=r"asyncio\.to_thread"):
            done.result(60)
        assert answers.given == [b"x"]


class TestMessages:
    @pytest.mark.parametrize(
        ("url", "key", "name"),
        [
            ("s3://bucket/tier", "a", "s3://bucket/tier/a"),
            ("s3://bucket/tier/", "a", "s3://bucket/tier/a"),
            ("s3://bucket/tier", "", "s3://bucket/tier"),
            ("s3://bucket/tier/", "", "s3://bucket/tier/"),
            ("s3://me:secret@bucket", "a", "s3://***@bucket/a"),
        ],
    )
    def test_the_name_of_an_object_is_its_url(
        self, url: str, key: str, name: str
    ) -> None:
        assert requests(url).name(key) == name

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("one\ntwo", "OSError: one"),
            ("reason:\nhere\nmore", "OSError: reason: here"),
            ("", "OSError"),
        ],
    )
    def test_an_error_is_one_line(self, said: str, shown: str) -> None:
        with pytest.raises(StorageUnavailableError) as raised:
            requests(policy=RequestPolicy(1)).make(
                Call("get", "k", Answers([OSError(said)]))
            )
        assert str(raised.value) == f"get s3://bucket/tier/k: {shown}"

    def test_no_secret_is_in_an_error_nor_in_its_cause(self) -> None:
        made = requests(policy=RequestPolicy(1), secret="topsecret")
        with pytest.raises(StorageUnavailableError) as raised:
            made.make(Call("get", "k", Answers([OSError("with topsecret")])))
        assert "topsecret" not in str(raised.value)
        assert raised.value.__cause__ is None

    def test_a_full_store_is_said_to_be_full(self) -> None:
        error = OSError(28, "no space")
        with pytest.raises(StorageFullError, match=r"^put .*: the store is full: "):
            requests().make(Call("put", "k", Answers([error])))

    @pytest.mark.parametrize(
        ("verb", "error", "said"),
        [
            ("get", FileNotFoundError("x"), "not found: s3://bucket/tier/k"),
            ("put", FileNotFoundError("x"), "not found: s3://bucket/tier/k"),
            (
                "get",
                NoSuchBucketError("x"),
                "not found: s3://bucket/tier: there is no such bucket",
            ),
            (
                "list",
                FileNotFoundError("x"),
                "not found: s3://bucket/tier: there is no such bucket",
            ),
        ],
    )
    def test_what_is_missing_is_named(
        self, verb: str, error: Exception, said: str
    ) -> None:
        with pytest.raises(NotFoundError, match=f"^{re.escape(said)}$"):
            requests().make(Call(verb, "k", Answers([error])))

    def test_a_store_without_containers_misses_none(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Client, "container_noun", "")
        with pytest.raises(NotFoundError, match=r"^not found: s3://bucket/tier/k$"):
            requests().make(Call("list", "k", Answers([FileNotFoundError("x")])))

    def test_an_observer_that_fails_is_a_warning_without_secrets(self) -> None:
        class Failing(Seen):
            def on_request(self, event: RequestEvent) -> None:
                raise OSError(f"topsecret of {event.key}")

        made = requests(observer=Failing(), secret="topsecret")
        with pytest.warns(TieredFSWarning) as warned:
            assert made.make(Call("get", "k", Answers([b"x"]))) == b"x"
        said = str(warned[0].message)
        assert said.startswith("the observer of s3://bucket/tier/k failed: OSError: ")
        assert "topsecret" not in said
        assert warned[0].filename == __file__  # the line that made the call


class TestBackends:
    def test_a_connection_that_fails_is_retried_and_is_no_request(self) -> None:
        seen = Seen()
        made = requests(observer=seen)
        assert isinstance(made.connection, Scripted)
        made.connection.failures = [OSError("down"), OSError("down")]
        assert made.backend("get", "k") is client_of(made)
        assert seen.events == []
        made.connection.failures = [OSError("unused")]
        assert made.backend("get", "k") is client_of(made)

    def test_a_connection_that_never_comes_names_the_verb_and_the_key(self) -> None:
        made = requests()
        assert isinstance(made.connection, Scripted)
        made.connection.failures = [OSError("down")] * 9
        with pytest.raises(
            StorageUnavailableError, match=r"^get .*tier/k: OSError: down"
        ):
            made.backend("get", "k")
        assert len(made.connection.failures) == 5
        made.connection.failures = [OSError("down")] * 9
        with pytest.raises(DeadlineExceededError):
            made.backend("get", "k", Deadline(0))

    def test_a_capability_that_no_store_of_the_kind_has_costs_no_connection(
        self,
    ) -> None:
        made = requests()
        with pytest.raises(
            UnsupportedOperationError,
            match=r"^copy s3://b.*/k: this store does not support exclusive create$",
        ):
            made.need(StoreCapability.EXCLUSIVE_CREATE, "copy", "k", made.deadline())
        assert made.connection.made is None

    def test_a_capability_that_this_store_lacks_is_refused_after_connecting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = requests()
        assert made.need(
            StoreCapability.WRITE, "put", "k", made.deadline()
        ) is client_of(made)
        monkeypatch.setattr(
            client_of(made), "capabilities", frozenset({StoreCapability.RANGE_READ})
        )
        with pytest.raises(
            UnsupportedOperationError,
            match=r"^put s3://b.*/k: this store does not support put: it is read",
        ):
            made.need(StoreCapability.WRITE, "put", "k", made.deadline())

    def test_concurrency_is_the_backends_unless_it_was_chosen(self) -> None:
        made = requests()
        backend = made.backend("get", "")
        assert made.concurrency(backend) == 3
        tuned = Requests(
            made.connection, AT_ONCE, None, options=Options(max_concurrent_requests=7)
        )
        assert tuned.concurrency(backend) == 7

    def test_a_policy_is_a_policy(self) -> None:
        wrong: Any = {"attempts": 1}
        with pytest.raises(InvalidArgumentError, match=r"RequestPolicy\(…\), not dict"):
            Requests(Scripted("s3://b"), wrong, None)


class TestSeveralCalls:
    def ask(self, answers: list[Any]) -> list[Call[Any]]:
        return [Call("get", str(n), Answers([one])) for n, one in enumerate(answers)]

    @pytest.mark.parametrize("count", [0, 1, 2, 9])
    def test_the_answers_are_in_the_order_of_the_calls(self, count: int) -> None:
        calls = self.ask(list(range(count)))
        made = requests().make_all(calls, Deadline(60), concurrency=3)
        assert made == list(range(count))

    def test_the_first_failure_is_raised_and_ends_the_retries_of_the_rest(self) -> None:
        failing = Answers([PermissionError("no")])
        retried = Answers([OSError("reset")] * 4)
        policy = RequestPolicy(attempts=4, backoff=300, max_backoff=300, deadline=900)
        calls = [Call("get", "a", retried), Call("get", "b", failing)]
        with pytest.raises(TieredFSError, match="tier/b: PermissionError"):
            requests(policy=policy).make_all(calls, Deadline(900), concurrency=2)

    def test_after_a_failure_an_attempt_in_progress_is_not_waited_for(self) -> None:
        begun, released, ended = Event(), Event(), Event()

        def hang(_: Backend, __: float) -> None:
            begun.set()
            released.wait(60)
            ended.set()

        def fail(_: Backend, __: float) -> None:
            assert begun.wait(60)
            raise PermissionError("no")

        calls = [Call("get", "a", hang), Call("get", "b", fail)]
        try:
            with pytest.raises(PermissionDeniedError):
                requests().make_all(calls, Deadline(900), concurrency=2)
            assert not ended.is_set()
        finally:
            released.set()

    def test_all_calls_end_by_the_deadline_that_is_given(self) -> None:
        calls = self.ask([1, 2])
        with pytest.raises(DeadlineExceededError):
            requests().make_all(calls, Deadline(0), concurrency=2)
        with pytest.raises(DeadlineExceededError):
            requests().make_all(calls[:1], Deadline(0), concurrency=2)
