"""Each record that was appended is there once, whatever fails on the way."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Self

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from typing_extensions import override

from servers import ProxiedBucket
from support.log_directories import ID
from tieredfs import (
    AlreadyExistsError,
    DeadlineExceededError,
    NotFoundError,
    ObjectStore,
    RequestCounter,
    RequestPolicy,
    StorageUnavailableError,
    Tier,
    Topic,
    TopicIdPartition,
)
from tieredfs.format.compression.codec import Codec
from tieredfs.log.append.append import Appender
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.objects import Content
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import sample
from tieredfs.testing.stores import READS, WRITES, WatchedStore, scratch_store

PARTITION = TopicIdPartition("t", 0, ID)
NOW = 1_800_000_000_000
ALL = READS | WRITES
STEPS = 8
"""Requests of an append to a topic that has a segment."""

Who = Literal["the same", "another", "the same, then another", "another, then the same"]
WHO: tuple[Who, ...] = (
    "the same",
    "another",
    "the same, then another",
    "another, then the same",
)


def topic_on(store: ObjectStore) -> Topic:
    """Open the topic, or begin it: each one is a writer of its own."""
    tier = Tier(SingleObject(store))
    try:
        return tier.topic("t", topic_id=ID)
    except NotFoundError:
        return tier.create_topic("t", topic_id=ID)


def values(*texts: str) -> pa.Table:
    return pa.table({"value": pa.array([text.encode() for text in texts], pa.binary())})


def stored(store: ObjectStore) -> list[str]:
    """Return what is there in the order of offsets, which have no gap."""
    try:
        table = Tier(SingleObject(store)).topic("t").scan().to_table()
    except NotFoundError:
        return []
    assert table["offset"].to_pylist() == list(range(table.num_rows))
    reports = verify(SingleObject(store), [PARTITION], Depth.EVERYTHING)
    assert [problem for report in reports for problem in report.problems] == []
    return [value.decode() for value in table["value"].to_pylist()]


def append_as_documented(topic: Topic, records: pa.Table) -> range:
    """Append as the how-to does: until it is done."""
    while True:
        try:
            return topic.append(records)
        except (
            AlreadyExistsError,
            StorageUnavailableError,
            DeadlineExceededError,
        ):
            continue


def broken_append(store: ObjectStore, limit: int, *, is_landed: bool) -> Topic:
    """Return a writer whose first append failed after some requests, and now works."""
    topic_on(store).append(values("zero"))
    watched = WatchedStore.over(store, ALL)
    topic = topic_on(watched)
    watched.calls, watched.limit, watched.is_landed = 0, limit, is_landed
    with pytest.raises(StorageUnavailableError):
        topic.append(values("a", "b"))
    watched.limit = None
    return topic


def test_the_steps_are_all_that_there_are(memory: ObjectStore) -> None:
    topic_on(memory).append(values("zero"))
    watched = WatchedStore.over(memory, ALL)
    topic = topic_on(watched)
    watched.calls = 0
    topic.append(values("a"))
    assert watched.calls == STEPS


def test_the_segment_before_is_asked_once(memory: ObjectStore) -> None:
    topic_on(memory).append(values("zero"))
    counter = RequestCounter()
    topic = topic_on(ObjectStore(memory.url, observer=counter))
    before = counter.by_verb()
    topic.append(values("a"))
    asked = Counter(counter.by_verb())
    asked.subtract(before)
    once = ("get_range", "copy", "delete")
    assert +asked == {"list": 3, "put": 2, **dict.fromkeys(once, 1)}


class TestEveryStepFails:
    @pytest.mark.parametrize("who", WHO)
    @pytest.mark.parametrize("is_landed", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("limit", range(STEPS))
    def test_who_appends_next_has_its_records_there_once(
        self, limit: int, *, is_landed: bool, who: Who, memory: ObjectStore
    ) -> None:
        first = broken_append(memory, limit, is_landed=is_landed)
        expected = Counter({"zero": 1})
        for name in who.split(", then "):
            if name == "the same":
                found = append_as_documented(first, values("a", "b"))
                table = topic_on(memory).scan(start=found.start, end=found.stop)
                assert table.to_table()["value"].to_pylist() == [b"a", b"b"]
                expected.update("ab")
            else:
                append_as_documented(topic_on(memory), values("c"))
                expected.update("c")
        if who == "another":  # it may have made the other one's a segment
            for unknown in "ab":
                assert Counter(stored(memory))[unknown] <= 1
                expected[unknown] = Counter(stored(memory))[unknown]
        assert Counter(stored(memory)) == +expected

    @pytest.mark.parametrize("is_landed", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("limit", range(STEPS))
    def test_other_records_of_the_same_writer_go_behind_what_is_there(
        self, limit: int, *, is_landed: bool, memory: ObjectStore
    ) -> None:
        topic = broken_append(memory, limit, is_landed=is_landed)
        topic.append(values("c"))  # no other writer: it is not told of one
        assert stored(memory) in (["zero", "c"], ["zero", "a", "b", "c"])
        found = topic.append(values("a", "b"))  # what failed
        assert sorted(stored(memory)) == ["a", "b", "c", "zero"]
        assert found.start in {1, 2}
        assert topic.append(values("a", "b")) == range(4, 6)  # which is another

    @pytest.mark.parametrize("limit", range(STEPS))
    def test_it_may_fail_again_and_again(self, limit: int, memory: ObjectStore) -> None:
        topic_on(memory).append(values("zero"))
        watched = WatchedStore.over(memory, WRITES)
        topic = topic_on(watched)
        for number in itertools.count():
            watched.calls, watched.limit = 0, min(limit + number, 2 * STEPS)
            try:
                assert topic.append(values("a")) == range(1, 2)
            except StorageUnavailableError:
                continue
            break
        assert stored(memory) == ["zero", "a"]


@pytest.mark.parametrize("limit", range(STEPS))
def test_what_a_dead_append_left_does_not_bring_a_deleted_segment_back(
    limit: int, memory: ObjectStore
) -> None:
    broken_append(memory, limit, is_landed=False)
    storage = SingleObject(memory)
    for segment in storage.list_segments(PARTITION)[1:]:  # it had come to be one
        storage.delete_log_segment(segment)
        append_as_documented(topic_on(memory), values("next"))
        assert stored(memory) == ["zero", "next"]


@pytest.mark.parametrize("is_landed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("limit", range(STEPS))
def test_an_append_in_doubt_overlaps_nothing_that_began_before_it_once_the_end_is_gone(
    limit: int, *, is_landed: bool, memory: ObjectStore
) -> None:
    writer = broken_append(memory, limit, is_landed=is_landed)
    storage = SingleObject(memory)
    for segment in storage.list_segments(PARTITION):
        storage.delete_log_segment(segment)
    topic_on(memory).append(values("c", "d", "e"))
    append_as_documented(writer, values("a", "b"))  # it began at offset 1
    assert stored(memory) == ["c", "d", "e", "a", "b"]
    topic_on(memory).append(values("f"))
    assert stored(memory) == ["c", "d", "e", "a", "b", "f"]


class Interrupted(ObjectStore):
    """The same objects, where something happens at certain writes.

    Attributes:
        plan: What happens, by the number of the write: before it, or after.
    """

    plan: Mapping[tuple[int, str], Callable[[], None]]
    writes: int

    @classmethod
    def over(cls, store: ObjectStore) -> Self:
        """Return another store over the objects of ``store``, on its connections."""
        made = cls.__new__(cls)
        vars(made).update(vars(store))
        made.plan, made.writes = {}, 0
        return made

    @override
    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        number = self._begin()
        super().put(key, data, overwrite=overwrite)
        self._happen(number, "after")

    @override
    def put_new(self, prefix: str, data: bytes | bytearray | memoryview) -> str:
        number = self._begin()
        key = super().put_new(prefix, data)
        self._happen(number, "after")
        return key

    @override
    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        raise AssertionError(key)

    @override
    def copy(self, source: str, target: str) -> None:
        number = self._begin()
        super().copy(source, target)
        self._happen(number, "after")

    @override
    def delete(self, keys: Iterable[str]) -> None:
        number = self._begin()
        super().delete(keys)
        self._happen(number, "after")

    def _begin(self) -> int:
        self.writes += 1
        number = self.writes
        self._happen(number, "before")
        return number

    def _happen(self, number: int, when: str) -> None:
        self.plan.get((number, when), lambda: None)()


def fail() -> None:
    raise StorageUnavailableError("a fault was injected")


class TestCancelling:
    @pytest.mark.parametrize("write", range(1, 6))
    @pytest.mark.parametrize("is_followed", [False, True])
    def test_an_append_that_is_cancelled_on_the_way_is_there_or_an_error(
        self, write: int, *, is_followed: bool, memory: ObjectStore
    ) -> None:
        topic_on(memory).append(values("zero"))
        store = Interrupted.over(memory)
        topic = topic_on(store)

        def cancel() -> None:
            SingleObject(memory).cancel_copying(PARTITION)
            if is_followed:
                append_as_documented(topic_on(memory), values("next"))

        store.plan = {(write, "after"): cancel}
        try:
            found = topic.append(values("a"))
        except (StorageUnavailableError, AlreadyExistsError):
            assert "a" not in stored(memory)
            found = append_as_documented(topic, values("a"))
        assert stored(memory)[found.start] == "a"
        rest = ["next"] if is_followed and store.writes >= write else []
        assert sorted(stored(memory)) == sorted(["zero", "a", *rest])

    def test_a_layouts_own_append_does_not_succeed_with_nothing_stored(
        self, memory: ObjectStore
    ) -> None:
        one = sample(PARTITION, 0)
        store = Interrupted.over(memory)
        cancel = SingleObject(memory).cancel_copying
        store.plan = {(2, "after"): lambda: cancel(PARTITION)}
        with pytest.raises(StorageUnavailableError, match="append again"):
            SingleObject(store).append_log_segment(one.metadata, one.data)
        SingleObject(store).append_log_segment(one.metadata, one.data)
        (listed,) = SingleObject(memory).list_segments(PARTITION)
        assert listed.id == one.metadata.id

    def test_what_was_cancelled_does_not_come_back_beside_another(
        self, memory: ObjectStore
    ) -> None:
        one, other = sample(PARTITION, 0), sample(PARTITION, 0, "other")
        store = Interrupted.over(memory)
        store.plan = {(3, "before"): fail}
        with pytest.raises(StorageUnavailableError):
            SingleObject(store).append_log_segment(one.metadata, one.data)
        SingleObject(memory).cancel_copying(PARTITION)
        SingleObject(memory).append_log_segment(other.metadata, other.data)
        with pytest.raises(AlreadyExistsError):
            SingleObject(memory).append_log_segment(one.metadata, one.data)
        (listed,) = SingleObject(memory).list_segments(PARTITION)
        assert listed.id == other.metadata.id


class TestTheSameBytes:
    @pytest.mark.parametrize("is_landed", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("limit", range(STEPS))
    def test_of_two_writers_each_is_told_of_its_own(
        self, limit: int, *, is_landed: bool, memory: ObjectStore
    ) -> None:
        watched = WatchedStore.over(memory, ALL, limit=limit, is_landed=is_landed)
        writers = [
            Appender(SingleObject(store), PARTITION) for store in (watched, memory)
        ]

        def append(number: int) -> range:
            return writers[number].append(values("a"), codec=Codec.NONE, now_ms=NOW)

        found: list[range] = []
        try:
            found.append(append(0))
        except StorageUnavailableError:
            watched.limit = None
        for number in (1, 0) if not found else (1,):
            try:
                found.append(append(number))
            except AlreadyExistsError:
                found.append(append(number))
        assert sorted(one.start for one in found) == [0, 1]
        assert stored(memory) == ["a", "a"]

    def test_the_same_segment_appended_again_is_found_there(
        self, memory: ObjectStore
    ) -> None:
        one, other = sample(PARTITION, 0), sample(PARTITION, 0, "other")
        for _ in range(2):
            SingleObject(memory).append_log_segment(one.metadata, one.data)
        with pytest.raises(AlreadyExistsError):
            SingleObject(memory).append_log_segment(other.metadata, other.data)
        (listed,) = SingleObject(memory).list_segments(PARTITION)
        assert listed.id == one.metadata.id
        assert list(SingleObject(memory).scrub(PARTITION)) == []


def test_after_a_success_the_same_records_are_appended_again(
    memory: ObjectStore,
) -> None:
    topic = topic_on(memory)
    records = values("a", "b")
    assert topic.append(records) == range(2)
    assert topic.append(records) == range(2, 4)
    assert stored(memory) == ["a", "b", "a", "b"]


def test_threads_that_share_a_topic_append_one_after_the_other(
    memory: ObjectStore,
) -> None:
    topic = topic_on(memory)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: topic.append(values(str(n))), range(12)))
    assert sorted(stored(memory), key=int) == [str(n) for n in range(12)]


def test_a_claim_of_an_earlier_release_is_completed(memory: ObjectStore) -> None:
    one = sample(PARTITION, 0)
    store = Interrupted.over(memory)
    store.plan = {(3, "before"): fail}
    with pytest.raises(StorageUnavailableError):
        SingleObject(store).append_log_segment(one.metadata, one.data)
    for key in [entry.key for entry in memory.list()]:  # as it was written then
        name, content = key, bytes(memory.get(key))
        memory.delete([key])
        if "/aside/" in key:
            name = key.partition(".")[0]
        else:
            content = content.partition(b".")[0]
        memory.put(name, content, overwrite=True)
    assert len(list(SingleObject(memory).scrub(PARTITION))) == 1
    other = sample(PARTITION, 0, "other")
    with pytest.raises(AlreadyExistsError):
        SingleObject(memory).append_log_segment(other.metadata, other.data)
    (listed,) = SingleObject(memory).list_segments(PARTITION)
    assert listed.id == one.metadata.id
    SingleObject(memory).append_log_segment(one.metadata, one.data)


class TestLostReplies:
    """Of a real server: what was done, and the writer never heard of."""

    @pytest.mark.parametrize("attempts", [1, 3])
    @pytest.mark.parametrize("skip", range(6))
    @pytest.mark.parametrize("times", [1, 2])
    def test_each_record_is_there_once(
        self, s3_proxied: ProxiedBucket, attempts: int, skip: int, times: int
    ) -> None:
        url, options, proxy = s3_proxied
        policy = RequestPolicy(attempts=attempts, backoff=0.001, max_backoff=0.01)
        plain = ObjectStore(url, options)
        topic_on(plain).append(values("zero"))
        topic = topic_on(ObjectStore(url, options, policy=policy))
        proxy.add("PUT", lose_reply=True, skip=skip, times=times)
        assert append_as_documented(topic, values("a")) == range(1, 2)
        proxy.clear()
        assert append_as_documented(topic, values("b")) == range(2, 3)
        assert stored(plain) == ["zero", "a", "b"]


class Writer:
    """A writer of the model: what it was told of its records."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = Interrupted.over(store)
        self.topic = topic_on(self.store)
        self.written: list[str] = []
        self.unknown: list[str] = []

    def append(self, text: str) -> None:
        """Append once; ``text`` may be one whose outcome is unknown."""
        self.store.writes = 0
        try:
            self.topic.append(values(text))
        except AlreadyExistsError:
            if text in self.unknown:
                self.unknown.remove(text)
        except StorageUnavailableError:
            if text not in self.unknown:
                self.unknown.append(text)
        else:
            self.written.append(text)
            if text in self.unknown:
                self.unknown.remove(text)


