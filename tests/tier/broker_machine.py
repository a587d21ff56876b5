"""A broker's log directory that changes while it is pushed, and what is served then."""

import hashlib
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.simulated_broker import Lineage, Replica, SimulatedPartition
from tieredfs import (
    ObjectStore,
    StorageUnavailableError,
    Tier,
    TieredFSError,
    TopicIdPartition,
    Uuid,
)
from tieredfs.errors import CorruptDataError
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome, PushReport, push
from tieredfs.log.push.push_record import PushRecord
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.model import UNKNOWN_TOPIC_ID, SegmentMetadata
from tieredfs.objects import ObjectInfo
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import WRITES, WatchedStore, scratch_store

__all__ = ["BrokerMachine"]

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
_HEADER = struct.Struct(">qii")
_KEYS = (b"a", b"b", b"c", b"d", b"e")
_REPLICAS = 3
_MAX_LOST = 3
_MAX_REQUESTS = 24
"""Of a push, at which something may happen to the directory."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a broker does.

    Attributes:
        name: A method of the machine.
        replica: Which broker does it, counted from the one that is looked at, or from
            the leader.
        number: How many of what it does.
    """

    name: str
    replica: int
    number: int

    def __repr__(self) -> str:
        """Write it as short as a history should be."""
        return f"{self.name}({self.replica}, {self.number})"


@dataclass(frozen=True, slots=True)
class Happening:
    """What happens to a directory when a certain request reaches it.

    Attributes:
        acts: What the brokers do.
        seen: Which of the names that come or go meanwhile a listing sees.
    """

    acts: tuple[Act, ...]
    seen: str


ACTS = st.builds(
    Act,
    st.sampled_from(
        [
            *["tidy", "unname", "tidy", "unname", "advance"],
            *["fetch", "roll", "elect", "crash", "sweep"],
        ]
    ),
    st.sampled_from([0, 0, *range(_REPLICAS)]),
    st.integers(1, 12),
)
"""What happens in less time than a tombstone stays."""

_SEEN = st.sampled_from(["new", "old", "neither"])
HAPPENINGS: st.SearchStrategy[dict[int, Happening]] = st.one_of(
    st.just({}),
    st.dictionaries(  # a listing, while files are renamed
        st.just(0),
        st.builds(
            Happening,
            st.tuples(
                st.builds(
                    Act,
                    st.sampled_from(["tidy", "unname"]),
                    st.just(0),
                    st.integers(1, 9),
                )
            ),
            _SEEN,
        ),
        min_size=1,
    ),
    st.dictionaries(
        st.integers(0, _MAX_REQUESTS),
        st.builds(Happening, st.lists(ACTS, min_size=1, max_size=3).map(tuple), _SEEN),
        min_size=1,
        max_size=3,
    ),
)
_BATCHES = st.lists(
    st.tuples(st.sampled_from(_KEYS), st.booleans()), min_size=1, max_size=3
)
RECORDS = st.lists(_BATCHES, min_size=1, max_size=5)


