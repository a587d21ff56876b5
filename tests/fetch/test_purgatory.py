"""Each fetch is completed once, by its deadline, whatever its attempts do."""

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tieredfs import (
    ClosedError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    StorageUnavailableError,
)
from tieredfs.fetch.backoff import Backoff
from tieredfs.fetch.purgatory import FetchPurgatory, PurgatoryLimits

Call = Callable[[], object]

SECONDS = 10.0
WAIT_SECONDS = 30.0


@dataclass(eq=False)
class Asked:
    """A fetch that a test has submitted.

    Attributes:
        end: When it has to be completed.
        attempts: The numbers of its attempts.
        completed: How often it was completed.
    """

    end: float
    attempts: list[int] = field(default_factory=list)
    completed: int = 0
    future: Future[int] = field(default_factory=Future)


class PurgatoryMachine(RuleBasedStateMachine):
    """Threads, clock and store are those of the machine, which goes step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.delayed: list[tuple[float, Call]] = []
        self.queue: list[Call] = []
        self.asked: list[Asked] = []
        self.wrong: list[tuple[float, int]] = []
        self.closed = False
        self.next_outcome: Callable[[Asked], int] = lambda _: 0

    @initialize(threads=st.integers(1, 3), pending=st.integers(1, 3))
    def create(self, threads: int, pending: int) -> None:
        """Make a purgatory."""
        self.limits = PurgatoryLimits(threads, pending)
        self.purgatory = FetchPurgatory(
            self.limits,
            backoff=Backoff(None, 1.0, 4.0),
            clock=lambda: self.now,
            after=lambda seconds, call: self.delayed.append((self.now + seconds, call)),
            drawn=lambda: 0.5,
            begin=self.queue.append,
        )

    def left(self) -> list[Asked]:
        """Return the fetches that are not completed."""
        return [one for one in self.asked if not one.future.done()]

    @rule(seconds=st.sampled_from([0.5, 3.0, SECONDS]))
    def submit(self, seconds: float) -> None:
        """Submit a fetch: refused if closed, or if as many as allowed are there."""
        one = Asked(self.now + seconds)

        def attempt(left: float, number: int) -> int:
            one.attempts.append(number)
            # What is raised here becomes the fetch's own error.
            is_due = left == pytest.approx(one.end - self.now)
            if one.future.done() or not is_due:
                self.wrong.append((left, number))
            return self.next_outcome(one)

        most = self.limits.threads + self.limits.max_pending
        try:
            one.future = self.purgatory.submit("block", attempt, seconds)
        except ClosedError:
            assert self.closed
        except StorageUnavailableError:
            assert len(self.left()) >= most
        else:
            assert not self.closed
            assert len(self.left()) < most
            one.future.add_done_callback(
                lambda _: setattr(one, "completed", one.completed + 1)
            )
            assert not one.future.cancel()  # others may wait for it
            self.asked.append(one)

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        """Let a thread make the next attempt."""
        kind = data.draw(st.sampled_from(["good", "bad", "gone", "late", "slow"]))

        def outcome(one: Asked) -> int:
            if kind == "slow":  # it goes on after its deadline
                self.pass_until(one.end + 1)
                assert one.future.done()
                return 1
            if kind == "bad":
                raise StorageUnavailableError("try again")
            if kind == "late":
                raise DeadlineExceededError("of this attempt")
            if kind == "gone":
                raise NotFoundError("deleted")
            return 1

        self.next_outcome = outcome
        done = {one for one in self.asked if one.future.done()}
        self.queue.pop(0)()
        new = [one for one in self.asked if one.future.done() and one not in done]
        if kind == "gone":
            for one in new:
                assert isinstance(one.future.exception(), NotFoundError)

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.pass_until(self.now + seconds)

    def pass_until(self, until: float) -> None:
        """Let time pass, and make the calls that become due, in their order."""
        while due := [one for one in self.delayed if one[0] <= until]:
            first = min(due, key=lambda one: one[0])
            self.delayed.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = until

    @rule()
    def close(self) -> None:
        """Close it: everything is completed."""
        self.purgatory.close()
        self.closed = True
        assert not self.left()

    @invariant()
    def each_is_completed_once_and_in_time(self) -> None:
        """Compare every fetch with what was asked."""
        assert not self.wrong
        for one in self.asked:
            assert one.completed == int(one.future.done())
            assert one.future.done() or self.now < one.end
            assert one.attempts == list(range(1, len(one.attempts) + 1))

    def teardown(self) -> None:
        """At the end nothing is left that was not completed."""
        if self.asked:
            self.pass_until(max(one.end for one in self.asked))
        self.each_is_completed_once_and_in_time()
        assert not self.left()


PurgatoryMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None
)
TestPurgatoryMachine = PurgatoryMachine.TestCase


@pytest.mark.parametrize("name", PurgatoryLimits.__slots__)
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_limit_that_allows_nothing_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be"):
        PurgatoryLimits(**{name: value})


def test_a_full_queue_is_an_error_at_once_that_names_what_was_asked() -> None:
    release = threading.Event()

    def attempt(left: float, number: int) -> int:
        del left, number
        assert release.wait(WAIT_SECONDS)
        return 1

    with FetchPurgatory(PurgatoryLimits(threads=1, max_pending=1)) as purgatory:
        found = [purgatory.submit(f"block {n}", attempt, SECONDS) for n in range(2)]
        with pytest.raises(StorageUnavailableError, match="block 2: 1 fetches wait"):
            purgatory.submit("block 2", attempt, SECONDS)
        release.set()
        assert [one.result(WAIT_SECONDS) for one in found] == [1, 1]


def test_a_deadline_passes_although_every_thread_hangs() -> None:
    release = threading.Event()

    def hang(left: float, number: int) -> bool:
        del left, number
        return release.wait(WAIT_SECONDS)

    with FetchPurgatory(PurgatoryLimits(threads=1)) as purgatory:
        running = purgatory.submit("first", hang, 0.05)
        queued = purgatory.submit("second", hang, 0.05)
        for name, future in (("first", running), ("second", queued)):
            with pytest.raises(DeadlineExceededError, match=name):
                future.result(WAIT_SECONDS)
        release.set()


def test_a_failure_that_passes_is_repeated_and_its_last_error_is_the_deadlines() -> (
    None
):
    tries: list[int] = []

    def attempt(left: float, number: int) -> int:
        assert 0 < left <= SECONDS
        tries.append(number)
        if number < 3:
            raise StorageUnavailableError("503")
        return number

    quick = Backoff(None, 0.001, 0.002)
    with FetchPurgatory(backoff=quick) as purgatory:
        assert purgatory.submit("block", attempt, SECONDS).result(WAIT_SECONDS) == 3
    assert tries == [1, 2, 3]


def test_closing_completes_what_waits_and_refuses_what_comes() -> None:
    release = threading.Event()
    purgatory = FetchPurgatory(PurgatoryLimits(threads=1))
    futures = [
        purgatory.submit(f"block {n}", lambda *_: release.wait(WAIT_SECONDS), SECONDS)
        for n in range(3)
    ]
    purgatory.close()
    purgatory.close()
    for future in futures:
        with pytest.raises(ClosedError):
            future.result(WAIT_SECONDS)
    with pytest.raises(ClosedError, match="block 3"):
        purgatory.submit("block 3", lambda *_: 1, SECONDS)
    release.set()


def test_nothing_that_was_fetched_is_held_and_no_thread_when_it_is_closed() -> None:
    class Source:
        """What a fetch refers to."""

        def fetch(self, left: float, number: int) -> int:
            assert left > 0
            return number

    source = Source()
    gone = weakref.ref(source)
    with FetchPurgatory(PurgatoryLimits(threads=1)) as purgatory:
        assert purgatory.submit("a", source.fetch, 3600.0).result(WAIT_SECONDS) == 1
        del source
        # The one thread has ended the first when it begins the next.
        assert purgatory.submit("b", lambda *_: 2, 3600.0).result(WAIT_SECONDS) == 2
        gc.collect()
        assert gone() is None
    assert _ends("tieredfs-delayed")


def _ends(name: str) -> bool:
    """Wait for threads of a name, and return whether they have ended."""
    threads = [one for one in threading.enumerate() if one.name == name]
    for one in threads:
        one.join(WAIT_SECONDS)
    return not any(one.is_alive() for one in threads)
