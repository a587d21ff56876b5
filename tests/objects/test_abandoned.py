"""What calls may do that were given up: land late, and keep their threads."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from typing import Any, ClassVar

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from tieredfs import (
    DeadlineExceededError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.objects.concurrency.call_with_timeout import MAX_ABANDONED_CALLS

HASTY = RequestPolicy(attempts=1, deadline=0.05)
PATIENT = RequestPolicy(deadline=30)


class Gated(MemoryFileSystem):  # type: ignore[misc] # it has no types
    """Does what it is asked when its gate is open; each connection is a new one."""

    protocol = "gated"
    gate: ClassVar[threading.Event]
    blocked: ClassVar[threading.Semaphore]

    @classmethod
    @override
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.replace("gated://", "memory://"))
        return stripped

    def _pass(self) -> None:
        if not self.gate.is_set():
            self.blocked.release()
            self.gate.wait(60)

    @override
    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._pass()
        super().pipe_file(path, value, **options)

    @override
    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        self._pass()
        super().cp_file(path1, path2, **options)

    @override
    def rm_file(self, path: str) -> None:
        self._pass()
        super()._rm(path)


@pytest.fixture
def gated() -> Iterator[type[Gated]]:
    """The filesystem, with nothing in it and its gate open."""

    class Own(Gated):
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]
        gate = threading.Event()
        blocked = threading.Semaphore(0)

    Own.__qualname__ = f"Gated-{id(Own)}"
    register_implementation("gated", Own)
    Own.gate.set()
    yield Own
    Own.gate.set()
    _registry.pop("gated")


Write = Callable[[ObjectStore], None]

WRITES: dict[str, Write] = {
    "put": lambda store: store.put("key", b"later", overwrite=True),
    "copy": lambda store: store.copy("source", "key"),
    "delete": lambda store: store.delete(["key"]),
}
LATE: dict[str, Write] = {
    "put": lambda store: store.put("key", b"late", overwrite=True),
    "copy": lambda store: store.copy("late", "key"),
    "delete": lambda store: store.delete(["key"]),
}
AFTER = {"put": b"later", "copy": b"source", "delete": None}


def content(store: ObjectStore, key: str = "key") -> bytes | None:
    """Return what is there."""
    try:
        return bytes(store.get(key))
    except NotFoundError:
        return None


def filled(policy: RequestPolicy = PATIENT) -> ObjectStore:
    """Return a store of its own connection."""
    store = ObjectStore("gated://root", policy=policy)
    store.put("key", b"first", overwrite=True)
    store.put("source", b"source", overwrite=True)
    store.put("late", b"late", overwrite=True)
    return store


def give_up(write: Write) -> None:
    """Begin a write that is not answered, and abandon it."""
    with pytest.raises(DeadlineExceededError):
        write(ObjectStore("gated://root", policy=HASTY))


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("late", LATE)
def test_a_write_that_was_given_up_never_lands_after_a_later_one(
    gated: type[Gated], late: str, verb: str
) -> None:
    store = filled()
    gated.gate.clear()
    give_up(LATE[late])
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(WRITES[verb], ObjectStore("gated://root", policy=PATIENT))
        with pytest.raises(NotYet):
            done.result(0.05)
        assert gated.blocked.acquire(timeout=10)
        assert not gated.blocked.acquire(blocking=False), "the later one has begun"
        gated.gate.set()
        done.result()
    assert content(store) == AFTER[verb]


@pytest.mark.parametrize(
    "options",
    [{"auto_mkdir": True}, {"tenant": "default"}, {"timeout": 5}, {"block_size": 7}],
)
def test_the_writes_of_two_stores_take_turns_whatever_options_they_were_made_with(
    gated: type[Gated], options: dict[str, Any]
) -> None:
    filled()
    gated.gate.clear()
    give_up(LATE["put"])
    other = ObjectStore("gated://root", options, policy=PATIENT)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(WRITES["put"], other)
        with pytest.raises(NotYet):
            done.result(0.05)
        assert gated.blocked.acquire(timeout=10)
        begun = gated.blocked.acquire(blocking=False)
        gated.gate.set()
        assert not begun, "the later one has begun"
        done.result()
    assert content(other) == b"later"


def test_the_writes_to_two_machines_do_not_wait_for_each_other(
    gated: type[Gated],
) -> None:
    gated.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        done = [
            pool.submit(
                WRITES["put"],
                ObjectStore("gated://root", {"host": name}, policy=PATIENT),
            )
            for name in ("here", "there")
        ]
        begun = [gated.blocked.acquire(timeout=10) for _ in done]
        gated.gate.set()
        for each in done:
            each.result()
    assert all(begun)


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_waits_for_an_earlier_one_ends_by_its_deadline(
    gated: type[Gated], verb: str
) -> None:
    store = filled()
    gated.gate.clear()
    give_up(LATE["put"])
    with pytest.raises(DeadlineExceededError, match="an earlier write of /root/key"):
        WRITES[verb](store.with_policy(HASTY))
    gated.gate.set()
    WRITES["put"](store)  # waits for the first
    assert content(store) == b"later"


def test_only_the_writes_of_the_same_key_wait(gated: type[Gated]) -> None:
    store = filled()
    gated.gate.clear()
    give_up(LATE["put"])
    assert content(store) == b"first"
    assert [entry.key for entry in store.list()] == ["key", "late", "source"]
    gated.blocked.acquire()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(store.put, "other", b"1", overwrite=True)
        assert gated.blocked.acquire(timeout=10)  # it has begun
        gated.gate.set()
        done.result()


@pytest.mark.parametrize("is_begun", [False, True])
def test_ctrl_c_while_a_thread_starts_leaves_no_write_that_may_land_later(
    gated: type[Gated], monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    store = filled()
    starts: list[threading.Thread] = []
    plain = threading.Thread.start

    def interrupt(thread: threading.Thread) -> None:
        if is_begun:
            plain(thread)
            assert gated.blocked.acquire(timeout=10)
        starts.append(thread)
        raise KeyboardInterrupt

    gated.gate.clear()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            LATE["put"](store)
    (thread,) = starts
    if is_begun:
        with pytest.raises(DeadlineExceededError, match="an earlier write of"):
            WRITES["put"](store.with_policy(HASTY))
    else:
        plain(thread)  # the system had it, and lets it run only now
        thread.join(10)
        assert not gated.blocked.acquire(blocking=False), "the write has begun"
    gated.gate.set()
    WRITES["put"](store)
    assert content(store) == b"later"


def abandoned_threads() -> int:
    """Count the threads that make calls."""
    return sum(thread.name == "tieredfs-call" for thread in threading.enumerate())


def test_the_threads_of_calls_that_were_given_up_are_bounded(
    gated: type[Gated],
) -> None:
    store = filled().with_policy(HASTY)
    before = abandoned_threads()
    gated.gate.clear()
    hasty = store.with_policy(RequestPolicy(attempts=1, deadline=0.02))
    for number in range(3 * MAX_ABANDONED_CALLS):  # some may be late before they begin
        if abandoned_threads() - before == MAX_ABANDONED_CALLS:
            break
        with pytest.raises(DeadlineExceededError):
            hasty.put(f"{number}", b"x", overwrite=True)
    patient = store.with_policy(RequestPolicy(attempts=1, deadline=60))
    for number in range(10):
        with pytest.raises(StorageUnavailableError):
            patient.put(f"more-{number}", b"x", overwrite=True)
    assert abandoned_threads() - before == MAX_ABANDONED_CALLS
    text = (
        f"gated://root/key: .*{MAX_ABANDONED_CALLS} calls to this store were given up"
    )
    with pytest.raises(StorageUnavailableError, match=text):
        store.get("key")
    gated.gate.set()
    store.with_policy(PATIENT).put("key", b"again", overwrite=True)  # it tries again
    assert content(store.with_policy(PATIENT)) == b"again"


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "copy", "delete", "open"]), st.booleans()),
    min_size=2,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_is_there_is_the_last_success_or_a_failure_after_it(
    gated: type[Gated], steps: list[tuple[str, bool]]
) -> None:
    """Each step is a write, or opens the gate; true closes the gate before it."""
    gated.gate.set()
    quick = RequestPolicy(attempts=1, deadline=0.01)
    store = ObjectStore("gated://root", policy=PATIENT)
    store.put("source", b"source", overwrite=True)
    store.delete(["key"])
    possible: set[bytes | None] = {None}
    for number, (verb, stall) in enumerate(steps):
        if verb == "open":
            gated.gate.set()
            continue
        if stall:
            gated.gate.clear()
        data = b"%d" % number
        outcome = {"put": data, "copy": b"source", "delete": None}[verb]
        write = partial(store_put, data) if verb == "put" else WRITES[verb]
        try:
            write(store.with_policy(PATIENT if gated.gate.is_set() else quick))
        except DeadlineExceededError:
            possible.add(outcome)
        else:
            possible = {outcome}
    gated.gate.set()
    store.delete(["source"])
    store.put("end", b"", overwrite=True)
    for thread in threading.enumerate():
        if thread.name == "tieredfs-call":
            thread.join(30)
    assert content(store) in possible


def store_put(data: bytes, store: ObjectStore) -> None:
    """Put some content."""
    store.put("key", data, overwrite=True)
