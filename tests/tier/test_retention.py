"""Segments that are deleted between a listing, the plan and the reading of it."""

import pickle
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from servers import Bucket
from support.distant import distant
from support.segments import records, segment
from support.stores import fill, make_place, open_store
from support.wire import encode_batch
from tieredfs import (
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    OffsetOutOfRangeError,
    RequestCounter,
    RequestEvent,
    Scan,
    SegmentId,
    SegmentMetadata,
    Tier,
    TieredReader,
    Topic,
    TopicIdPartition,
    Uuid,
    open_storage,
)
from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.read.replan import plan_present
from tieredfs.log.read.scan import OnGap, Order
from tieredfs.storage.layouts.single_object.layout import SingleObject

_ID = "dao62lTOQsGBPyjJLrpQKw"
_SEGMENTS = 5
_EACH = 10


def _folder(partition: int) -> str:
    return f"t-{partition}-{_ID}"


def _log(start: int, value: str = "v") -> bytes:
    return b"".join(
        encode_batch(records(first, 2, value=value))
        for first in range(start, start + _EACH, 2)
    )


def _fill(store: ObjectStore, partitions: Iterable[int] = (0,)) -> None:
    files: dict[str, bytes] = {}
    for partition in partitions:
        for start in range(0, _SEGMENTS * _EACH, _EACH):
            files |= segment(_folder(partition), start, _log(start))
    fill(store, files)


def _delete(store: ObjectStore, starts: Collection[int], partition: int = 0) -> None:
    gone = tuple(f"{_folder(partition)}/{start:020d}-" for start in starts)
    store.delete([e.key for e in store.list() if e.key.startswith(gone)])


def _topic(store: ObjectStore) -> Topic:
    return Tier(open_storage(store, "kafka-local")).topic("t")


def _offsets(scans: Iterable[Scan]) -> list[int]:
    return [o for scan in scans for o in scan.to_table()["offset"].to_pylist()]


class _Meanwhile:
    """Do something once, when a request of a kind has been answered."""

    def __init__(
        self, request: str, act: Callable[[], None], *, is_armed: bool = True
    ) -> None:
        self.is_armed = is_armed
        self._request = re.compile(request)
        self._act = act

    def on_request(self, event: RequestEvent) -> None:
        if self.is_armed and self._request.search(f"{event.verb} {event.key}"):
            self.is_armed = False
            self._act()


@pytest.fixture
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return make_place("memory", request, tmp_path)


