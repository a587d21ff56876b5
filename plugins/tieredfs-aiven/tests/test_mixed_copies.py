"""No copy is acknowledged whose objects are of several copies, or are missing."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar, Self, TypeVar

import pytest

from support.samples import DATA, KEYS
from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestEvent,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.storage import open_log
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)
from tieredfs.testing.stores import InterceptedStore
from tieredfs_aiven import Aiven

ONE = sample(PARTITIONS[0], 1)
ENCRYPTED: Mapping[str, Any] = {"encryption_keys": KEYS, "encryption_key_id": "k1"}
MODES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "zstd": {"compression": "zstd", "chunk_size": 300},
    "encrypted": ENCRYPTED,
}
every_mode = pytest.mark.parametrize("mode", MODES)

_T = TypeVar("_T")
_Hook = Callable[[str, Sequence[str], Callable[[], object]], object]


class Died(BaseException):
    """The process ends here."""


class Hooked(InterceptedStore):
    """A store that calls a hook in place of each request."""

    hook: _Hook
    is_distant: ClassVar[bool] = False

    @property
    def is_local(self) -> bool:
        return not self.is_distant and super().is_local

    @classmethod
    def over(cls, store: ObjectStore, hook: _Hook) -> Self:
        made = cls._onto(store)
        made.hook = hook
        return made

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        found: _T = self.hook(verb, keys, execute)  # type: ignore[assignment] # of execute
        return found


@pytest.fixture(autouse=True, params=[False, True], ids=["local", "distant"])
def _distance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a distant store, objects are sent concurrently."""
    monkeypatch.setattr(Hooked, "is_distant", request.param)


def opened(store: ObjectStore, mode: str) -> Aiven:
    return Aiven(store, key_prefix="", **MODES[mode])


def assert_readable(store: ObjectStore) -> None:
    reader = Aiven(store, key_prefix="", encryption_keys=KEYS)
    assert [one.id for one in reader.list_segments(PARTITIONS[0])] == [ONE.metadata.id]
    assert reader.fetch_log_segment(ONE.metadata) == ONE.log
    assert dict(reader.fetch_all_indexes(ONE.metadata)) == dict(ONE.data.indexes)


def is_listed(store: ObjectStore) -> bool:
    with suppress(NotFoundError):
        return bool(Aiven(store, key_prefix="").list_segments(PARTITIONS[0]))
    return False


def keep(store: ObjectStore, *suffixes: str) -> None:
    store.delete(e.key for e in store.list() if not e.key.endswith(suffixes))


class TestTwoWriters:
    @every_mode
    def test_objects_that_another_one_deleted_are_stored_again(
        self, memory: ObjectStore, mode: str
    ) -> None:
        deleted: list[str] = []

        def hook(
            verb: str, keys: Sequence[str], execute: Callable[[], object]
        ) -> object:
            if verb == "put" and keys[0].endswith("manifest") and not deleted:
                deleted.extend(entry.key for entry in memory.list())
                memory.delete(deleted)
            return execute()

        opened(Hooked.over(memory, hook), mode).copy_log_segment(ONE.metadata, ONE.data)
        assert len(deleted) == 2
        assert_readable(memory)

    @pytest.mark.parametrize("stored", [1, 2])
    def test_the_log_of_one_that_died_does_not_get_the_manifest_of_another(
        self, memory: ObjectStore, stored: int
    ) -> None:
        died, puts = 0, count()

        def dying(
            verb: str, keys: Sequence[str], execute: Callable[[], object]
        ) -> object:
            del keys
            if verb.startswith("put") and next(puts) >= stored:
                raise Died
            return execute()

        def hook(
            verb: str, keys: Sequence[str], execute: Callable[[], object]
        ) -> object:
            nonlocal died
            if verb == "put" and keys[0].endswith("manifest") and not died:
                died += 1
                memory.delete([entry.key for entry in memory.list()])
                other = Hooked.over(memory, dying)
                with pytest.raises(Died):
                    opened(other, "encrypted").copy_log_segment(ONE.metadata, ONE.data)
            return execute()

        storage = opened(Hooked.over(memory, hook), "encrypted")
        storage.copy_log_segment(ONE.metadata, ONE.data)
        assert died == 1
        assert_readable(memory)

    def test_one_that_is_disturbed_each_time_raises_and_leaves_no_mixed_segment(
        self, memory: ObjectStore
    ) -> None:
        others = Aiven(other := ObjectStore(f"{memory.url}-other"), **ENCRYPTED)
        others.copy_log_segment(ONE.metadata, ONE.data)

        def hook(
            verb: str, keys: Sequence[str], execute: Callable[[], object]
        ) -> object:
            if verb == "put" and keys[0].endswith("manifest"):
                for entry in other.list():
                    if not entry.key.endswith("manifest"):
                        memory.put(entry.key, other.get(entry.key), overwrite=True)
            return execute()

        storage = opened(Hooked.over(memory, hook), "encrypted")
        with pytest.raises(AlreadyExistsError, match="replaced its objects meanwhile"):
            storage.copy_log_segment(ONE.metadata, ONE.data)
        assert not is_listed(memory)
        opened(memory, "encrypted").copy_log_segment(ONE.metadata, ONE.data)
        assert_readable(memory)