class ChangingStore(ObjectStore):
    """A directory in which something happens when requests reach it.

    A listing is no snapshot: what happens at one, happens while names are read.
    """

    @classmethod
    def over(cls, store: ObjectStore, happen: Callable[[], str]) -> Self:
        """Return a store over the same files.

        Args:
            store: The directory.
            happen: Called at each request; says which names a listing sees.
        """
        made = cls.__new__(cls)
        vars(made).update(vars(store))
        made._happen = happen
        return made

    _happen: Callable[[], str]

    def get(self, key: str) -> memoryview:
        """Return the whole object."""
        self._happen()
        return super().get(key)

    def get_range(self, key: str, start: int, end: int) -> memoryview:
        """Return the bytes ``[start, end)`` of an object."""
        self._happen()
        return super().get_range(key, start, end)

    def head(self, key: str) -> ObjectInfo:
        """Return an object's size and version."""
        self._happen()
        return self._with_version(super().head(key))

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose keys begin with ``prefix``."""

        def names() -> dict[str, ObjectInfo]:
            listed = ObjectStore.list(
                self, prefix, start_after=start_after, delimiter=delimiter
            )
            return {entry.key: self._with_version(entry) for entry in listed}

        old, seen, new = names(), self._happen(), names()
        keys = set(old) & set(new)
        if seen != "neither":
            keys = set(old if seen == "old" else new)
        return iter([new.get(key) or old[key] for key in sorted(keys)])

    def _with_version(self, entry: ObjectInfo) -> ObjectInfo:
        """Let a file that has changed have another version, however coarse the clock.

        Then a history is the same each time. It was changed long ago, as the record of
        a push wants it.
        """
        if entry.is_prefix:
            return entry
        data = bytes(ObjectStore.get(self, entry.key))
        inode = int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
        return replace(entry, version=f"{len(data)}-0-0-{inode}")


class BrokerMachine(RuleBasedStateMachine):
    """Replicas of a partition, an archive of them, and all that may happen to both."""

    def __init__(self) -> None:
        """Make an empty folder and an empty store."""
        super().__init__()
        place = _MEMORY if _MEMORY.is_dir() else None
        self.root = Path(tempfile.mkdtemp(prefix="tieredfs-broker-", dir=place))
        self.record = PushRecord(self.root / "pushed")
        self.scratch = scratch_store()
        self.store = self.scratch.__enter__()
        self.archive: RemoteStorageManager = SingleObject(self.store)
        self.made: list[SimulatedPartition] = []
        self.is_blind = False
        """Whether two logs may have been mixed, as nothing showed that they are two."""

    def teardown(self) -> None:
        """Remove both."""
        shutil.rmtree(self.root)
        self.scratch.__exit__(None, None, None)

    @initialize(
        compacted=st.booleans(),
        limits=st.tuples(*[st.integers(1, 3)] * _REPLICAS),
        has_id=st.booleans(),
        records=st.lists(_BATCHES, min_size=3, max_size=8),
    )
    def make(
        self,
        compacted: bool,  # noqa: FBT001 - drawn by name
        limits: tuple[int, ...],
        has_id: bool,  # noqa: FBT001 - drawn by name
        records: list[list[tuple[bytes, bool]]],
    ) -> None:
        """Make a topic with some records that all replicas have."""
        self.compacted, self.limits, self.has_id = compacted, limits, has_id
        self._make()
        self.produce(records, is_replicated=True)
        for replica in self.partition.replicas:
            self._begin_cleaning(replica, 1)  # then a checkpoint says that it is done
            replica.settle()

    @rule(
        records=RECORDS,
        producer=st.sampled_from([-1, -1, 7]),
        is_replicated=st.sampled_from([True, True, True, False]),
    )
    def produce(
        self,
        records: list[list[tuple[bytes, bool]]],
        producer: int = -1,
        *,
        is_replicated: bool,
    ) -> None:
        """Write batches at the leader, and let the followers have them or not."""
        if self.partition.leader.is_up:
            for keys in records:
                self.partition.append(
                    keys if self.compacted else [(key, True) for key, _ in keys],
                    producer=producer,
                )
        if is_replicated:
            self.replicate()

    @rule(acts=st.lists(ACTS, min_size=1, max_size=4))
    def brokers(self, acts: list[Act]) -> None:
        """Let brokers do what they do."""
        for act in acts:
            self._perform(act, self.partition.leader)

    @rule(replica=st.integers(0, _REPLICAS - 1), merged=st.integers(1, 3))
    def clean_all(self, replica: int, merged: int) -> None:
        """Let a broker clean its log to the end."""
        chosen = self.partition.replicas[replica]
        self._begin_cleaning(chosen, merged)
        chosen.settle()

    @rule()
    def replicate(self) -> None:
        """Let all followers have what the leader has."""
        for replica in self.partition.replicas * 3:  # it cuts, and cuts again
            self.partition.fetch(replica, 99)

    @rule()
    def wait(self) -> None:
        """Let a day pass: tombstones that were cleaned may go."""
        self.partition.day += 1

    @rule(replica=st.integers(0, _REPLICAS - 1))
    def restart(self, replica: int) -> None:
        """Start a broker that has crashed; as leader it begins an epoch."""
        chosen = self.partition.replicas[replica]
        if not chosen.is_up:
            chosen.restart()
            if chosen is self.partition.leader:
                self.partition.elect(chosen)

    @rule(records=RECORDS)
    def make_again(self, records: list[list[tuple[bytes, bool]]]) -> None:
        """Delete the topic and make it again."""
        if len(self.made) == 1:
            self.partition.remove()
            self._make()
            self.produce(records, is_replicated=True)

    @rule(
        lost=RECORDS,
        is_archived=st.booleans(),
        replica=st.integers(0, _REPLICAS - 1),
        records=RECORDS,
    )
    def fail_over(
        self,
        lost: list[list[tuple[bytes, bool]]],
        is_archived: bool,  # noqa: FBT001 - drawn by name
        replica: int,
        records: list[list[tuple[bytes, bool]]],
    ) -> None:
        """Let a follower lead that has not got the last records."""
        self.produce(lost, is_replicated=False)
        if is_archived:
            leader = self.partition.replicas.index(self.partition.leader)
            self.push(leader, {}, active=True, fault=None)
        self.partition.elect(self.partition.replicas[replica])
        self.produce(records, is_replicated=True)

    @rule(
        replica=st.integers(0, _REPLICAS - 1),
        happenings=HAPPENINGS,
        active=st.booleans(),
        fault=st.none() | st.tuples(st.integers(0, 3), st.booleans()),
    )
    def push(
        self,
        replica: int,
        happenings: dict[int, Happening],
        active: bool,  # noqa: FBT001 - drawn by name
        fault: tuple[int, bool] | None,
    ) -> None:
        """Push a log directory while things happen to it."""
        chosen = self.partition.replicas[replica]
        source = self._open(chosen, happenings)
        target = self.archive
        if fault is not None:
            limit, landed = fault
            watched = WatchedStore.over(
                self.store, WRITES, limit=limit, is_landed=landed
            )
            target = SingleObject(watched)
        try:
            with self._watching(chosen):
                report = push(
                    source, target, [self._name()], active=active, record=self.record
                )
        except StorageUnavailableError:
            _require(fault, "a push failed without a fault")
        else:
            self._check_reported(report)
        self._check_archive()

    @rule(replica=st.integers(0, _REPLICAS - 1), happenings=HAPPENINGS)
    def scan_directory(self, replica: int, happenings: dict[int, Happening]) -> None:
        """Read a log directory while things happen to it."""
        source = self._open(self.partition.replicas[replica], happenings)
        try:
            found = _read(source, self._name())
        except TieredFSError:
            return
        # A consumer, too, may read the end of an old lineage before it is cut.
        if len(self.partition.lineages) == 1:
            self._check_directory(found)

    @rule()
    def heal(self) -> None:
        """Push the leader's log when it is quiet: then all is well."""
        partition = self.partition
        leader = partition.leader
        if not leader.is_up:
            leader.restart()
            partition.elect(leader)
            if partition.leader is not leader:
                return
        leader.settle()
        leader.sweep()
        source = self._open(leader, {})
        with self._watching(leader):
            report = push(source, self.archive, [self._name()], record=self.record)
        self._check_archive()
        if len(self.made) > 1 and not self.has_id:
            return  # the old topic's segments are in the way
        assert not report.errors, f"a quiet log is not pushed: {report.errors}"
        assert not report.count(PushOutcome.CHANGED), "a quiet log changed"
        self._check_healed(leader)

    def advance(self, replica: Replica, number: int) -> None:
        """Let a broker go on with its files."""
        replica.advance(number)

    def tidy(self, replica: Replica, number: int) -> None:
        """Begin to clean the log, or to delete its oldest segments."""
        self._begin_tidying(replica, number)
        replica.advance(number)

    def unname(self, replica: Replica, number: int) -> None:
        """Clean up to where a log has neither its old name nor its new one."""
        self._begin_tidying(replica, number)
        while replica.is_up and replica.has_names and replica.advance(1):
            pass

    def fetch(self, replica: Replica, number: int) -> None:
        """Let a follower fetch."""
        self.partition.fetch(replica, number)

    def roll(self, replica: Replica, number: int) -> None:
        """Close the active segment."""
        del number
        if replica.is_up:
            replica.roll()

    def elect(self, replica: Replica, number: int) -> None:
        """Make a replica the leader."""
        del number
        self.partition.elect(replica)

    def crash(self, replica: Replica, number: int) -> None:
        """End a broker; it may lose batches of its active segment."""
        if replica.is_up:
            replica.crash(number - 1 if number <= _MAX_LOST else 0)

    def sweep(self, replica: Replica, number: int) -> None:
        """Remove what was to be deleted."""
        del number
        replica.sweep()

    @property
    def partition(self) -> SimulatedPartition:
        """The one that is there now."""
        return self.made[-1]

    def _make(self) -> None:
        number = len(self.made)
        self.made.append(
            SimulatedPartition(
                self.root / str(number),
                self.limits,
                topic_id=str(self._id(number)) if self.has_id else "",
                made_ms=number * 1_000_000,
            )
        )

    def _id(self, number: int) -> Uuid:
        return Uuid.from_bytes(bytes([*range(15), number + 1]))

    def _name(self, number: int | None = None) -> TopicIdPartition:
        which = len(self.made) - 1 if number is None else number
        made = self._id(which) if self.has_id else UNKNOWN_TOPIC_ID
        return TopicIdPartition("t", 0, made)

    def _begin_tidying(self, replica: Replica, number: int) -> None:
        if self.compacted:
            self._begin_cleaning(replica, 1 + number % 3)
        elif replica.is_up:
            limit = self.partition.high_watermark
            replica.begin_retention(1 + number % 2, limit)

    def _begin_cleaning(self, replica: Replica, merged: int) -> None:
        if self.compacted and replica.is_up:
            limit = self.partition.high_watermark
            replica.begin_cleaning(limit, merged, self.partition.day)

    def _perform(self, act: Act, near: Replica) -> None:
        """Let the broker do it that is so many from another one."""
        replicas = self.partition.replicas
        which = (replicas.index(near) + act.replica) % len(replicas)
        getattr(self, act.name)(replicas[which], act.number)

    def _open(self, replica: Replica, happenings: Mapping[int, Happening]) -> KafkaLog:
        """Open a log directory in which things happen."""
        requests = iter(range(1 << 30))

        def happen() -> str:
            happening = happenings.get(next(requests))
            if happening is None:
                return "new"
            for act in happening.acts:
                self._perform(act, replica)
            return happening.seen

        return KafkaLog(ChangingStore.over(ObjectStore(str(replica.root)), happen))

    @contextmanager
    def _watching(self, source: Replica) -> Iterator[None]:
        """See whether a new log shares no offset and leader epoch with the old one.

        Nothing shows then that it is another: it ends before that one, retention or the
        cleaner has removed what could be compared, or another leader wrote it.
        """
        if len(self.made) == 1 or self.has_id:
            yield
            return
        name = self._name()
        try:
            rows = _read(self.archive, name).rows
        except TieredFSError:
            rows = ()
        served = {offset for offset, _, _ in rows}
        stored = {
            (offset, epoch)
            for first, end, epoch in _stored(self.archive, name)
            for offset in served.intersection(range(first, end))
        }
        holds_segments = name in self.archive.list_partitions() and bool(
            self.archive.list_segments(name)
        )
        before = source.closed_records
        try:
            yield
        finally:
            self.is_blind |= holds_segments and not (
                stored & before & source.closed_records
            )

    def _check_reported(self, report: PushReport) -> None:
        """Check that a push that says that all is well has left no hole."""
        outcomes = {one.outcome for one in report.segments}
        if (
            not self.compacted  # of others, retention may have been faster
            or len(self.made) > 1
            or not outcomes <= {PushOutcome.COPIED, PushOutcome.PRESENT}
        ):
            return
        stored = self.archive.list_segments(self._name()) if outcomes else []
        spans = [(s.start_offset, (s.end_offset or 0) + 1) for s in stored]
        reached = 0
        for start, end in sorted(spans):
            assert start <= reached, f"pushed with a hole from {reached} to {start - 1}"
            reached = max(reached, end)

    def _check_archive(self) -> None:
        """Check what the archive serves, and what is said of it."""
        for name in self.archive.list_partitions():
            made = [
                sim
                for number, sim in enumerate(self.made)
                if self._name(number) == name
            ]
            stored = _stored(self.archive, name)
            newest = max((e for _, _, e in stored), default=0) if len(made) == 1 else 0
            reports = verify(self.archive, [name], Depth.EVERYTHING)
            problems = [p for report in reports for p in report.problems]
            try:
                found = _read(self.archive, name)
            except TieredFSError as error:
                _require(problems, f"verify found nothing, a scan says: {error}")
                continue
            wrong = []
            for sim in made:
                try:
                    self._check_one(found, sim, newest_epoch=newest)
                except AssertionError as error:
                    wrong.append(error)
            if len(wrong) == len(made) and not self.is_blind:
                raise wrong[0]
            self._check_pull(name, found, problems)

    def _check_directory(self, found: "_Found") -> None:
        told = self._wrong(found, self.partition.lineages[0])
        assert told is None, told

    def _check_pull(
        self, name: TopicIdPartition, found: "_Found", problems: list[Any]
    ) -> None:
        with scratch_store() as target:
            try:
                pull(self.archive, target, [name])
            except TieredFSError as error:
                _require(problems, f"verify found nothing, pull says: {error}")
                return
            try:
                again = _read(KafkaLog(target), name)
            except CorruptDataError as error:
                # Nothing in it says that its topic was compacted.
                _require(self.compacted, f"what was pulled is not read: {error}")
                return
            assert again.rows == found.rows, "what was pulled differs"

    def _check_one(
        self, found: "_Found", sim: SimulatedPartition, *, newest_epoch: int
    ) -> None:
        """Check records against what some leader served, and no older than that."""
        first = max(
            number
            for number, lineage in enumerate(sim.lineages)
            if lineage.epoch <= newest_epoch or number == 0
        )
        wrong = [
            told
            for lineage in sim.lineages[first:]
            for told in [self._wrong(found, lineage)]
        ]
        assert None in wrong, wrong[-1]

    def _wrong(self, found: "_Found", lineage: Lineage) -> str | None:
        """Tell what is wrong with records, were these what the leaders wrote."""
        rows = found.rows
        offsets = [offset for offset, _, _ in rows]
        if offsets != sorted(set(offsets)):
            return f"offsets out of order: {offsets}"
        for offset, key, value in rows:
            true = lineage.records.get(offset)
            if true is None or (true.key, true.value) != (key, value):
                return f"offset {offset} is {key!r}={value!r}, not {true}"
        if not self.compacted:
            expected = list(range(found.begin, found.end))
            return (
                None
                if offsets == expected
                else (f"of [{found.begin}, {found.end}) are served {offsets}")
            )
        return _stale(found, lineage)

    def _check_healed(self, leader: Replica) -> None:
        """Check that a quiet push left nothing to be desired."""
        name, closed = self._name(), leader.active
        current = self.partition.lineages[-1]
        stored = _stored(self.archive, name)
        held = {
            offset
            for first, end, epoch in stored
            for offset in range(first, end)
            if current.epochs.get(offset) == epoch
        }
        if not held or closed <= leader.start:
            return
        # Another replica may have archived what this leader still writes to.
        end = max(closed, max(held) + 1)
        whole = self.compacted or held >= set(range(min(held), end))
        try:
            found = _read(self.archive, name)
        except CorruptDataError as error:
            _require(not whole, f"a quiet push did not heal: {error}")
            return
        assert found.begin <= leader.start, "the beginning is not served"
        assert found.end >= closed, f"the log ends at {found.end}, not {closed}"
        below = _Found(
            tuple(row for row in found.rows if row[0] < closed), found.begin, closed
        )
        told = self._wrong(below, current)
        assert told is None, f"after a quiet push: {told}"


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read.

    Attributes:
        rows: Offset, key and value of each record.
        begin: First offset of the log.
        end: End (exclusive) of it.
    """

    rows: tuple[tuple[int, bytes | None, bytes | None], ...]
    begin: int
    end: int


def _read(storage: RemoteStorageManager, name: TopicIdPartition) -> _Found:
    topic = Tier(storage).topic(name.topic, topic_id=str(name.topic_id))
    scan = topic.scan(columns=["offset", "key", "value"])
    table = scan.to_table()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    parts = scan.plan.slices
    begin, end = (parts[0].start_offset, parts[-1].end_offset) if parts else (0, 0)
    return _Found(tuple(rows), begin, end)


def _stored(
    storage: RemoteStorageManager, name: TopicIdPartition
) -> list[tuple[int, int, int]]:
    """Return first offset, end and epoch of each batch that is stored."""
    if name not in storage.list_partitions():
        return []
    found = []
    for segment in storage.survey(name):
        if not isinstance(segment, SegmentMetadata):
            continue
        log = b"".join(storage.stream_log(segment))
        at = 0
        while at < len(log):
            base, length, epoch = _HEADER.unpack_from(log, at)
            (delta,) = struct.unpack_from(">i", log, at + 23)
            found.append((base, base + delta + 1, epoch))
            at += 12 + length
    return found


def _require(holds: object, message: str) -> None:
    """Fail with what is wrong, where an error was an answer."""
    assert holds, message


def _stale(found: _Found, lineage: Lineage) -> str | None:
    """Tell which key has not its last value, were it read from the beginning."""
    served = {key: offset for offset, key, _ in found.rows}
    last = {
        record.key: record
        for record in lineage.records.values()
        if record.offset < found.end
    }
    later = {r.key for r in lineage.records.values() if r.offset >= found.end}
    for key, record in last.items():
        is_gone = key not in served and (record.value is None or key in later)
        if served.get(key) != record.offset and not is_gone:
            is_at = served.get(key)
            return f"the last of {key!r} is at offset {record.offset}, not {is_at}"
    return None
