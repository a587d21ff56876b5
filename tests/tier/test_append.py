"""Records are appended whole or not at all, by one writer at a time."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers import Bucket
from support.golden import rows_of
from support.log_directories import (
    ID,
    OTHER_ID,
    log_of,
    native,
    push_all,
    recorded,
    small,
    source_of,
    topic_of,
    write_log,
)
from support.segments import records
from support.stores import make_place, open_store
from support.wire import encode_batch
from tieredfs import (
    AlreadyExistsError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    StorageFullError,
    StorageUnavailableError,
    Tier,
    Topic,
    UnsupportedOperationError,
    open_tier,
)
from tieredfs.format.compression.codec import Codec, CodecName
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.records.schema import SCHEMA
from tieredfs.log.append.append import Appender
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

_Begin = Callable[[], Topic]
_NONE = Codec.NONE
NOW = 1_800_000_000_000


@pytest.fixture
def tier(place: Bucket) -> Tier:
    """An empty tier on each backend."""
    return Tier(native(place))


@pytest.fixture
def topic(memory: ObjectStore) -> Topic:
    """A topic that was just begun, in memory."""
    return Tier(SingleObject(memory)).create_topic("t")


@pytest.fixture(scope="module")
def begun(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> _Begin:
    """Begin a topic in a store of its own, as often as it is called."""
    numbers = count()

    def begin() -> Topic:
        place = make_place("memory", request, tmp_path_factory.mktemp("unused"))
        return Tier(native(place)).create_topic(f"t{next(numbers)}")

    return begin


def topic_storage(topic: Topic) -> SingleObject:
    storage = topic.reader(0).storage
    assert isinstance(storage, SingleObject)
    return storage


def values(*texts: str) -> pa.Table:
    return pa.table({"value": pa.array([text.encode() for text in texts], pa.binary())})


def stored_values(topic: Topic) -> list[bytes]:
    found: list[bytes] = topic.scan(columns=["value"]).to_table()["value"].to_pylist()
    return found


def check_sound(storage: SingleObject) -> None:
    reports = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    assert [problem for report in reports for problem in report.problems] == []


class TestWhatIsAppended:
    def test_it_is_read_from_where_it_was_put(self, tier: Tier) -> None:
        topic = tier.create_topic("t")
        assert topic.append(values("a", "b")) == range(2)
        assert topic.append(values("c")) == range(2, 3)
        assert topic.end_offsets() == {0: 3}
        again = Tier(tier.storage).topic("t")
        assert again.scan().to_table()["offset"].to_pylist() == [0, 1, 2]
        assert stored_values(again) == [b"a", b"b", b"c"]
        assert isinstance(tier.storage, SingleObject)
        check_sound(tier.storage)

    @pytest.mark.parametrize("compression", get_args(CodecName))
    def test_every_codec_gives_the_records_back(
        self, compression: CodecName, topic: Topic
    ) -> None:
        table = pa.table(
            {
                "key": pa.array([b"k", None, b"\xff" * 3000]),
                "value": pa.array([None, b"", b"\0"]),
                "headers": pa.array(
                    [
                        None,
                        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
                        None,
                    ],
                    SCHEMA.field("headers").type,
                ),
                "timestamp": pa.array([5, -5, 5]).cast(pa.timestamp("ms", tz="UTC")),
            }
        )
        topic.append(table, compression=compression)
        found = topic.scan().to_table()
        assert found.select(table.column_names).cast(table.schema) == table

    def test_many_records_become_batches_of_a_readable_size(self, topic: Topic) -> None:
        table = values(*(f"{n:0100d}" for n in range(50_000)))
        assert topic.append(table) == range(50_000)
        assert (
            topic.scan().to_table()["value"].to_pylist() == table["value"].to_pylist()
        )
        some = topic.read(0, 40_000, 1)
        assert some["offset"][0].as_py() == 40_000
        assert 0 < some.num_rows < 20_000

    def test_a_record_without_a_time_gets_the_present_one(
        self, memory: ObjectStore
    ) -> None:
        topic = Tier(SingleObject(memory)).create_topic("t")
        part = topic.reader(0).partition
        stamps = pa.array([None, 7], pa.timestamp("ms", tz="UTC"))
        table = values("a", "b").append_column("timestamp", stamps)
        for rows in (table, values("c")):
            Appender(topic_storage(topic), part).append(rows, codec=_NONE, now_ms=NOW)
        found = topic.scan().to_table()["timestamp"].cast(pa.int64()).to_pylist()
        assert found == [NOW, 7, NOW]
        at = topic.offsets_for_times({0: NOW})[0]
        assert at is not None
        assert (at.offset, at.timestamp) == (0, NOW)

    @settings(max_examples=30)
    @given(
        tables=st.lists(
            st.lists(
                st.tuples(
                    st.none() | st.binary(max_size=20),
                    st.none() | st.binary(max_size=20),
                    st.integers(-(2**62), 2**62),
                ),
                min_size=1,
                max_size=5,
            ),
            min_size=1,
            max_size=3,
        )
    )
    def test_whatever_is_appended_comes_back_in_order(
        self, tables: list[list[tuple[bytes | None, bytes | None, int]]], begun: _Begin
    ) -> None:
        topic = begun()
        end = 0
        for rows in tables:
            keys, contents, stamps = zip(*rows, strict=True)
            table = pa.table(
                {
                    "key": pa.array(keys, pa.binary()),
                    "value": pa.array(contents, pa.binary()),
                    "timestamp": pa.array(stamps, pa.int64()).cast(
                        pa.timestamp("ms", tz="UTC")
                    ),
                }
            )
            assert topic.append(table) == range(end, end + len(rows))
            end += len(rows)
        found = rows_of(topic.scan().to_table())
        assert [(r["key"], r["value"], r["timestamp"]) for r in found] == [
            row for rows in tables for row in rows
        ]
        assert [row["offset"] for row in found] == list(range(end))


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"value": [b"x"], "offset": [0]}, "column 'offset'"),
            ({"nosuch": [b"x"]}, "column 'nosuch'"),
            ({"value": [1.5]}, "column 'value' is not binary"),
            ({"timestamp": ["now"]}, "column 'timestamp'"),
            ({"headers": [[{"key": None, "value": b""}]]}, "a header has no key"),
            ({"headers": [[{"key": "k", "val": b""}]]}, "fields key, val: a header"),
            ({"headers": [[{"key": "k"}]]}, "the fields key: a header has key and"),
            ({"value": pa.array([], pa.binary())}, "no records"),
            ({}, "no records"),
        ],
        ids=[
            "offset",
            "nosuch",
            "value",
            "timestamp",
            "header without a key",
            "header of another field",
            "header without a value",
            "none",
            "nothing",
        ],
    )
    def test_other_columns_are_and_nothing_is_written(
        self, columns: dict[str, Any], said: str, topic: Topic, memory: ObjectStore
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=said):
            topic.append(pa.table(columns))
        assert list(memory.list()) == []

    def test_a_column_that_is_there_twice_is(self, topic: Topic) -> None:
        column = pa.array([b"x"], pa.binary())
        table = pa.Table.from_arrays([column, column], names=["value", "value"])
        with pytest.raises(InvalidArgumentError, match="each once"):
            topic.append(table)

    def test_another_codec_or_partition_is(self, topic: Topic) -> None:
        wrong: list[Any] = ["brotli", None, b"zstd"]
        for codec in wrong:
            with pytest.raises(InvalidArgumentError, match=rf"{codec!r}.*zstd"):
                topic.append(values("a"), compression=codec)
        with pytest.raises(NotFoundError, match="partition 1"):
            topic.append(values("a"), 1)

    def test_kafkas_own_layouts_cannot_be_appended_to(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        small(tmp_path)
        push_all(source_of(tmp_path), KafkaLocal(memory))
        for storage in (KafkaLocal(memory), source_of(tmp_path)):
            with pytest.raises(
                UnsupportedOperationError, match="cannot be appended to"
            ):
                topic_of(storage).append(values("a"))
        assert topic_of(KafkaLocal(memory)).end_offsets() == {0: 30}


class TestTopics:
    def test_one_is_begun_with_a_new_id_and_seen_with_its_first_record(
        self, memory: ObjectStore
    ) -> None:
        tier = Tier(SingleObject(memory))
        topics = [tier.create_topic("t") for _ in range(2)]
        assert topics[0].topic_id != topics[1].topic_id
        assert tier.topics() == []
        assert list(memory.list()) == []
        topics[0].append(values("a"))
        assert tier.topics() == ["t"]
        assert tier.topic("t").topic_id == topics[0].topic_id

    def test_its_partitions_are_empty_until_they_have_a_record(
        self, memory: ObjectStore
    ) -> None:
        topic = Tier(SingleObject(memory)).create_topic("t", partitions=3)
        assert topic.partitions == (0, 1, 2)
        assert topic.end_offsets() == {0: 0, 1: 0, 2: 0}
        assert topic.scan().to_table().num_rows == 0
        assert topic.offsets_for_times({1: 0}) == {1: None}
        topic.append(values("a"), 1)
        assert topic.beginning_offsets() == {0: 0, 1: 0, 2: 0}
        assert topic.end_offsets() == {0: 0, 1: 1, 2: 0}
        assert topic.read(2, 0).num_rows == 0
        assert topic.scan().to_table()["partition"].to_pylist() == [1]

    def test_an_id_can_be_given(self, memory: ObjectStore) -> None:
        tier = Tier(SingleObject(memory))
        tier.create_topic("t", topic_id=OTHER_ID).append(values("a"))
        assert tier.topic("t").topic_id == OTHER_ID
        with pytest.raises(InvalidArgumentError, match="nonsense"):
            tier.create_topic("u", topic_id="nonsense")

    def test_one_that_is_there_is_not_begun_again(self, topic: Topic) -> None:
        topic.append(values("a"))
        tier = Tier(topic_storage(topic))
        with pytest.raises(AlreadyExistsError, match="'t'"):
            tier.create_topic("t")

    @pytest.mark.parametrize("name", ["../x", "", "a b", "x" * 250])
    def test_a_name_that_is_none_is_refused(
        self, name: str, memory: ObjectStore
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="topic name"):
            Tier(SingleObject(memory)).create_topic(name)

    @pytest.mark.parametrize("partitions", [0, -1])
    def test_it_has_a_partition(self, partitions: int, memory: ObjectStore) -> None:
        with pytest.raises(InvalidArgumentError, match="at least one partition"):
            Tier(SingleObject(memory)).create_topic("t", partitions=partitions)


class TestAfterAPush:
    def test_offsets_and_epochs_go_on(
        self, tmp_path: Path, memory: ObjectStore
    ) -> None:
        logs = {0: log_of(0), 10: log_of(10, epoch=3), 20: b""}
        write_log(tmp_path, logs, epochs=((0, 0), (3, 10)))
        push_all(source_of(tmp_path), SingleObject(memory))
        topic = topic_of(SingleObject(memory))
        assert topic.append(values("a")) == range(20, 21)
        assert topic.append(values("b")) == range(21, 22)
        last = topic.reader(0).segments()[-1]
        told = topic_storage(topic).describe(last).leader_epochs
        assert told == ((0, 0), (3, 10))
        found = topic.offsets_for_times({0: 1_799_999_999_999_999})
        assert found == {0: None}
        at = topic.offsets_for_times({0: 1_750_000_000_000})[0]
        assert at is not None
        assert (at.offset, at.leader_epoch) == (20, 3)
        check_sound(SingleObject(memory))

    def test_a_topic_that_a_broker_wrote_is_read_on(
        self, tmp_path: Path, memory: ObjectStore
    ) -> None:
        push_all(source_of(recorded("epochs", tmp_path)), SingleObject(memory))
        topic = topic_of(SingleObject(memory), "epochs")
        before = topic.scan().to_table()
        end = topic.end_offsets()[0]
        assert topic.append(values("a")) == range(end, end + 1)
        after = topic.scan().to_table()
        assert after.slice(0, before.num_rows) == before
        assert after["value"][-1].as_py() == b"a"

    def test_a_transaction_that_is_open_stays_open(
        self, tmp_path: Path, memory: ObjectStore
    ) -> None:
        open_one = ProducerState(7, 1, 4, 9, 4, 5, 2, 5)
        folder = write_log(tmp_path, {0: log_of(0), 10: b""})
        snapshot = ProducerSnapshot((open_one,)).encode()
        (folder / f"{10:020d}.snapshot").write_bytes(snapshot)
        push_all(source_of(tmp_path), SingleObject(memory))
        topic = topic_of(SingleObject(memory))
        topic.append(values("a"))
        storage = topic_storage(topic)
        last = topic.reader(0).segments()[-1]
        kept = storage.fetch_index(last, IndexType.PRODUCER_SNAPSHOT)
        assert ProducerSnapshot.parse(kept).producers == (open_one,)


class _Stale(SingleObject):
    """A writer that lists before the others write, and writes after them."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.meanwhile: list[Topic] = []

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        while self.meanwhile:
            self.meanwhile.pop().append(values("first"))
        return super().append_log_segment(metadata, data)


