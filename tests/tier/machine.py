"""Anything that can be done to a tier, in any order; the model is its records."""

import itertools
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from support.damage import flipped
from tier.log_model import Intention, LogModel, Payload, Span
from tier.source_log import BatchShape, Row, SourceLog
from tier.unreliable import DeadError, Fault, Place, Trouble, UnreliableBackend
from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    OffsetOutOfRangeError,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TieredFSError,
    Topic,
    TopicIdPartition,
    UnsupportedFormatError,
    Uuid,
)
from tieredfs.cache import with_index_cache
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.log.push.push import PushOutcome, push
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.model import UNKNOWN_TOPIC_ID
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.content_id import ContentId

__all__ = ["KafkaLocalMachine", "SingleObjectMachine", "TierMachine"]

_APPENDED = TopicIdPartition("t", 0, Uuid("AAAAAAAAAAAAAAAAAAAAAQ"))
_IDS = (Uuid("-AAAAAAAAAAAAAAAAAAAAA"), Uuid("BAAAAAAAAAAAAAAAAAAAAA"))
_NOW_MS = 1_800_000_000_000

_numbers = itertools.count()

_PROCESSES = 3
ACTORS = st.integers(0, _PROCESSES - 1)
SOURCES = st.sampled_from(["p", "p", "p", "q"])
PERMILLE = st.integers(0, 1000)
"""A place in a log, or in whatever else has a size."""