OUTCOMES = st.sampled_from(["fail", "cancel", "rival"])
FAULTS = st.dictionaries(
    st.tuples(st.integers(1, 5), st.sampled_from(["before", "after"])),
    OUTCOMES,
    max_size=2,
)
ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), FAULTS), min_size=1, max_size=8
)


@settings(max_examples=30)
@given(actions=ACTIONS, is_drained=st.booleans())
def test_what_was_acknowledged_is_there_once_and_what_is_unknown_at_most(
    actions: list[tuple[int, bool, dict[tuple[int, str], str]]], *, is_drained: bool
) -> None:
    with scratch_store() as store:
        writers = [Writer(store) for _ in range(3)]
        texts = map(str, itertools.count())

        def rival(number: int) -> Callable[[], None]:
            other = writers[(number + 1) % 3]

            def append() -> None:
                other.store.plan = {}
                other.append(next(texts))

            return append

        def cancel() -> None:
            SingleObject(store).cancel_copying(PARTITION)

        for number, again, faults in actions:
            writer = writers[number]
            happen = {"fail": fail, "cancel": cancel, "rival": rival(number)}
            writer.store.plan = {at: happen[what] for at, what in faults.items()}
            text = writer.unknown[0] if again and writer.unknown else next(texts)
            writer.append(text)
        for writer in writers:
            writer.store.plan = {}
            while is_drained and writer.unknown:
                text = writer.unknown[0]
                append_as_documented(writer.topic, values(text))
                writer.unknown.remove(text)
                writer.written.append(text)
        found = Counter(stored(store))
        written = Counter(text for writer in writers for text in writer.written)
        unknown = Counter(text for writer in writers for text in writer.unknown)
        assert found - unknown == written
        assert max(found.values(), default=1) == 1