class TestTwoWriters:
    def test_the_loser_is_told_and_has_written_nothing(self, place: Bucket) -> None:
        Tier(native(place)).create_topic("t", topic_id=ID).append(values("zero"))
        winner = Tier(native(place)).topic("t")
        late = _Stale(open_store(place))
        late.meanwhile = [winner]
        loser = Tier(late).topic("t")
        with pytest.raises(AlreadyExistsError, match="offset 1 was appended"):
            loser.append(values("second"))
        assert stored_values(winner) == [b"zero", b"first"]
        store = open_store(place)
        assert b"second" not in b"".join(bytes(store.get(e.key)) for e in store.list())
        assert loser.append(values("second")) == range(2, 3)
        assert stored_values(winner) == [b"zero", b"first", b"second"]

    def test_of_two_that_write_the_same_one_loses_too(
        self, memory: ObjectStore
    ) -> None:
        stamp = pa.array([NOW], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
        same = values("first").append_column("timestamp", stamp)
        part = Tier(SingleObject(memory)).create_topic("t").reader(0).partition

        class Twin(SingleObject):
            def append_log_segment(
                self, metadata: SegmentMetadata, data: LogSegmentData
            ) -> bytes:
                twin = Appender(SingleObject(memory), part)
                twin.append(same, codec=_NONE, now_ms=NOW)
                return super().append_log_segment(metadata, data)

        with pytest.raises(AlreadyExistsError):
            Appender(Twin(memory), part).append(same, codec=_NONE, now_ms=NOW)
        assert stored_values(topic_of(SingleObject(memory))) == [b"first"]

    def test_threads_that_race_lose_no_record_and_share_no_offset(
        self, place: Bucket
    ) -> None:
        Tier(native(place)).create_topic("t", topic_id=ID).append(values("zero"))
        writers, each = 4, 4
        barrier = threading.Barrier(writers)
        lost = 0

        def write(number: int) -> list[tuple[int, bytes]]:
            nonlocal lost
            topic = Tier(native(place)).topic("t")
            written: list[tuple[int, bytes]] = []
            barrier.wait()
            while len(written) < each:
                text = f"{number}-{len(written)}"
                try:
                    offsets = topic.append(values(text))
                except AlreadyExistsError:
                    lost += 1
                else:
                    written.append((offsets.start, text.encode()))
            return written

        with ThreadPoolExecutor(writers) as pool:
            done = [one for found in pool.map(write, range(writers)) for one in found]
        table = Tier(native(place)).topic("t").scan().to_table()
        found = zip(*(table[c].to_pylist() for c in ("offset", "value")), strict=True)
        assert list(found) == [(0, b"zero"), *sorted(done)]
        check_sound(native(place))


def test_of_two_writers_that_create_a_topic_one_has_it(place: Bucket) -> None:
    first, second = (Tier(native(place)).create_topic("t") for _ in range(2))
    assert first.append(values("a")) == range(1)
    with pytest.raises(InvalidArgumentError, match="another writer has begun a topic"):
        second.append(values("b"))
    assert stored_values(Tier(native(place)).topic("t")) == [b"a"]
    assert Tier(native(place)).topic("t").append(values("b")) == range(1, 2)
    check_sound(native(place))


def test_two_writers_that_begin_a_topic_concurrently_do_not_hide_each_other(
    memory: ObjectStore,
) -> None:
    other = Tier(SingleObject(memory)).create_topic("t")

    class Overtaken(SingleObject):
        """Where another writer appends while a segment is stored."""

        def append_log_segment(
            self, metadata: SegmentMetadata, data: LogSegmentData
        ) -> bytes:
            other.append(values("other"))
            return super().append_log_segment(metadata, data)

    with pytest.raises(InvalidArgumentError, match="nothing was written"):
        Tier(Overtaken(memory)).create_topic("t").append(values("late"))
    assert stored_values(Tier(SingleObject(memory)).topic("t")) == [b"other"]
    check_sound(SingleObject(memory))


class _DeadError(Exception):
    """The process has died."""


class _Dying(ObjectStore):
    """Where a writer dies when it has claimed its offset."""

    def copy(self, source: str, target: str) -> None:
        raise _DeadError((source, target))


def test_a_writer_that_dies_after_its_claim_blocks_nobody_and_loses_nothing(
    place: Bucket,
) -> None:
    Tier(native(place)).create_topic("t", topic_id=ID).append(values("zero"))
    dying = Tier(SingleObject(_Dying(place.url, place.storage_options))).topic("t")
    with pytest.raises(_DeadError):
        dying.append(values("claimed"))
    topic = Tier(native(place)).topic("t")
    assert stored_values(topic) == [b"zero"]
    with pytest.raises(AlreadyExistsError):
        topic.append(values("next"))
    assert stored_values(topic) == [b"zero", b"claimed"]
    assert topic.append(values("next")) == range(2, 3)
    assert stored_values(topic) == [b"zero", b"claimed", b"next"]
    check_sound(native(place))


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_a_deletion_that_died_has_deleted_does_not_come_back(
    memory: ObjectStore, before: int
) -> None:
    class DyingLate(ObjectStore):
        """Where a writer dies when its segment is there."""

        def copy(self, source: str, target: str) -> None:
            super().copy(source, target)
            raise _DeadError

    class DyingDeletion(ObjectStore):
        """Where a process dies behind so many of its deletions."""

        left = before

        def delete(self, keys: Iterable[str]) -> None:
            if not self.left:
                raise _DeadError
            self.left -= 1
            super().delete(keys)

    dying = Tier(SingleObject(DyingLate(memory.url)))
    with pytest.raises(_DeadError):
        dying.create_topic("t", topic_id=ID).append(values("zero"))
    topic = Tier(SingleObject(memory)).topic("t")
    partition = topic.reader(0).partition
    with suppress(_DeadError):
        SingleObject(DyingDeletion(memory.url)).delete_partition(partition)
    there = [b"zero"] if before < 2 else []
    assert topic.append(values("next")) == range(len(there), len(there) + 1)
    assert stored_values(topic) == [*there, b"next"]
    check_sound(SingleObject(memory))


@pytest.mark.parametrize("verb", ["put", "put_new", "copy", "delete"])
def test_an_append_to_a_full_store_is_there_once_when_it_is_repeated(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    full = ObjectStore(memory.url)

    def refuse(*_: object, **__: object) -> None:
        raise StorageFullError("no space left on device")

    topic = Tier(SingleObject(full)).create_topic("t", topic_id=ID)
    topic.append(values("zero"))
    monkeypatch.setattr(full, verb, refuse)
    with pytest.raises(StorageFullError):
        topic.append(values("one"))
    monkeypatch.undo()
    assert topic.append(values("one")) == range(1, 2)
    assert topic.append(values("two")) == range(2, 3)
    assert stored_values(topic) == [b"zero", b"one", b"two"]
    check_sound(SingleObject(memory))


def test_what_was_appended_is_found_without_naming_the_layout(place: Bucket) -> None:
    Tier(native(place)).create_topic("t").append(values("a"))
    tier = open_tier(place.url, storage_options=place.storage_options)
    assert tier.topics() == ["t"]
    assert stored_values(tier.topic("t")) == [b"a"]


def test_a_partition_whose_segments_were_all_deleted_begins_at_0_again(
    memory: ObjectStore,
) -> None:
    storage = SingleObject(memory)
    topic = Tier(storage).create_topic("t")
    for value in ("a", "b"):
        topic.append(values(value))
    for segment in storage.list_segments(topic.reader(0).partition):
        storage.delete_log_segment(segment)
    assert topic.append(values("c")) == range(1)
    assert topic.scan().to_table()["value"].to_pylist() == [b"c"]


def test_an_offset_whose_segment_was_deleted_can_be_appended_again(
    place: Bucket,
) -> None:
    storage = native(place)
    topic = Tier(storage).create_topic("t", topic_id=ID)
    for text in ("zero", "one"):
        topic.append(values(text))
    for _ in "ab":  # as often as it happens
        storage.delete_log_segment(storage.list_segments(topic.reader(0).partition)[-1])
        assert topic.append(values("again")) == range(1, 2)
    assert stored_values(topic) == [b"zero", b"again"]
    with pytest.raises(AlreadyExistsError):
        storage.append_log_segment(*_segment(topic, 1))
    check_sound(storage)


def test_an_offset_that_the_log_has_left_behind_is_not_appended_again(
    place: Bucket,
) -> None:
    storage = native(place)
    topic = Tier(storage).create_topic("t", topic_id=ID)
    for text in ("zero", "one", "two"):
        topic.append(values(text))
    partition = topic.reader(0).partition
    storage.delete_log_segment(storage.list_segments(partition)[1])
    before = [entry.key for entry in storage.store.list("t/")]
    with pytest.raises(AlreadyExistsError):  # though its claim is spent
        storage.append_log_segment(*_segment(topic, 1))
    assert [entry.key for entry in storage.store.list("t/")] == before


@pytest.mark.parametrize("left", [0, 1])
def test_an_append_in_doubt_goes_to_where_the_log_ends_now(
    memory: ObjectStore, left: int
) -> None:
    storage = SingleObject(memory)
    begun = Tier(storage).create_topic("t", topic_id=ID)
    for text in ("zero", "one"):
        begun.append(values(text))
    partition = begun.reader(0).partition

    class Failing(SingleObject):
        """A storage that is not reached at first."""

        is_down = True

        def append_log_segment(
            self, metadata: SegmentMetadata, data: LogSegmentData
        ) -> bytes:
            if self.is_down:
                raise StorageUnavailableError("down")
            return super().append_log_segment(metadata, data)

    failing = Failing(memory)
    topic = Tier(failing).topic("t")
    with pytest.raises(StorageUnavailableError):
        topic.append(values("two"))
    for segment in storage.list_segments(partition)[left:]:
        storage.delete_log_segment(segment)
    failing.is_down = False
    # At offset 2, beyond the end, it would overlap what another writer has begun.
    assert topic.append(values("two")) == range(left, left + 1)
    check_sound(storage)


class _Slow(ObjectStore):
    """Where others come while an object is copied."""

    def meanwhile(self) -> None:
        """Do what others do."""

    def copy(self, source: str, target: str) -> None:
        content = self.get(source)
        self.meanwhile()
        self.put(target, content, overwrite=True)


@pytest.mark.parametrize("everything", [False, True])
def test_a_copy_that_ends_when_its_claim_is_spent_hides_no_other_append(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch, *, everything: bool
) -> None:
    storage = SingleObject(memory)
    other = Tier(storage).create_topic("t", topic_id=ID)
    other.append(values("zero"))
    partition = other.reader(0).partition
    slow = _Slow(memory.url)

    def cancel() -> None:
        if everything:
            storage.delete_partition(partition)
            other.append(values("zero"))
        else:
            storage.cancel_copying(partition)
        assert other.append(values("other")) == range(1, 2)

    monkeypatch.setattr(slow, "meanwhile", cancel)
    topic = Tier(SingleObject(slow)).topic("t")
    with pytest.raises(StorageUnavailableError, match="append again"):
        topic.append(values("late"))
    assert stored_values(other) == [b"zero", b"other"]
    monkeypatch.undo()
    assert topic.append(values("late")) == range(2, 3)
    check_sound(storage)


@pytest.mark.parametrize("begin", [0, 1])
def test_a_copy_that_ends_when_the_log_was_begun_anew_hides_nothing(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    storage = SingleObject(memory)
    other = Tier(storage).create_topic("t", topic_id=ID)
    for text in ("zero", "one"):
        other.append(values(text))
    partition = other.reader(0).partition
    slow = _Slow(memory.url)

    def cut() -> None:
        for segment in storage.list_segments(partition)[begin:]:
            storage.delete_log_segment(segment)
        other.append(values("a", "b", "c"))

    monkeypatch.setattr(slow, "meanwhile", cut)
    with pytest.raises(StorageUnavailableError, match="append again"):
        Tier(SingleObject(slow)).topic("t").append(values("late"))
    assert stored_values(other) == [*[b"zero"] * begin, b"a", b"b", b"c"]
    check_sound(storage)


def test_a_claim_gives_way_to_a_copy_that_had_not_ended(memory: ObjectStore) -> None:
    storage = SingleObject(memory)
    other = Tier(storage).create_topic("t", topic_id=ID)
    other.append(values("zero"))
    partition = other.reader(0).partition
    landed: list[tuple[str, bytes]] = []

    class Dying(ObjectStore):
        """Where a writer dies, and its copy is done later."""

        def copy(self, source: str, target: str) -> None:
            landed.append((target, bytes(self.get(source))))
            raise _DeadError

    class Late(ObjectStore):
        """Where that copy lands behind the second claim."""

        def put(
            self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
        ) -> None:
            super().put(key, data, overwrite=overwrite)
            if "/claims/" in key:
                memory.put(*landed[0], overwrite=True)

    with pytest.raises(_DeadError):
        Tier(SingleObject(Dying(memory.url))).topic("t").append(values("late"))
    storage.cancel_copying(partition)
    with pytest.raises(StorageUnavailableError, match="append again"):
        Tier(SingleObject(Late(memory.url))).topic("t").append(values("other"))
    assert stored_values(other) == [b"zero", b"late"]
    assert other.append(values("other")) == range(2, 3)
    assert stored_values(other) == [b"zero", b"late", b"other"]
    check_sound(storage)


def _segment(topic: Topic, offset: int) -> tuple[SegmentMetadata, LogSegmentData]:
    """Make a segment for somebody who knows of an older end of the log."""
    partition = topic.reader(0).partition
    made = SegmentId.from_bytes(b"late" * 4)
    log = encode_batch(records(offset, 3))
    metadata = SegmentMetadata(partition, made, offset, offset + 2, size=len(log))
    return metadata, LogSegmentData(log, {})