@given(
    deleted=st.sets(st.integers(0, _SEGMENTS - 1), max_size=_SEGMENTS - 1),
    span=st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted),
    order=st.sampled_from(["partition", "fair"]),
    parts=st.booleans(),
    is_distant=st.booleans(),
)
@settings(max_examples=40)
def test_a_scan_that_skips_gaps_reads_what_was_not_deleted_since_it_was_planned(
    deleted: set[int],
    span: list[int],
    order: Literal["partition", "fair"],
    parts: bool,
    is_distant: bool,
) -> None:
    store = ObjectStore("memory://retention-any")
    store.delete([entry.key for entry in store.list()])
    _fill(store, (0, 1))
    read = ObjectStore(distant(store.url)) if is_distant else store
    scan = _topic(read).scan(start=span[0], end=span[1], order=order, on_gap="skip")
    scans = scan.split(1) if parts else [scan]
    _delete(store, [number * _EACH for number in deleted])
    found = pa.concat_tables(
        [scan.schema.empty_table(), *(s.to_table() for s in scans)]
    )
    left = [offset for offset in range(*span) if offset // _EACH not in deleted]
    for number, expected in ((0, left), (1, list(range(*span)))):
        mine = found.filter(pc.equal(found["partition"], number))
        assert mine["offset"].to_pylist() == expected


@pytest.mark.parametrize("order", ["partition", "fair"])
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("on_gap", ["raise", "skip"])
def test_a_scan_reads_the_segments_that_have_replaced_those_of_its_plan(
    bucket: Bucket, order: Order, is_split: bool, on_gap: OnGap
) -> None:
    store = open_store(bucket)
    _fill(store)
    scan = _topic(store).scan(start=15, end=45, order=order, on_gap=on_gap)
    scans = scan.split(1) if is_split else [scan]
    fill(store, segment(_folder(0), 10, _log(10) + _log(20), name="merged"))
    fill(store, segment(_folder(0), 40, _log(40), name="stored again"))
    _delete_named(store, segment(_folder(0), 10, b"") | segment(_folder(0), 20, b""))
    _delete_named(store, segment(_folder(0), 40, b""))
    assert _offsets(pickle.loads(pickle.dumps(scans))) == list(range(15, 45))  # noqa: S301 - our own


def test_a_scan_reads_what_compaction_has_left_of_the_segments_of_its_plan(
    bucket: Bucket,
) -> None:
    store = open_store(bucket)
    _fill(store)
    scan = _topic(store).scan()
    kept = [*records(10, 1), *records(17, 1), *records(29, 1)]
    fill(store, segment(_folder(0), 10, encode_batch(kept), name="compacted"))
    _delete_named(store, segment(_folder(0), 10, b"") | segment(_folder(0), 20, b""))
    assert _offsets([scan]) == [*range(10), 10, 17, 29, *range(30, 50)]


def test_a_replacement_that_lacks_offsets_inside_the_log_is_an_error(
    bucket: Bucket,
) -> None:
    store = open_store(bucket)
    _fill(store)
    scan = _topic(store).scan()
    fill(store, segment(_folder(0), 10, _log(10), name="other"))
    _delete(store, [20])
    _delete_named(store, segment(_folder(0), 10, b""))
    with pytest.raises(NotFoundError, match=f"{10:020d}-.*up to offset 10"):
        _offsets([scan])


@pytest.mark.parametrize("on_gap", ["raise", "skip"])
def test_a_replacement_of_another_history_is_an_error_where_gaps_are(
    bucket: Bucket, on_gap: OnGap
) -> None:
    store = open_store(bucket)
    _put_history(store, ((0, 0), (1, 5)), "old")
    old = [entry.key for entry in store.list()]

    def elect() -> None:
        _put_history(store, ((0, 0), (2, 3)), "new")
        store.delete(old)

    meanwhile = _Meanwhile(rf"get_range .*{0:020d}-.*log", elect, is_armed=False)
    watched = ObjectStore(bucket.url, observer=meanwhile)
    scan = _topic(watched).scan(on_gap=on_gap)
    meanwhile.is_armed = True
    if on_gap == "skip":
        assert _offsets([scan]) == list(range(40))
        return
    with pytest.raises(NotFoundError, match=f"{20:020d}-.* was read up to offset 20"):
        _offsets([scan])


def _put_history(
    store: ObjectStore, epochs: tuple[tuple[int, int], ...], name: str
) -> None:
    """Store two segments of twenty records each, under the epochs of a history."""
    for start in (0, 20):
        parts = [
            encode_batch(
                records(first, 1), leader_epoch=LeaderEpochs.of(epochs).epoch_at(first)
            )
            for first in range(start, start + 20)
        ]
        known = [one for one in epochs if one[1] < start + 20]
        log = b"".join(parts)
        fill(store, segment(_folder(0), start, log, epochs=known, name=name))


def _delete_named(store: ObjectStore, files: Iterable[str]) -> None:
    store.delete(list(files))


def test_a_scan_goes_on_behind_a_segment_that_is_deleted_while_it_is_read(
    bucket: Bucket,
) -> None:
    store = open_store(bucket)
    _fill(store)
    meanwhile = _Meanwhile(
        rf"get_range .*{20:020d}-.*log",
        lambda: _delete(store, [20, 30]),
        is_armed=False,
    )
    watched = ObjectStore(bucket.url, observer=meanwhile)
    scan = _topic(watched).scan(on_gap="skip")
    meanwhile.is_armed = True
    found = _offsets([replace(scan, plan=replace(scan.plan, fetch_size=100))])
    assert found[:20] == list(range(20))
    assert found[-10:] == list(range(40, 50))
    fetched = found[20:-10]
    assert fetched
    assert fetched == list(range(20, 20 + len(fetched)))
    assert len(fetched) < _EACH


def test_another_segment_that_holds_the_offsets_is_read_in_place_of_a_deleted_one(
    memory: ObjectStore,
) -> None:
    fill(memory, segment(_folder(0), 0, _log(0)))
    fill(memory, segment(_folder(0), 10, _log(10)))
    scan = _topic(memory).scan(on_gap="skip")
    fill(memory, segment(_folder(0), 0, _log(0) + _log(10), name="merged"))
    (old,) = [s.segment for s in scan.plan.slices if s.start_offset == 0]
    memory.delete([e.key for e in memory.list() if str(old.id) in e.key])
    assert _offsets([scan]) == list(range(20))


def test_a_partition_that_is_gone_is_left_out_if_others_are_there(
    memory: ObjectStore,
) -> None:
    _fill(memory, (0, 1))
    scan = _topic(memory).scan(on_gap="skip")
    _delete(memory, range(0, 50, _EACH), partition=0)
    table = scan.to_table()
    assert table["partition"].unique().to_pylist() == [1]
    assert table.num_rows == 50


def test_a_tier_in_which_nothing_is_left_is_an_error(memory: ObjectStore) -> None:
    _fill(memory)
    scan = _topic(memory).scan(on_gap="skip")
    _delete(memory, range(0, 50, _EACH))
    with pytest.raises(NotFoundError, match=f"{0:020d}-"):
        scan.to_table()


def test_a_segment_whose_log_alone_is_gone_is_left_out_once(
    memory: ObjectStore,
) -> None:
    _fill(memory)
    scan = _topic(memory).scan(on_gap="skip")
    memory.delete([e.key for e in memory.list() if re.search("0020-.*log$", e.key)])
    assert _offsets([scan]) == [o for o in range(50) if o // _EACH != 2]


@pytest.mark.parametrize("on_gap", ["raise", "skip"])
def test_segments_that_are_deleted_while_a_scan_is_planned_are_not_in_it(
    bucket: Bucket, on_gap: Literal["raise", "skip"]
) -> None:
    store = open_store(bucket)
    _fill(store)
    topic = _topic(
        ObjectStore(
            bucket.url, observer=_Meanwhile("get .*", lambda: _delete(store, [0, 10]))
        )
    )
    assert _offsets([topic.scan(on_gap=on_gap)]) == list(range(20, 50))


def test_a_start_that_is_deleted_while_a_scan_is_planned_is_out_of_range(
    bucket: Bucket,
) -> None:
    store = open_store(bucket)
    _fill(store)
    topic = _topic(
        ObjectStore(
            bucket.url, observer=_Meanwhile("get .*", lambda: _delete(store, [0, 10]))
        )
    )
    with pytest.raises(OffsetOutOfRangeError, match=r"\[20, 50\)"):
        topic.scan(start=5, on_gap="skip")


def test_a_read_whose_segments_are_deleted_meanwhile_is_out_of_range(
    bucket: Bucket,
) -> None:
    store = open_store(bucket)
    _fill(store)
    gone = [0, 10]  # the read goes on from one to the other
    meanwhile = _Meanwhile("get.*log", lambda: _delete(store, gone), is_armed=False)
    topic = _topic(ObjectStore(bucket.url, observer=meanwhile))
    topic.read(0, 0, 1)  # from now on the segments need no description
    meanwhile.is_armed = True
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 5 .*\[20, 50\)"):
        topic.read(0, 5)


def test_a_read_of_a_listed_segment_whose_log_is_gone_is_not_found(
    memory: ObjectStore,
) -> None:
    _fill(memory)

    class Stale(ObjectStore):
        @override
        def get_range(self, key: str, start: int, end: int) -> memoryview:
            raise NotFoundError(f"not found: {key}")

    with pytest.raises(NotFoundError, match=r"not found: t-0.*\.log") as raised:
        _topic(Stale(memory.url)).read(0, 5)
    assert not isinstance(raised.value, OffsetOutOfRangeError)


def test_a_scan_that_skips_gaps_pickles_as_one(memory: ObjectStore) -> None:
    _fill(memory)
    scan = _topic(memory).scan(on_gap="skip")
    assert pickle.loads(pickle.dumps(scan)).on_gap == "skip"  # noqa: S301 - our own


def test_where_no_offset_is_wanted_no_copies_are_compared(memory: ObjectStore) -> None:
    counter = RequestCounter()
    storage = SingleObject(ObjectStore(memory.url, observer=counter))
    partition = TopicIdPartition("t", 0, Uuid(_ID))
    for number, (end, step) in enumerate([(10, 1), (20, 2)]):  # one is cleaned
        batches = [encode_batch(records(at, 1)) for at in range(0, end - 1, step)]
        log = b"".join([*batches, encode_batch(records(end - 1, 1))])
        indexes = {IndexType.LEADER_EPOCH: b"0\n1\n0 0\n"}
        made = SegmentId.from_bytes(bytes([number]) * 16)
        metadata = SegmentMetadata(partition, made, 0, end - 1)
        storage.copy_log_segment(metadata, LogSegmentData(log, indexes))
    reader = TieredReader(storage, SegmentCatalog(storage), partition)
    reader.segments()
    before = counter.requests
    reader.segments()
    once = counter.requests - before
    for start, end in ((0, 0), (20, 20), (20, 30)):
        before = counter.requests
        assert plan_present(reader, start, end) == []
        assert counter.requests - before == once
    before = counter.requests
    assert plan_present(reader, 0, 1) != []
    assert counter.requests - before > once  # which they were not