TROUBLES = st.sampled_from([t for t in Trouble if t is not Trouble.OVERTAKEN])
FAULTS = st.none() | st.builds(Fault, st.integers(0, 9), TROUBLES)
RACES = FAULTS | st.builds(Fault, st.integers(0, 9), st.just(Trouble.OVERTAKEN))
SHAPES = st.lists(
    st.builds(
        BatchShape,
        gap=st.sampled_from([0, 0, 0, 2]),
        size=st.integers(0, 3),
        hole=st.sampled_from([0, 0, 1, 3]),
        late=st.integers(0, 3),
        is_marker=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=4,
)
PAYLOADS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", None]),
        st.sampled_from([_NOW_MS, _NOW_MS + 1, None]),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
SIZES = st.sampled_from([1, 90, 180, 512, 4096, 1 << 20])


def fetch(topic: Topic, offset: int, max_bytes: int) -> tuple[list[Row], int]:
    """Return what one ``read`` gives, and the offset to go on from."""
    found = topic.read(0, offset, max_bytes)
    return rows_of(found.records), found.next_offset


def rows_of(table: pa.Table) -> list[Row]:
    """Return the records of a table."""
    stamps = table["timestamp"].cast(pa.int64())
    columns = (table["offset"], stamps, table["key"], table["value"])
    lists = (column.to_pylist() for column in columns)
    return [Row(*one) for one in zip(*lists, strict=True)]


def seen(rows: list[Row]) -> list[Row]:
    """Return the rows that readers get, without what they do not see of them."""
    return [row._replace(epoch=0) for row in rows if not row.is_control]


@dataclass(slots=True)
class Actor:
    """A process that uses the tier.

    Attributes:
        tier: Its tier.
        backend: Its connection.
        topic: What it appends to.
        intention: What it wants to append, and got no answer for.
    """

    tier: Tier
    backend: UnreliableBackend
    topic: Topic | None = None
    intention: Intention | None = None


@dataclass(slots=True)
class Failure:
    """How an operation ended that did not succeed; None when its process died."""

    error: TieredFSError | None


@dataclass(slots=True)
class Rival:
    """What another process does in the middle of an operation.

    Attributes:
        others: How many processes further on it is.
        action: What it does.
        topic: Where.
        payload: What it appends.
    """

    others: int
    action: str
    topic: str
    payload: Payload


def rivals(*actions: str) -> st.SearchStrategy[Rival]:
    """Draw what another process does, in the middle of what such an action meets."""
    others = st.sampled_from([1, 2])
    return st.builds(
        Rival, others, st.sampled_from(actions), st.sampled_from(["t", "p"]), PAYLOADS
    )


@dataclass(slots=True)
class Layout:
    """What the tier is kept in.

    Attributes:
        make: Makes the storage of an actor by its number.
        can_append: Whether it can be appended to.
        can_compact: Whether it takes compacted logs.
    """

    make: Callable[[int, Any], RemoteStorageManager]
    can_append: bool
    can_compact: bool


def _single_object(number: int, store: Any) -> SingleObject:  # noqa: ANN401
    compression: Literal["zstd"] | None = "zstd" if number == 1 else None
    return SingleObject(store, compression=compression)


def _kafka_local(number: int, store: Any) -> KafkaLocal:  # noqa: ANN401
    del number
    return KafkaLocal(store)


SINGLE_OBJECT = Layout(_single_object, can_append=True, can_compact=True)
KAFKA_LOCAL = Layout(_kafka_local, can_append=False, can_compact=False)


class TierMachine(RuleBasedStateMachine):
    """Three processes, one store, a broker that is pushed from, and what may happen."""

    layout: Layout

    def __init__(self) -> None:
        """Begin with an empty store and an empty broker."""
        super().__init__()
        number = next(_numbers)
        self.place = Place(f"tier-{number}/root")
        self.log_directory = Place(f"tier-{number}/broker")
        self.actors: dict[int, Actor] = {}
        self.copied: dict[str, list[SegmentMetadata]] = {"p": [], "q": []}
        self.cache: Path | None = None
        self.is_changed = True

    @initialize(
        named=st.booleans(),
        cached=st.booleans(),
        compacted=st.booleans(),
        segments=st.lists(SHAPES, max_size=3),
    )
    def begin(
        self,
        named: bool,  # noqa: FBT001
        cached: bool,  # noqa: FBT001
        compacted: bool,  # noqa: FBT001
        segments: list[list[BatchShape]],
    ) -> None:
        """Begin the topics of the broker."""
        ids = _IDS if named else (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_ID)
        self.partitions = {"t": _APPENDED} | {
            name: TopicIdPartition(name, 0, made)
            for name, made in zip("pq", ids, strict=True)
        }
        self.logs = {name: LogModel() for name in self.partitions}
        self.sources = {
            name: SourceLog(
                self.log_directory,
                self.partitions[name],
                is_compacted=compacted and self.layout.can_compact,
            )
            for name in "pq"
        }
        for shapes in segments:
            self.broker_writes("p", shapes, rolls=True)
        if cached:
            self.cache = Path(mkdtemp(prefix="tieredfs-tier-model-"))

    def teardown(self) -> None:
        """Remove the cache."""
        for actor in self.actors.values():
            actor.tier.close()
        if self.cache is not None:
            shutil.rmtree(self.cache, ignore_errors=True)  # a load may outlive it

    @property
    def names(self) -> list[str]:
        """The topics that have a segment."""
        return [name for name, log in self.logs.items() if log.stored]

    # What a broker does.

    @rule(name=SOURCES, shapes=SHAPES, rolls=st.sampled_from([True, True, False]))
    def broker_writes(self, name: str, shapes: list[BatchShape], rolls: bool) -> None:  # noqa: FBT001
        """Write to the log, and perhaps close its segment."""
        self.sources[name].write(shapes)
        if rolls:
            self.sources[name].roll()

    @rule(
        name=SOURCES,
        change=st.sampled_from(["elects", "fails over", "retains"]),
        chosen=st.integers(0, 255),
    )
    def broker_changes(self, name: str, change: str, chosen: int) -> None:
        """Begin a leader epoch, go on with another replica, or remove a segment."""
        source = self.sources[name]
        match change:
            case "elects":
                source.elect()
            case "fails over":
                source.cut_anew(chosen)
            case "retains":
                source.retain()

    @rule(name=SOURCES)
    def read_the_broker(self, name: str) -> None:
        """Read the log directory itself: it is a tier as well."""
        store, _ = self.log_directory.open()
        source = self.sources[name]
        storage = KafkaLog(store)
        topic = Tier(storage).topic(name)
        found = rows_of(topic.scan().to_table())
        assert found == seen(source.rows(source.starts[0], source.end))
        listed = [
            segment.id
            for partition in storage.list_partitions()
            for segment in storage.list_segments(partition)
        ]
        assert len(listed) == len(set(listed)), "two segments have one id"

    # What writers do.

    @precondition(lambda self: self.layout.can_append)
    @rule(
        number=ACTORS,
        payload=PAYLOADS,
        fault=RACES,
        rival=rivals("append", "cancel", "delete"),
    )
    def append(
        self, number: int, payload: Payload, fault: Fault | None, rival: Rival
    ) -> None:
        """Append; what had no answer is repeated, as it was."""
        self._run_append(number, payload, fault, rival)

    def _run_append(
        self, number: int, payload: Payload, fault: Fault | None, rival: Rival | None
    ) -> None:
        actor, log = self._actor(number), self.logs["t"]
        intention = actor.intention or Intention(payload)
        actor.intention = None
        if actor.topic is None:
            storage = Tier(actor.tier.storage)
            try:
                actor.topic = storage.topic("t")
            except NotFoundError:
                actor.topic = storage.create_topic("t", topic_id=_APPENDED.topic_id)
        values, stamps = zip(*intention.payload, strict=True)
        columns = {"value": pa.array(values, pa.binary())}
        if any(stamps):
            kind = pa.timestamp("ms", tz="UTC")
            columns["timestamp"] = pa.array(stamps, pa.int64()).cast(kind)
        call = partial(actor.topic.append, pa.table(columns))
        done = self._try(number, call, fault, rival)
        if isinstance(done, range):
            log.acknowledge(intention, done)
        elif done.error is None:
            log.doubt(intention)
        elif isinstance(done.error, AlreadyExistsError):
            log.forget(intention)
        else:
            # What it goes on from may be deleted before it is looked at.
            gone = isinstance(done.error, NotFoundError) and log.removed
            if not gone:
                self._expect_unavailable(done)
            log.doubt(intention)
            actor.intention = intention

    @precondition(lambda self: any(s.closed for s in self.sources.values()))
    @rule(
        number=ACTORS,
        name=SOURCES,
        fault=RACES,
        rival=rivals("push", "push", "delete"),
        interval=st.sampled_from([1, 4096]),
    )
    def push(
        self, number: int, name: str, fault: Fault | None, rival: Rival, interval: int
    ) -> None:
        """Push what is closed of a broker's log."""
        self._run_push(number, name, fault, rival, interval)

    def _run_push(
        self,
        number: int,
        name: str,
        fault: Fault | None,
        rival: Rival | None,
        interval: int = 4096,
    ) -> None:
        source, log = self.sources[name], self.logs[name]
        store, _ = self.log_directory.open()
        call = partial(
            push,
            KafkaLog(store),
            self._actor(number).tier.storage,
            [source.partition],
            interval_bytes=interval,
        )
        closed = [Span(*span) for span in source.closed]
        report = self._try(number, call, fault, rival)
        if isinstance(report, Failure):
            self._expect_unavailable(report)
            for span in closed:
                log.unsettled.setdefault(span, source.rows(*span))
                log.replace(span)
            return
        assert [_span(one.segment) for one in report.segments] == closed
        for one in report.segments:
            assert one.outcome in {PushOutcome.COPIED, PushOutcome.PRESENT}, one
            self.copied[name].append(one.segment)
        for span in closed:
            log.hold(span, source.rows(*span))
            log.replace(span)

    @precondition(lambda self: any(s.closed for s in self.sources.values()))
    @rule(
        number=ACTORS,
        name=SOURCES,
        kind=st.sampled_from([IndexType.OFFSET, IndexType.TIMESTAMP]),
        index=st.binary(max_size=24),
    )
    def copy_with_another_index(
        self, number: int, name: str, kind: IndexType, index: bytes
    ) -> None:
        """Copy a segment with an index that is not its own."""
        source, log = self.sources[name], self.logs[name]
        if not source.closed or source.closed[0] in log.stored:
            return
        span = Span(*source.closed[0])
        batches = [b for b in source.batches if span.start <= b.start < span.end]
        data = b"".join(batch.data for batch in batches)
        segment = SegmentMetadata(
            source.partition,
            ContentId(source.partition, span.start).add(data).finish(),
            span.start,
            span.end - 1,
            size=len(data),
        )
        epochs = "".join(f"{epoch} {start}\n" for epoch, start in source.epochs)
        checkpoint = f"0\n{len(source.epochs)}\n{epochs}".encode()
        indexes = {IndexType.LEADER_EPOCH: checkpoint, kind: index}
        storage = self._actor(number).tier.storage
        self.is_changed = True
        try:
            storage.copy_log_segment(segment, LogSegmentData(data, indexes))
        except CorruptDataError:
            return
        log.hold(span, source.rows(*span))
        self.verify()

    # What an administrator does.

    @precondition(lambda self: self.names)
    @rule(
        number=ACTORS,
        topic=st.integers(0, 2),
        which=st.sampled_from([0, 0, -1, 1]),
        how=st.sampled_from(["listed", "copied", "bare"]),
        fault=RACES,
        rival=rivals("push", "delete"),
    )
    def delete_segment(
        self,
        number: int,
        topic: int,
        which: int,
        how: str,
        fault: Fault | None,
        rival: Rival,
    ) -> None:
        """Delete a segment, the first one as retention does."""
        name = self.names[topic % len(self.names)]
        self._run_delete(number, name, which, how, fault, rival)

    def _run_delete(
        self,
        number: int,
        name: str,
        which: int,
        how: str,
        fault: Fault | None,
        rival: Rival | None,
    ) -> None:
        log = self.logs[name]
        if how == "copied" and self.copied.get(name):
            segments = self.copied[name]
        else:
            segments = self._listed(name)
        if not -len(segments) <= which < len(segments):
            return
        segment = segments[which]
        span = _span(segment)
        if how == "bare":
            segment = replace(segment, custom_metadata=b"")
        storage = self._actor(number).tier.storage
        was_there = span in log.stored
        done = self._try(
            number, partial(storage.delete_log_segment, segment), fault, rival
        )
        if isinstance(done, Failure):
            self._expect_unavailable(done)
            log.lose(span)
        elif span in log.stored and not was_there:
            log.lose(span)  # it was copied meanwhile: either may have been first
        else:
            log.remove(span)

    @rule(number=ACTORS, name=st.sampled_from(["t", "p", "q"]), fault=FAULTS)
    def delete_partition(self, number: int, name: str, fault: Fault | None) -> None:
        """Delete a partition."""
        log = self.logs[name]
        storage = self._actor(number).tier.storage
        call = partial(storage.delete_partition, self.partitions[name])
        done = self._try(number, call, fault)
        if isinstance(done, Failure):
            self._expect_unavailable(done)
            for span in log.stored:
                log.lose(span)
            return
        for span in list(log.stored):
            log.remove(span)
        log.cancel()
        self._expect_nothing_left(name)

    @rule(number=ACTORS, name=st.sampled_from(["t", "p", "q"]), fault=FAULTS)
    def cancel_copying(self, number: int, name: str, fault: Fault | None) -> None:
        """Remove what was begun and never ended."""
        storage = self._actor(number).tier.storage
        call = partial(storage.cancel_copying, self.partitions[name])
        done = self._try(number, call, fault)
        if isinstance(done, Failure):
            self._expect_unavailable(done)
        else:
            self.what_is_stored_is_what_was_written()
            self.logs[name].cancel()
            self._expect_nothing_left(name)

    @rule(number=ACTORS)
    def restart(self, number: int) -> None:
        """End a process, and begin another one on its cache."""
        actor = self.actors.pop(number, None)
        if actor is not None:
            actor.tier.close()

    # What readers do.

    @precondition(lambda self: self.names)
    @rule(
        number=ACTORS,
        topic=st.integers(0, 2),
        where=PERMILLE,
        max_bytes=SIZES,
        fault=FAULTS,
    )
    def read_on(
        self, number: int, topic: int, where: int, max_bytes: int, fault: Fault | None
    ) -> None:
        """Read from an offset to the end, as a consumer does."""
        name = self.names[topic % len(self.names)]
        log = self.logs[name]
        offset = _between(log.beginning, log.end + 1, where)

        def read() -> None:
            at = offset
            topic = self._actor(number).tier.topic(name)
            while True:
                found, following = fetch(topic, at, max_bytes)
                assert found == seen(log.rows(at, following))
                if at == log.end:
                    assert following == at
                    return
                assert at < following <= log.end
                assert found or following == log.end
                at = following

        self._expect_read(log, offset, self._try(number, read, fault, changes=False))

    @precondition(lambda self: self.names)
    @rule(
        number=ACTORS,
        topic=st.integers(0, 2),
        begin=PERMILLE,
        length=PERMILLE,
        by_time=st.booleans(),
        fault=FAULTS,
    )
    def scan(
        self,
        number: int,
        topic: int,
        begin: int,
        length: int,
        by_time: bool,  # noqa: FBT001
        fault: Fault | None,
    ) -> None:
        """Scan a range, by offsets or from a time on."""
        name = self.names[topic % len(self.names)]
        log = self.logs[name]
        first = _between(log.beginning, log.end + 1, begin)
        start: int | datetime = first
        rows = log.rows()
        if by_time and rows:
            stamp = rows[_between(0, len(rows), begin)].timestamp + 1
            start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp)
            at = log.at_time(stamp)
            first = log.end if at is None else at.offset
        end = _between(first, log.end + 2, length)

        def scan() -> list[Row]:
            topic = self._actor(number).tier.topic(name)
            return rows_of(topic.scan(start=start, end=end).to_table())

        found = self._try(number, scan, fault, changes=False)
        self._expect_read(log, first, found)
        if not isinstance(found, Failure):
            assert found == seen(log.rows(first, end))

    @precondition(lambda self: self.names)
    @rule(
        number=ACTORS,
        topic=st.integers(0, 2),
        where=PERMILLE,
        later=st.integers(-1, 1),
        fault=FAULTS,
    )
    def find_a_time(
        self, number: int, topic: int, where: int, later: int, fault: Fault | None
    ) -> None:
        """Ask for the offset of a time."""
        name = self.names[topic % len(self.names)]
        log = self.logs[name]
        rows = log.rows() or [Row(0, 0, None, None)]
        stamp = rows[_between(0, len(rows), where)].timestamp + later

        def find() -> object:
            return self._actor(number).tier.topic(name).offsets_for_times({0: stamp})

        found = self._try(number, find, fault, changes=False)
        if isinstance(found, Failure):
            self._expect_read(log, log.end, found)
        else:
            assert found == {0: log.at_time(stamp)}

    @precondition(lambda self: self.names)
    @rule(topic=st.integers(0, 2), outside=st.sampled_from([-1, 1]))
    def read_outside(self, topic: int, outside: int) -> None:
        """Ask for offsets that the log has not."""
        name = self.names[topic % len(self.names)]
        log = self.logs[name]
        offset = log.beginning - 1 if outside < 0 else log.end + 1
        opened = self._calm_tier().topic(name)
        for ask in (
            partial(fetch, opened, offset, 1),
            partial(opened.scan, start=offset),
        ):
            try:
                ask()
            except OffsetOutOfRangeError:
                continue
            raise AssertionError(f"offset {offset} is outside, and was given")

    @rule()
    def verify(self) -> None:
        """Look whether all is well, and see that it is."""
        problems = self._problems()
        for name, log in self.logs.items():
            wrong = [p for p in problems if p.partition == self.partitions[name]]
            assert not wrong or log.gaps or log.overlaps, wrong
            assert wrong or not log.gaps

    @precondition(lambda self: any(log.stored for log in self.logs.values()))
    @rule(which=PERMILLE, where=PERMILLE, bit=st.integers(0, 7))
    def damage(self, which: int, where: int, bit: int) -> None:
        """Flip a bit of an object: it is seen, and what is read is right; heal it."""
        files = self.place.filesystem
        root = self.place.url.removeprefix("memory:/")
        storage = self._calm_tier().storage
        leftovers = {  # of copies that did not end: no segment of theirs is there
            f"{root}/{left.key}"
            for partition in self.partitions.values()
            for left in storage.scrub(partition)
        }
        paths = [
            path
            for path in sorted(files.store)
            if path.startswith(f"{root}/")
            and "@tieredfs" not in path
            and path not in leftovers
            and files.store[path].getbuffer().nbytes
            and not self._is_spare(path)
        ]
        path = paths[_between(0, len(paths), which)]
        whole = files.cat_file(path)
        harmed = flipped(whole, _between(0, len(whole), where), 1 << bit)
        files.pipe_file(path, harmed)
        is_unseen = path.endswith("_checkpoint") and _could_be(harmed, whole)
        try:
            assert is_unseen or self._problems(), f"{path}: verify sees no harm"
            for name, log in self.logs.items():
                try:
                    table = self._calm_tier().topic(name).scan().to_table()
                except (CorruptDataError, NotFoundError, UnsupportedFormatError):
                    continue
                assert rows_of(table) == seen(log.rows())
        finally:
            files.pipe_file(path, whole)

    # What always holds.

    @invariant()
    def what_is_stored_is_what_was_written(self) -> None:
        """Look at the tier with new eyes: it is the model's."""
        if not self.is_changed:
            return
        tier = self._calm_tier()
        there = {partition.topic for partition in tier.storage.list_partitions()}
        for name, log in self.logs.items():
            listed = self._listed(name)
            spans = {_span(segment) for segment in listed}
            assert len(spans) == len(listed), "a segment is listed twice"
            found = []
            if name in there:
                topic = tier.topic(name)
                found = rows_of(topic.scan(on_gap="skip").to_table())
            by_span = {
                s: [r for r in found if s.start <= r.offset < s.end] for s in spans
            }
            log.settle(spans, by_span)
            log.begin()
            assert name in there or not spans
            assert found == seen(log.rows())
            if name not in there:
                continue
            assert topic.beginning_offsets() == {0: log.beginning}
            assert topic.end_offsets() == {0: log.end}
            assert not log.overlaps or name != "t", "two appends share an offset"
        self.is_changed = False

    # How it is done.

    def _actor(self, number: int) -> Actor:
        if number not in self.actors:
            store, backend = self.place.open()
            storage = self.layout.make(number, store)
            if self.cache is not None:
                storage = with_index_cache(storage, self.cache)
            self.actors[number] = Actor(Tier(storage), backend)
        return self.actors[number]

    def _calm_tier(self) -> Tier:
        return Tier(self.layout.make(0, self.place.open()[0]))

    def _listed(self, name: str) -> list[SegmentMetadata]:
        """List the segments of a topic, each with its end."""
        storage = self._calm_tier().storage
        try:
            listed = storage.list_segments(self.partitions[name])
        except NotFoundError:
            return []
        return [s if s.end_offset is not None else storage.describe(s) for s in listed]

    def _try(
        self,
        number: int,
        call: Callable[[], Any],
        fault: Fault | None,
        rival: Rival | None = None,
        *,
        changes: bool = True,
    ) -> Any:  # noqa: ANN401
        """Do something in spite of a fault."""
        self.is_changed |= changes
        actor = self._actor(number)
        actor.backend.expect(fault, partial(self._overtake, number, rival))
        try:
            return call()
        except DeadError:
            self.actors.pop(number, None)
            return Failure(None)
        except TieredFSError as error:
            if isinstance(error, StorageUnavailableError):
                assert actor.backend.has_failed
            return Failure(error)
        finally:
            actor.backend.calm()

    def _overtake(self, number: int, rival: Rival | None) -> None:
        """Let another process do something whole."""
        if rival is None:
            return
        name, other = rival.topic, (number + rival.others) % _PROCESSES
        # A load of indexes that stops here holds the lock of its entry: a rival that
        # reads the same indexes would wait for it, half a deadline each time.
        holds_lock = threading.current_thread().name.startswith("tieredfs-index-load")
        match rival.action:
            case "append" | "push" if holds_lock:
                return
            case "append" if self.layout.can_append:
                self._run_append(other, rival.payload, None, None)
            case "push":
                self._run_push(other, "p", None, None)
            case "delete":
                self._run_delete(other, name, 0, "listed", None, None)
            case "cancel" if self.layout.can_append:
                self._actor(other).tier.storage.cancel_copying(_APPENDED)

    def _is_spare(self, path: str) -> bool:
        """Tell whether another object of the same segment stands for this one."""
        if not path.endswith(".segment"):
            return False
        storage = self._calm_tier().storage
        listed = (
            s for p in storage.list_partitions() for s in storage.list_segments(p)
        )
        return all(one.custom_metadata.decode() not in path for one in listed)

    def _problems(self) -> list[Any]:
        storage = self._calm_tier().storage
        there = storage.list_partitions()
        reports = verify(storage, there, Depth.EVERYTHING)
        return [problem for report in reports for problem in report.problems]

    def _expect_unavailable(self, failure: Failure) -> None:
        if failure.error is not None and not isinstance(
            failure.error, StorageUnavailableError
        ):
            raise failure.error

    def _expect_read(self, log: LogModel, start: int, done: object) -> None:
        """See that reading from an offset on ended as it may."""
        gap = any(gap.end > start for gap in log.gaps)
        error = done.error if isinstance(done, Failure) else None
        if error is None or isinstance(error, StorageUnavailableError):
            return
        if isinstance(error, NotFoundError) and not log.stored:
            return
        if isinstance(error, CorruptDataError) and gap:
            return
        raise error

    def _expect_nothing_left(self, name: str) -> None:
        storage = self._calm_tier().storage
        left = list(storage.scrub(self.partitions[name]))
        assert left == [], "something is left"