class TestAManifestWithoutItsObjects:
    @every_mode
    @pytest.mark.parametrize("left", [(), ("log",), ("indexes",)], ids="-".join)
    @pytest.mark.parametrize("has_landed", [True, False])
    def test_is_never_listed_with_those_of_a_copy_that_failed(
        self, memory: ObjectStore, mode: str, left: tuple[str, ...], *, has_landed: bool
    ) -> None:
        for failing in range(10):
            memory.delete([entry.key for entry in memory.list()])
            opened(memory, mode).copy_log_segment(ONE.metadata, ONE.data)
            keep(memory, "manifest", *left)
            sent = -1

            def hook(
                verb: str, keys: Sequence[str], execute: Callable[[], object]
            ) -> object:
                nonlocal sent
                sent += 1
                if sent != failing:  # noqa: B023 - of this round
                    return execute()
                if has_landed and verb.startswith(("put", "delete")):
                    execute()
                raise StorageUnavailableError(f"{verb} {keys}")

            try:
                storage = opened(Hooked.over(memory, hook), mode)
                storage.copy_log_segment(ONE.metadata, ONE.data)
            except TieredFSError:
                pass
            else:
                assert_readable(memory)
            if is_listed(memory):
                assert_readable(memory)
            opened(memory, mode).copy_log_segment(ONE.metadata, ONE.data)
            assert_readable(memory)

    @pytest.mark.parametrize("suffix", ["log", "indexes"])
    def test_beside_one_of_another_copy_is_stored_anew(
        self, memory: ObjectStore, suffix: str
    ) -> None:
        storage = opened(memory, "encrypted")
        storage.copy_log_segment(ONE.metadata, ONE.data)
        (key,) = (e.key for e in memory.list() if e.key.endswith(f".{suffix}"))
        first = memory.get(key)
        storage.delete_log_segment(ONE.metadata)
        storage.copy_log_segment(ONE.metadata, ONE.data)
        memory.put(key, first, overwrite=True)
        storage.copy_log_segment(ONE.metadata, ONE.data)
        assert_readable(memory)


def test_an_encrypted_copy_that_cannot_be_verified_is_not_acknowledged(
    memory: ObjectStore,
) -> None:
    public = {"k1": DATA / "keys" / "TEST-KEY-k1.public.pem"}
    writer = Aiven(memory, encryption_keys=public, encryption_key_id="k1")
    writer.copy_log_segment(ONE.metadata, ONE.data)
    before = {entry.key: memory.get(entry.key) for entry in memory.list()}
    for other in (writer, Aiven(memory)):
        with pytest.raises(PermissionDeniedError, match=r"stored already.*key 'k1'"):
            other.copy_log_segment(ONE.metadata, ONE.data)
    assert {entry.key: memory.get(entry.key) for entry in memory.list()} == before
    keep(memory, "manifest", "indexes")  # which needs no key to be seen
    writer.copy_log_segment(ONE.metadata, ONE.data)
    assert_readable(memory)


@every_mode
def test_a_replacement_that_is_disturbed_is_stored_again(
    memory: ObjectStore, mode: str
) -> None:
    opened(memory, mode).copy_log_segment(ONE.metadata, ONE.data)
    deleted: list[str] = []

    def hook(verb: str, keys: Sequence[str], execute: Callable[[], object]) -> object:
        if verb == "put" and keys[0].endswith("manifest") and not deleted:
            deleted.extend(e.key for e in memory.list() if e.key.endswith("log"))
            memory.delete(deleted)
        return execute()

    with open_log(ONE.data.log, "a log") as log:
        opened(Hooked.over(memory, hook), mode).replace_log_segment(
            ONE.metadata, log, ONE.data.indexes
        )
    assert deleted
    assert_readable(memory)


