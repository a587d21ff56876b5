import pickle
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from tieredfs import (
    ByteRange,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.testing.faults import (
    NO_FAULTS,
    CrashError,
    Effect,
    FaultPlan,
    FaultyStore,
    Plan,
    SeededPlan,
    StoreFault,
)
from tieredfs.testing.stores import scratch_store


@pytest.fixture
def store() -> Iterator[FaultyStore]:
    """A store with three objects, that does not fail yet."""
    with scratch_store() as made:
        for key in ("a", "b", "c"):
            made.put(key, key.encode() * 4, overwrite=True)
        yield FaultyStore.over(made)


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


def first(effect: Effect, *, of_writes: bool = False) -> FaultPlan:
    return FaultPlan((StoreFault(effect, 0, of_writes),))


CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: bytes(store.get("a")),
    "get_range": lambda store: bytes(store.get_range("a", 1, 3)),
    "get_ranges": lambda store: store.get_ranges("a", [ByteRange(0, 1)]),
    "head": lambda store: store.head("a"),
    "list": keys,
    "put": lambda store: store.put("d", b"d", overwrite=True),
    "put_new": lambda store: store.put_new("d", b"d"),
    "copy": lambda store: store.copy("a", "d"),
    "delete": lambda store: store.delete(["a", "b"]),
}


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("effect", [Effect.ERROR, Effect.CUT, Effect.LOST_REPLY])
def test_a_fault_is_an_error_of_the_store_and_is_recorded(
    store: FaultyStore, verb: str, effect: Effect
) -> None:
    store.follow(first(effect))
    with pytest.raises(StorageUnavailableError, match=f"^{verb} .*: {effect}$"):
        CALLS[verb](store)
    (request,) = store.requests
    assert (request.verb, request.effect) == (verb, effect)
    CALLS[verb](store)  # only the first request fails


@pytest.mark.parametrize(
    ("effect", "left"),
    [
        (Effect.ERROR, "abc"),
        (Effect.DENIED, "abc"),
        (Effect.CUT, "bc"),
        (Effect.LOST_REPLY, "c"),
        (Effect.DELAY, "c"),
    ],
)
def test_what_a_failed_delete_has_done_depends_on_the_fault(
    store: FaultyStore, effect: Effect, left: str
) -> None:
    store.follow(first(effect))
    try:
        store.delete(["a", "b"])
    except (StorageUnavailableError, PermissionDeniedError):
        assert effect != Effect.DELAY
    assert keys(store) == [*left]


def test_a_listing_that_is_cut_yields_its_first_half(store: FaultyStore) -> None:
    store.follow(first(Effect.CUT))
    listing = store.list()
    assert next(listing).key == "a"
    with pytest.raises(StorageUnavailableError):
        next(listing)


def late(at: int) -> FaultPlan:
    return FaultPlan((StoreFault(Effect.DELAY, at, seconds=7.5),))


def test_a_late_request_waits_as_long_as_the_plan_says(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    clock = SimpleNamespace(sleep=waited.append)
    monkeypatch.setattr("tieredfs.testing.faults.store.time", clock)
    slow = FaultyStore.over(store, late(1))
    assert slow.get("a") == b"aaaa"
    assert keys(slow) == ["a", "b", "c"]
    assert waited == [7.5]


def test_something_else_is_done_while_a_request_is_late(store: FaultyStore) -> None:
    delete = partial(store.delete, ["b"])
    slow = FaultyStore.over(store, late(0), during_pause=delete)
    assert keys(slow) == ["a", "c"]


def test_a_fault_is_made_of_the_name_of_its_effect() -> None:
    assert StoreFault("crash_after", 0).effect is Effect.CRASH_AFTER  # type: ignore[arg-type] # as it was printed once
    with pytest.raises(ValueError, match="none-such"):
        StoreFault("none-such", 0)  # type: ignore[arg-type] # which is what is wrong


def test_requests_are_numbered_alone_among_writes_and_among_their_like(
    store: FaultyStore,
) -> None:
    store.follow()
    store.get("a")
    store.put("a", b"", overwrite=True)
    store.get("a")
    store.put("b", b"", overwrite=True)
    counted = [(r.number, r.write, r.repeat) for r in store.requests]
    assert counted == [(0, None, 0), (1, 0, 0), (2, None, 1), (3, 1, 0)]


@pytest.mark.parametrize("is_after", [False, True])
def test_a_crash_at_a_write_leaves_what_was_written_and_ends_all_views(
    store: FaultyStore, *, is_after: bool
) -> None:
    plan = StoreFault(
        Effect.CRASH_AFTER if is_after else Effect.CRASH, 1, of_writes=True
    )
    dying = FaultyStore.over(store, FaultPlan((plan,)))
    view = dying.with_policy(RequestPolicy(attempts=1))
    view.put("d", b"", overwrite=True)
    assert view.get("d") == b""  # reads are not counted
    with pytest.raises(CrashError):
        view.put("e", b"", overwrite=True)
    dying.follow(NO_FAULTS)
    for call in CALLS.values():
        with pytest.raises(CrashError):
            call(dying)
    assert keys(store) == ["a", "b", "c", "d", *["e"] * is_after]


def test_a_crash_is_no_error_that_a_plugin_may_handle() -> None:
    assert not issubclass(CrashError, Exception)


@pytest.mark.parametrize(
    "plan",
    [
        NO_FAULTS,
        FaultPlan(
            (StoreFault(Effect.CUT, 3), StoreFault(Effect.CRASH, 0, of_writes=True))
        ),
        SeededPlan(7, 0.5, (Effect.ERROR, Effect.DELAY), ("get",), seconds=1.0),
    ],
)
def test_a_plan_is_made_again_by_its_repr(plan: Plan) -> None:
    line = repr(plan)
    assert "\n" not in line
    assert eval(line) == plan  # noqa: S307 - that is what is promised


def effects(store: ObjectStore, seed: int, order: str) -> dict[str, Effect | None]:
    faulty = FaultyStore.over(store, SeededPlan(seed, 0.5))
    for key in order:
        try:
            faulty.put(key, b"", overwrite=True)
        except StorageUnavailableError:
            continue
    return {request.key: request.effect for request in faulty.requests}


def test_a_seed_determines_the_faults_in_any_order_of_the_requests(
    store: FaultyStore,
) -> None:
    found = effects(store, 1, "defghijk")
    assert effects(store, 1, "kjihgfed") == found
    assert effects(store, 2, "defghijk") != found
    assert {None, "error", "cut"} & set(found.values()) > {None}


def test_another_process_follows_the_same_plan_from_its_beginning(
    store: FaultyStore,
) -> None:
    store.follow(first(Effect.ERROR))
    with pytest.raises(StorageUnavailableError):
        store.head("a")
    store.head("a")
    again = pickle.loads(pickle.dumps(store))  # noqa: S301 - made a line above
    with pytest.raises(StorageUnavailableError):
        again.head("a")
    assert len(again.requests) == 1
