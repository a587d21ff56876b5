"""Copies of two logs to one offset, in orders that one process alone does not have."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Self, TypeVar

import pytest

from support.made_logs import MadeLog, made_logs
from support.samples import new_store
from tieredfs import (
    AlreadyExistsError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.testing.stores import InterceptedStore
from tieredfs_kafscale import KafScale

_T = TypeVar("_T")

# Each one has an index of its own, if every batch has an entry.
MINE, THEIRS, DEAD = (
    made_logs(name, 1, batches)[0]
    for name, batches in (("a", (2, 2)), ("b", (1, 3)), ("c", (3, 1)))
)
PARTITION = MINE.metadata.partition
STEM = f"default/t/0/segment-{0:020d}."
LOG, INDEX, TIMES = (f"{STEM}{kind}" for kind in ("kfs", "index", "kfst"))
SECONDS = 20


class DeadError(StorageUnavailableError):
    """The process has died."""


class Hooked(InterceptedStore):
    """A store that is taken for a distant one, with a hook around each request."""

    before: Callable[[str, str], object]
    after: Callable[[str, str], object]

    @classmethod
    def over(
        cls,
        store: ObjectStore,
        before: Callable[[str, str], object] = lambda _verb, _key: None,
        after: Callable[[str, str], object] = lambda _verb, _key: None,
    ) -> Self:
        """Return a view of a store; the hooks are given the verb and the first key."""
        made = cls._onto(store)
        made.before, made.after = before, after
        return made

    @property
    def is_local(self) -> bool:
        return False

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        self.before(verb, keys[0])
        answer = execute()
        self.after(verb, keys[0])
        return answer


class LocalHooked(Hooked):
    """A store whose objects are put one after the other."""

    @property
    def is_local(self) -> bool:
        return True


def is_put(verb: str, key: str, wanted: str) -> bool:
    return verb.startswith("put") and key == wanted


def storage(store: ObjectStore, *, time_index: bool = False) -> KafScale:
    return KafScale(store, index_interval=1, time_index=time_index)


def copy(store: ObjectStore, made: MadeLog, *, time_index: bool = False) -> bool:
    """Copy a segment; return whether it is acknowledged."""
    metadata = replace(made.metadata, partition=PARTITION)
    try:
        storage(store, time_index=time_index).copy_log_segment(metadata, made.data)
    except (AlreadyExistsError, DeadError):
        return False
    return True


def shown(store: ObjectStore) -> list[bytes]:
    """Return the logs that a reader sees."""
    reader = storage(store)
    with suppress(NotFoundError):
        return [
            bytes(reader.fetch_log_segment(segment))
            for segment in reader.list_segments(PARTITION)
        ]
    return []


def whole(made: MadeLog) -> dict[str, bytes]:
    """Return the objects of a segment that was copied to an empty store."""
    store = new_store()
    assert copy(store, made)
    return objects(store)


def objects(store: ObjectStore) -> dict[str, bytes]:
    return {entry.key: bytes(store.get(entry.key)) for entry in store.list()}


def put(store: ObjectStore, made: MadeLog, key: str) -> None:
    store.put(key, whole(made)[key], overwrite=True)


@pytest.fixture
def store() -> ObjectStore:
    return new_store().with_policy(RequestPolicy(deadline=0.5))


@pytest.mark.parametrize("left", [LOG, INDEX])
def test_what_a_dead_copy_has_left_is_never_shown(
    store: ObjectStore, left: str
) -> None:
    put(store, DEAD, left)
    seen: list[bytes] = []
    copying = Hooked.over(store, after=lambda *_: seen.extend(shown(store)))
    assert copy(copying, MINE)
    assert set(seen) == {MINE.log}
    assert objects(store) == whole(MINE)


def test_a_segment_of_an_unused_offset_takes_a_listing_and_two_concurrent_puts(
    store: ObjectStore,
) -> None:
    requests: list[tuple[str, str]] = []
    both = threading.Barrier(2)

    def before(verb: str, key: str) -> None:
        requests.append((verb, key))
        if verb.startswith("put"):
            both.wait(SECONDS)

    assert copy(Hooked.over(store, before), MINE)
    assert requests[0] == ("list", STEM)
    assert sorted(requests[1:]) == [("put", INDEX), ("put_file", LOG)]


@pytest.mark.parametrize("hooked", [Hooked, LocalHooked])
def test_a_copy_that_was_stopped_is_not_acknowledged_over_the_log_of_another(
    store: ObjectStore, hooked: type[Hooked]
) -> None:
    stopped, replaced, ended = (threading.Event() for _ in range(3))

    def stop(verb: str, key: str) -> None:
        if is_put(verb, key, INDEX):
            stopped.set()
            replaced.wait(SECONDS)

    def go_on(verb: str, key: str) -> None:
        if is_put(verb, key, INDEX) and not replaced.is_set():
            replaced.set()
            ended.wait(SECONDS)

    with ThreadPoolExecutor(1) as pool:
        mine = pool.submit(copy, hooked.over(store, stop), MINE)
        mine.add_done_callback(lambda _: ended.set())
        assert stopped.wait(SECONDS)
        theirs = copy(hooked.over(store, go_on), THEIRS)
        acknowledged = [
            one.log
            for one, is_so in ((MINE, mine.result(SECONDS)), (THEIRS, theirs))
            if is_so
        ]
    assert acknowledged == shown(store)
    assert len(acknowledged) == 1


class TestBothHaveLookedBeforeEitherPuts:
    """One has put the log, and the other one the index."""

    @pytest.mark.parametrize("dies", [False, True])
    def test_the_index_is_replaced_or_all_is(
        self, store: ObjectStore, dies: bool
    ) -> None:
        # The one that lives has much time, for the machine may be busy.
        store = store.with_policy(RequestPolicy(deadline=0.5 if dies else 10))
        looked = threading.Barrier(2)
        happened = {key: threading.Event() for key in (LOG, INDEX)}

        def hooks(first: str, second: str, *, dies: bool) -> Hooked:
            """Return a store where the other process puts the second object."""
            looks = iter([True])

            def before(verb: str, key: str) -> None:
                if verb == "list" and next(looks, False):
                    looked.wait(SECONDS)
                if is_put(verb, key, second):
                    happened[second].wait(SECONDS)
                if dies and all(event.is_set() for event in happened.values()):
                    raise DeadError("the process died")

            def after(verb: str, key: str) -> None:
                if is_put(verb, key, first):
                    happened[first].set()

            return Hooked.over(store, before, after)

        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(copy, hooks(LOG, INDEX, dies=dies), MINE)
            other = pool.submit(copy, hooks(INDEX, LOG, dies=False), THEIRS)
            answers = one.result(SECONDS), other.result(SECONDS)
        assert answers == (not dies, dies)
        assert objects(store) == whole(THEIRS if dies else MINE)


class TestBothReplaceWhatADeadCopyHasLeft:
    def test_what_one_has_put_is_not_removed_by_the_other(
        self, store: ObjectStore
    ) -> None:
        """The other one has looked for the last time, and is slow."""
        put(store, DEAD, LOG)
        claiming, done = threading.Event(), threading.Event()

        def slow(verb: str, key: str) -> None:
            if verb == "put" and key.endswith(".claim") and not claiming.is_set():
                claiming.set()
                done.wait(SECONDS)

        with ThreadPoolExecutor(1) as pool:
            theirs = pool.submit(copy, Hooked.over(store, slow), THEIRS)
            assert claiming.wait(SECONDS)
            assert copy(store, MINE)
            done.set()
            assert not theirs.result(SECONDS)
        assert objects(store) == whole(MINE)

    def test_one_that_completes_waits_for_one_that_removes(
        self, store: ObjectStore
    ) -> None:
        put(store, MINE, LOG)
        removing, completed = threading.Event(), threading.Event()

        def slow(verb: str, key: str) -> None:
            if verb == "delete" and key == LOG:
                removing.set()
                completed.wait(SECONDS)

        def after(verb: str, key: str) -> None:
            if is_put(verb, key, INDEX):
                completed.set()

        def late(verb: str, key: str) -> None:
            # It has looked before the other one has a claim.
            if is_put(verb, key, INDEX):
                removing.wait(SECONDS)

        with ThreadPoolExecutor(2) as pool:
            theirs = pool.submit(copy, Hooked.over(store, slow), THEIRS)
            mine = pool.submit(copy, Hooked.over(store, late, after), MINE)
            answers = [mine.result(SECONDS), theirs.result(SECONDS)]
        kept = [
            made for made, answer in zip((MINE, THEIRS), answers, strict=True) if answer
        ]
        assert [made.log for made in kept] == shown(store)
        assert objects(store) == whole(kept[0])

    def test_a_claim_of_a_dead_process_is_removed(self, store: ObjectStore) -> None:
        put(store, DEAD, LOG)

        def die(verb: str, key: str) -> None:
            if verb == "delete":
                raise DeadError(f"{key}: the process died")

        assert not copy(Hooked.over(store, die), THEIRS)
        assert [key for key in objects(store) if key.endswith(".claim")]
        left = {one.key for one in storage(store).scrub(PARTITION)}
        assert left == objects(store).keys()
        assert copy(store, MINE)
        assert objects(store) == whole(MINE)


def test_the_times_of_another_log_are_not_stored_beside_this_one(
    store: ObjectStore,
) -> None:
    looked, stored = threading.Event(), threading.Event()

    def late(verb: str, _key: str) -> None:
        if verb != "list" and not looked.is_set():
            looked.set()
            stored.wait(SECONDS)

    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(copy, Hooked.over(store, late), THEIRS, time_index=True)
        assert looked.wait(SECONDS)
        assert copy(store, MINE)
        stored.set()
        assert not theirs.result(SECONDS)
    assert objects(store) == whole(MINE)


def test_the_index_of_a_large_log_is_not_alone_while_that_is_sent(
    store: ObjectStore,
) -> None:
    puts: list[str] = []

    def after(verb: str, key: str) -> None:
        if verb.startswith("put"):
            puts.append(key)

    def slow(verb: str, key: str) -> None:
        if is_put(verb, key, LOG):
            time.sleep(0.05)

    options = replace(store.options, multipart_threshold_bytes=5 << 20)
    large = made_logs("a" * (6 << 20), 1, (1,))[0]
    assert copy(Hooked.over(store, slow, after).with_options(options), large)
    assert puts == [LOG, INDEX]


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_one_is_kept_and_no_acknowledged_one_is_lost(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    store = new_store().with_policy(RequestPolicy(deadline=0.3))
    left = chance.choice([None, LOG, INDEX])
    if left is not None:
        put(store, chance.choice([DEAD, MINE]), left)
    deaths = [chance.choice([None, chance.randrange(1, 12)]) for _ in range(3)]

    def run(number: int) -> bool:
        pauses, counted = random.Random(seed * 3 + number), [0]  # noqa: S311 - as above

        def pause(_verb: str, _key: str) -> None:
            counted[0] += 1
            death = deaths[number]
            if death is not None and counted[0] > death:
                raise DeadError("the process died")
            time.sleep(pauses.choice([0, 0.001, 0.01]))

        try:
            return copy(Hooked.over(store, pause, pause), (MINE, THEIRS, MINE)[number])
        except TieredFSError:
            return False

    with ThreadPoolExecutor(3) as pool:
        mine, theirs, again = pool.map(run, range(3))
    assert not ((mine or again) and theirs)
    if mine or again or theirs:
        assert shown(store) == [THEIRS.log if theirs else MINE.log]
    else:
        assert copy(store, MINE) or shown(store) == [THEIRS.log]