def _could_be(harmed: bytes, whole: bytes) -> bool:
    """Tell whether Kafka could have written a damaged checkpoint instead of another.

    It is a text, in which any blank stands for any other. And where the start of a log
    has moved into a segment, its first epoch begins there.
    """
    if harmed.split() == whole.split():
        return True
    try:
        found, true = parse_leader_epochs(harmed), parse_leader_epochs(whole)
    except (CorruptDataError, UnsupportedFormatError):
        return False
    pairs = list(zip(found.entries, true.entries, strict=False))
    return (
        len(found.entries) == len(true.entries) > 0
        and pairs[0][0].epoch == pairs[0][1].epoch
        and pairs[0][0].start_offset > pairs[0][1].start_offset
        and all(one == other for one, other in pairs[1:])
    )


class SingleObjectMachine(TierMachine):
    """The native layout, plain and compressed."""

    layout = SINGLE_OBJECT


class KafkaLocalMachine(TierMachine):
    """The layout of Kafka's LocalTieredStorage."""

    layout = KAFKA_LOCAL


def _span(segment: SegmentMetadata) -> Span:
    assert segment.end_offset is not None
    return Span(segment.start_offset, segment.end_offset + 1)


def _between(start: int, end: int, permille: int) -> int:
    """Return a number of ``[start, end)``."""
    return start + (end - 1 - start) * permille // 1000