@every_mode
@pytest.mark.parametrize("other_mode", MODES)
def test_another_log_of_the_same_size_is_not_taken_for_the_stored_one(
    memory: ObjectStore, mode: str, other_mode: str
) -> None:
    stored = opened(memory, mode)
    batches = tuple(
        BatchPlan((PlannedRecord(1_760_000_000_000, b"k", value),))
        for value in (b"a" * 40, b"b" * 40)
    )
    first, second = (
        build_segment(PARTITIONS[0], ONE.metadata.id, 100, SegmentPlan((batch,)))
        for batch in batches
    )
    assert len(first.log) == len(second.log)
    assert first.log != second.log
    stored.copy_log_segment(first.metadata, first.data)
    options = {"encryption_keys": KEYS, **MODES[other_mode]}
    other = Aiven(memory, key_prefix="", **options)
    with pytest.raises(AlreadyExistsError, match="exists with another log"):
        other.copy_log_segment(second.metadata, second.data)
    other.copy_log_segment(first.metadata, first.data)
    assert stored.fetch_log_segment(first.metadata) == first.log


def test_a_plain_log_with_a_changed_byte_is_not_taken_for_the_given_one(
    memory: ObjectStore,
) -> None:
    storage = opened(memory, "plain")
    storage.copy_log_segment(ONE.metadata, ONE.data)
    (key,) = (e.key for e in memory.list() if e.key.endswith(".log"))
    changed = bytearray(memory.get(key))
    changed[-1] ^= 1
    memory.put(key, changed, overwrite=True)
    with pytest.raises(AlreadyExistsError, match="or is damaged"):
        storage.copy_log_segment(ONE.metadata, ONE.data)


@every_mode
def test_a_copy_takes_six_requests_and_its_verification_reads_little(
    memory: ObjectStore, mode: str
) -> None:
    events: list[RequestEvent] = []
    storage = opened(memory.with_observer(Keeping(events)), mode)
    storage.copy_log_segment(ONE.metadata, ONE.data)
    asked = [(event.verb, event.key.rpartition(".")[2]) for event in events]
    assert asked[0] == ("get", "rsm-manifest")
    assert sorted(asked[1:3]) in (
        [("put", "indexes"), ("put_file", "log")],
        [("put", "indexes"), ("put", "log")],
    )
    assert asked[3:] == [
        ("put", "rsm-manifest"),
        ("get_range", "log"),
        ("get_range", "indexes"),
    ]
    assert all(event.size <= 1024 for event in events[4:])


class Keeping:
    """Keep every request."""

    def __init__(self, events: list[RequestEvent]) -> None:
        self._events = events

    def on_request(self, event: RequestEvent) -> None:
        """Keep it."""
        self._events.append(event)


@pytest.mark.parametrize("latest", [-5000, -1])
@pytest.mark.parametrize("mode", ["plain", "encrypted"])
def test_timestamps_below_minus_one_are_stored_as_a_broker_states_them(
    memory: ObjectStore, latest: int, mode: str
) -> None:
    batch = BatchPlan((PlannedRecord(latest, b"k", b"v"),))
    one = build_segment(PARTITIONS[0], ONE.metadata.id, 0, SegmentPlan((batch,)))
    storage = opened(memory, mode)
    storage.copy_log_segment(one.metadata, one.data)
    (key,) = (e.key for e in memory.list() if e.key.endswith("manifest"))
    manifest = bytes(memory.get(key))
    assert b'"maxTimestampMs":-1,' in manifest
    (segment,) = storage.list_segments(PARTITIONS[0])
    assert storage.describe(segment).max_timestamp_ms == latest
    # Earlier releases stated what the log has.
    older = manifest.replace(b'"maxTimestampMs":-1,', b'"maxTimestampMs":%d,' % latest)
    memory.put(key, older, overwrite=True)
    assert storage.describe(segment).max_timestamp_ms == latest
    wrong = manifest.replace(b'"maxTimestampMs":-1,', b'"maxTimestampMs":1e3,')
    memory.put(key, wrong, overwrite=True)
    with pytest.raises(CorruptObjectError, match="maxTimestampMs"):
        storage.describe(segment)
