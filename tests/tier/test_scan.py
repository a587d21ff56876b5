import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from typing import Any, Literal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import files_of, fill
from support.wire import CONTROL, WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    OffsetOutOfRangeError,
    RequestCounter,
    Scan,
    SegmentId,
    SegmentMetadata,
    Tier,
    TieredFSError,
    Topic,
    TopicIdPartition,
    open_storage,
    open_tier,
)
from tieredfs.model import UNKNOWN_TOPIC_ID
from tieredfs.storage.layouts.single_object.layout import SingleObject

TXN = KAFKA / "txn" / REMOTE
ID = "dao62lTOQsGBPyjJLrpQKw"


def offsets(scan: Scan) -> list[int]:
    found: list[int] = scan.to_table()["offset"].to_pylist()
    return found


@pytest.fixture(scope="module")
def topic() -> Topic:
    """One partition, 22 segments, control batches between the records."""
    return open_tier(str(TXN)).topic("txn")


@pytest.fixture(scope="module")
def whole(topic: Topic) -> pa.Table:
    """All of its records."""
    return topic.scan().to_table()


@pytest.fixture(scope="module")
def three() -> Topic:
    """Three partitions, seven segments each."""
    return open_tier(str(KAFKA / "two-partitions" / REMOTE)).topic("two-partitions")


@pytest.fixture(scope="module")
def middle(whole: pa.Table) -> tuple[datetime, int]:
    """A record's time, and the first offset at or after it."""
    stamps = whole["timestamp"].cast(pa.int64()).to_pylist()
    pairs = zip(whole["offset"].to_pylist(), stamps, strict=True)
    first = next(offset for offset, stamp in pairs if stamp >= stamps[800])
    return datetime.fromtimestamp(stamps[800] / 1000, UTC), first


class TestRange:
    @pytest.mark.parametrize(
        ("start", "end"),
        [
            (0, 1612),
            (0, 1),
            (75, 76),
            (75, 77),
            (76, 163),
            (100, 101),
            (100, 700),
            (42, 43),  # a control record alone
            (1611, 1612),
            (1612, 1612),
            (1612, None),
            (None, 5),
            (500, None),
            (7, 7),
            (1500, 10**18),
        ],
    )
    def test_the_end_is_exclusive_and_cut_to_the_log(
        self, topic: Topic, whole: pa.Table, start: int | None, end: int | None
    ) -> None:
        first = 0 if start is None else start
        stop = 1612 if end is None else end
        expected = [o for o in whole["offset"].to_pylist() if first <= o < stop]
        assert offsets(topic.scan(start=start, end=end)) == expected

    def test_any_cut_in_two_is_the_whole(self, topic: Topic, whole: pa.Table) -> None:
        for at in range(0, 1613, 41):
            parts = [topic.scan(end=at).to_table(), topic.scan(start=at).to_table()]
            assert pa.concat_tables(parts) == whole

    @pytest.mark.parametrize(
        ("start", "end", "shown"),
        [
            (8, 7, "start 8 is after end 7"),
            (300, 200, "start 300 is after end 200"),
            (5, -1, "start 5 is after end -1"),
            (10**18, 1500, "is after end 1500"),
            ({0: 8}, 7, "partition 0: start 8 is after end 7"),
            (8, {0: 7}, "partition 0: start 8 is after end 7"),
            ({0: 8}, {0: 7}, "partition 0: start 8 is after end 7"),
            ("2100-01-01", "2000-01-01", "start 2100-01-01 is after end 2000-01-01"),
            (datetime(2100, 1, 1, tzinfo=UTC), "2000-01-01", "is after end 2000-01-01"),
        ],
    )
    @pytest.mark.parametrize("on_gap", ["raise", "skip"])
    def test_a_start_behind_the_end_is_an_error(
        self,
        topic: Topic,
        start: Any,  # noqa: ANN401 - what a user may say
        end: Any,  # noqa: ANN401 - what a user may say
        shown: str,
        on_gap: Literal["raise", "skip"],
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=shown):
            topic.scan(start=start, end=end, on_gap=on_gap)

    def test_an_offset_and_a_time_may_be_in_any_order(self, topic: Topic) -> None:
        assert offsets(topic.scan(start=5, end="2000-01-01")) == []
        assert offsets(topic.scan(start="2100-01-01", end=5)) == []
        assert offsets(topic.scan(start="2000-01-01", end="2000-01-01")) == []

    @pytest.mark.parametrize("start", [-1, 1613, 10**18, -(10**18)])
    def test_a_start_outside_the_log_is_out_of_range(
        self, topic: Topic, start: int
    ) -> None:
        with pytest.raises(OffsetOutOfRangeError, match=rf"{start} .*\[0, 1612\)"):
            topic.scan(start=start)
        with pytest.raises(OffsetOutOfRangeError):
            topic.scan(start={0: start}, on_gap="skip")
        if start < 0:
            with pytest.raises(OffsetOutOfRangeError, match=f"offset {start} is out"):
                topic.scan(end=start)

    def test_a_start_below_a_log_that_begins_later_is_out_of_range(self) -> None:
        late = open_tier(str(KAFKA / "leader-changes" / REMOTE)).topic("leader-changes")
        with pytest.raises(OffsetOutOfRangeError):
            late.scan(start=0)
        assert offsets(late.scan(end=0)) == []

    def test_offsets_may_differ_by_partition(self, three: Topic) -> None:
        table = three.scan(start={0: 250, 2: 240}, end={0: 252, 1: 1}).to_table()
        found = list(
            zip(
                table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
            )
        )
        assert found == [(0, 250), (0, 251), (1, 0), *((2, o) for o in range(240, 250))]

    def test_an_offset_of_a_partition_that_is_not_scanned_is_refused(
        self, three: Topic
    ) -> None:
        for bounds in ({3: 0}, {0: 0, 7: 1}):
            with pytest.raises(InvalidArgumentError):
                three.scan(start=bounds)
        with pytest.raises(InvalidArgumentError, match="1"):
            three.scan([0], end={1: 5})


class TestTime:
    def test_a_time_stands_for_the_offset_it_finds(
        self, topic: Topic, middle: tuple[datetime, int]
    ) -> None:
        time, first = middle
        stamp = round(time.timestamp() * 1000)
        found = topic.offsets_for_times({0: stamp})[0]
        assert found is not None
        assert found.offset <= first
        forms: list[Any] = [
            time,
            time.replace(tzinfo=None),
            time.astimezone(timezone(timedelta(hours=5, minutes=30))),
            time.isoformat(),
            time.replace(tzinfo=None).isoformat(),
            time.isoformat().replace("+00:00", "Z"),
        ]
        for form in forms:
            assert topic.offsets_for_times({0: form})[0] == found
            assert offsets(topic.scan(start=form)) == offsets(
                topic.scan(start=found.offset)
            )
            assert offsets(topic.scan(end=form)) == offsets(
                topic.scan(end=found.offset)
            )

    def test_a_time_is_no_filter_of_records(self, topic: Topic) -> None:
        scan = topic.scan(start="1970-01-01")
        assert offsets(scan) == offsets(topic.scan())

    def test_a_time_after_every_record_is_the_end(self, topic: Topic) -> None:
        assert topic.offsets_for_times({0: 1 << 60}) == {0: None}
        assert offsets(topic.scan(start="9999-01-01")) == []
        assert offsets(topic.scan(end="9999-01-01")) == offsets(topic.scan())

    def test_a_fraction_of_a_millisecond_is_the_next(
        self, topic: Topic, middle: tuple[datetime, int]
    ) -> None:
        time, _ = middle
        stamp = round(time.timestamp() * 1000)
        exact = topic.offsets_for_times({0: stamp + 1})
        assert exact != topic.offsets_for_times({0: stamp})
        for later in (
            time + timedelta(microseconds=1),
            pd.Timestamp(time) + pd.Timedelta(1, "ns"),
            f"{time:%Y-%m-%dT%H:%M:%S.%f}001Z",
            f"{time:%Y-%m-%dT%H:%M:%S,%f}0000001",
        ):
            assert topic.offsets_for_times({0: later}) == exact
        for same in (pd.Timestamp(time), f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z"):
            assert topic.offsets_for_times({0: same}) == topic.offsets_for_times(
                {0: stamp}
            )

    @pytest.mark.parametrize("time", ["yesterday", "", 1.5, True, None, b"2026"])
    def test_what_is_no_time_is_refused(self, topic: Topic, time: Any) -> None:  # noqa: ANN401 - any wrong thing
        with pytest.raises(InvalidArgumentError):
            topic.offsets_for_times({0: time})

    @pytest.mark.parametrize("time", ["yesterday", 1.5, b"2026", [1]])
    def test_what_is_no_position_is_refused(self, topic: Topic, time: Any) -> None:  # noqa: ANN401 - any wrong thing
        for bounds in ({"start": time}, {"end": time}):
            with pytest.raises(InvalidArgumentError):
                topic.scan(**bounds)


class TestPartitionsAndColumns:
    def test_partitions_come_as_they_are_named_each_once(self, three: Topic) -> None:
        table = three.scan([2, 0, 2]).to_table()
        found = [number for number, _ in groupby(table["partition"].to_pylist())]
        assert found == [2, 0]
        assert table.num_rows == 250 + 255

    def test_no_partitions_are_no_records(self, three: Topic) -> None:
        assert three.scan([]).to_table().num_rows == 0
        assert list(three.scan([])) == []

    def test_a_missing_partition_is_not_found(self, three: Topic) -> None:
        with pytest.raises(NotFoundError, match=r"partition 3.*0, 1, 2"):
            three.scan([0, 3])
        with pytest.raises(NotFoundError):
            three.offsets_for_times({3: 0})
        with pytest.raises(NotFoundError):
            three.read(3, 0)

    @pytest.mark.parametrize(
        "columns", [["offset"], ["value", "key"], ["headers", "topic"]]
    )
    def test_columns_come_as_they_are_named(
        self, topic: Topic, whole: pa.Table, columns: list[str]
    ) -> None:
        table = topic.scan(columns=columns).to_table()
        assert table.schema.names == columns
        assert table == whole.select(columns)
        assert table.num_rows == whole.num_rows

    def test_without_columns_records_are_still_counted(self, topic: Topic) -> None:
        assert topic.scan(columns=[]).to_table().num_rows == 1584

    @pytest.mark.parametrize("columns", [["nope"], ["offset", "offset"], ["Key"]])
    def test_a_column_that_is_none_is_refused(
        self, topic: Topic, columns: list[str]
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=r"key, value, topic"):
            topic.scan(columns=columns)

    @pytest.mark.parametrize("name", ["order", "on_gap"])
    @pytest.mark.parametrize("wrong", ["random", "", None, 5, ["fair"], {"skip"}])
    def test_a_choice_that_is_none_is_refused(
        self,
        topic: Topic,
        name: str,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        options: dict[str, Any] = {name: wrong}
        with pytest.raises(InvalidArgumentError, match=rf"^{name} must be '\w+' or '"):
            topic.scan(**options)

    def test_a_fair_order_takes_a_batch_of_each_in_turn(
        self, memory: ObjectStore
    ) -> None:
        fill_three(memory, value="v" * 100_000)
        topic = Tier(open_storage(memory)).topic("t")
        turns = {
            order: [
                number
                for number, _ in groupby(
                    batch["partition"][0].as_py()
                    for batch in topic.scan(order=order, columns=["partition", "value"])
                )
            ]
            for order in ("partition", "fair")
        }
        assert turns["partition"] == [0, 1, 2]
        assert turns["fair"][:6] == [0, 1, 2, 0, 1, 2]
        fair = topic.scan(order="fair").to_table()
        plain = topic.scan().to_table()
        keys = [("partition", "ascending"), ("offset", "ascending")]
        assert fair.select(["partition", "offset"]).sort_by(keys) == plain.select(
            ["partition", "offset"]
        )
        for number in range(3):
            mine = fair.filter(pa.compute.equal(fair["partition"], number))
            assert mine["offset"].to_pylist() == list(range(160))


def fill_three(store: ObjectStore, value: str = "v") -> None:
    for number in range(3):
        log = b"".join(
            encode_batch(records(start, 10, value=value)) for start in range(0, 160, 10)
        )
        fill(store, segment(f"t-{number}-{ID}", 0, log))


class TestGaps:
    @pytest.fixture
    def holed(self, memory: ObjectStore) -> Topic:
        """The transactional topic without its segments at 241 and 1603."""
        files = files_of(TXN)
        kept = {k: v for k, v in files.items() if not ("0241-" in k or "1603-" in k)}
        fill(memory, kept)
        return Tier(open_storage(memory)).topic("txn")

    def test_missing_offsets_are_an_error_that_names_them(self, holed: Topic) -> None:
        with pytest.raises(CorruptDataError, match=r"txn-0.*241 to 315"):
            holed.scan()
        with pytest.raises(CorruptDataError, match="250 to 315"):
            holed.scan(start=250, end=400)

    def test_missing_offsets_can_be_skipped(
        self, holed: Topic, whole: pa.Table
    ) -> None:
        found = offsets(holed.scan(on_gap="skip"))
        assert found == [
            o for o in whole["offset"].to_pylist() if o < 1603 and not 241 <= o < 316
        ]
        assert offsets(holed.scan(start=250, end=300, on_gap="skip")) == []
        assert offsets(holed.scan(start=250, end=317, on_gap="skip")) == [316]

    def test_what_lies_beside_a_gap_is_read(self, holed: Topic) -> None:
        assert offsets(holed.scan(end=241))[-1] == 240
        assert offsets(holed.scan(start=316))[0] == 316

    def test_a_time_that_falls_into_a_gap_is_an_error_that_names_it(
        self, holed: Topic, whole: pa.Table
    ) -> None:
        stamps = dict(
            zip(
                whole["offset"].to_pylist(),
                whole["timestamp"].cast(pa.int64()).to_pylist(),
                strict=True,
            )
        )
        inside = datetime.fromtimestamp(stamps[250] / 1000, UTC)
        for first, last in ((inside, None), (None, inside)):
            with pytest.raises(CorruptDataError, match="241 to 315"):
                holed.scan(start=first, end=last)
        with pytest.raises(CorruptDataError, match="241 to 315"):
            holed.offsets_for_times({0: inside})
        assert offsets(holed.scan(start=inside, on_gap="skip"))[0] == 316
        after = next(o for o in stamps if o > 316 and stamps[o] > stamps[316])
        found = holed.offsets_for_times({0: stamps[after]})[0]
        assert found is not None
        assert found.offset == after
        before = holed.offsets_for_times({0: stamps[0]})[0]
        assert before is not None
        assert before.offset == 0

    def test_reading_reaches_up_to_a_gap_and_then_names_it(
        self, holed: Topic, whole: pa.Table
    ) -> None:
        found, offset = list[int](), 0
        while offset < 241:
            fetched = holed.read(0, offset, max_bytes=1000)
            assert fetched.num_rows
            found += fetched.records["offset"].to_pylist()
            offset = fetched.next_offset
        with pytest.raises(CorruptDataError, match="241 to 315"):
            holed.read(0, offset)
        assert found == [o for o in whole["offset"].to_pylist() if o < 241]
        assert holed.read(0, 316).num_rows

    def test_behind_a_gap_a_time_is_found_as_in_the_whole_log(
        self, memory: ObjectStore
    ) -> None:
        fill(memory, segment(f"t-0-{ID}", 0, encode_batch(records(0, 10, timestamp=0))))
        late = encode_batch(records(100, 1, timestamp=500)) + b"".join(
            encode_batch(records(at, 50, timestamp=1000 + at, value="v" * 200))
            for at in range(101, 1101, 50)
        )
        fill(memory, segment(f"t-0-{ID}", 100, late))
        topic = Tier(open_storage(memory)).topic("t")
        with pytest.raises(CorruptDataError, match="10 to 99"):
            topic.offsets_for_times({0: 400})
        for offset in range(101, 1101, 7):
            found = topic.offsets_for_times({0: 1000 + offset})[0]
            assert found is not None
            assert found.offset == offset

    @pytest.mark.parametrize("copies", [1, 2])
    def test_reading_what_only_control_records_precede_names_the_gap(
        self, memory: ObjectStore, whole: pa.Table, copies: int
    ) -> None:
        files = files_of(TXN)
        starts = sorted({int(name.rsplit("/", 1)[1][:20]) for name in files})
        held = set(whole["offset"].to_pylist())
        gone = next(at for at in starts[1:-1] if at - 1 not in held)
        kept = {k: v for k, v in files.items() if f"{gone:020d}-" not in k}
        fill(memory, kept)
        if copies == 2:  # so that the segments overlap, and all of them are planned
            before = f"{max(at for at in starts if at < gone):020d}-"
            for name, data in kept.items():
                if before in name:
                    folder, _, file = name.rpartition("/")
                    other = f"{file[:21]}{ID}{file[43:]}"
                    memory.put(f"{folder}/{other}", data, overwrite=False)
        topic = Tier(open_storage(memory)).topic("txn")
        with pytest.raises(CorruptDataError, match=rf"offsets {gone} to"):
            topic.read(0, gone - 1)

    def test_a_log_ends_where_its_last_segment_does(self, holed: Topic) -> None:
        assert holed.end_offsets() == {0: 1603}

    def test_a_log_begins_where_its_first_segment_does(
        self, memory: ObjectStore
    ) -> None:
        fill(memory, {k: v for k, v in files_of(TXN).items() if "00000-3Ecs" not in k})
        topic = Tier(open_storage(memory)).topic("txn")
        assert topic.beginning_offsets() == {0: 76}
        with pytest.raises(OffsetOutOfRangeError):
            topic.scan(start=75)
        assert offsets(topic.scan())[0] == 76


class TestTheScanItself:
    def test_it_reads_nothing_until_it_is_asked(self) -> None:
        counter = RequestCounter()
        store = ObjectStore(str(TXN), observer=counter)
        scan = Tier(open_storage(store)).topic("txn").scan()
        planned = counter.size
        assert scan.plan.segments == 22
        assert scan.plan.size == 257893
        assert scan.plan.requests == 22
        before = counter.requests
        list(scan)
        assert counter.requests - before == scan.plan.requests
        assert counter.size - planned == scan.plan.size

    def test_a_narrow_scan_fetches_little(self, topic: Topic) -> None:
        plan = topic.scan(start=100, end=101).plan
        assert plan.segments == 1
        assert plan.size < 2000

    def test_it_is_lazy(self, memory: ObjectStore) -> None:
        fill_three(memory, value="v" * 100_000)
        counter = RequestCounter()
        store = ObjectStore(memory.url, observer=counter)
        scan = Tier(open_storage(store)).topic("t").scan()
        before = counter.by_verb().get("get_range", 0)
        iterator = iter(scan)
        next(iterator)
        assert counter.by_verb()["get_range"] - before == 1

    def test_it_can_be_read_again_and_again(self, topic: Topic) -> None:
        scan = topic.scan()
        assert list(scan) == list(scan)
        one, other = iter(scan), iter(scan)
        assert [next(one) == next(other) for _ in range(1)] == [True]

    def test_it_pickles(self, topic: Topic, whole: pa.Table) -> None:
        for scan in (topic.scan(), topic.scan(order="fair", columns=["value"])):
            again = pickle.loads(pickle.dumps(scan))  # noqa: S301 - our own
            assert again.to_table() == scan.to_table()
            assert repr(again) == repr(scan)
        for thing in (topic, open_tier(str(TXN))):
            again = pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own
            found = again if isinstance(again, Topic) else again.topic("txn")
            assert found.scan().to_table() == whole

    @pytest.mark.parametrize("target", [1, 12_000, 30_000, 100_000, 1 << 40])
    def test_its_parts_read_what_it_reads(
        self, topic: Topic, three: Topic, target: int
    ) -> None:
        for scan in (topic.scan(start=30, end=1500), three.scan(columns=["offset"])):
            parts = scan.split(target)
            assert pa.concat_tables([p.to_table() for p in parts]) == scan.to_table()
            assert all(p.plan.size <= target or p.plan.segments == 1 for p in parts)
            assert sum(p.plan.size for p in parts) == scan.plan.size
        assert len(topic.scan().split(1 << 40)) == 1
        assert topic.scan([]).split(1) == []

    def test_the_parts_of_a_fair_scan_come_by_partition(self, three: Topic) -> None:
        parts = three.scan(order="fair").split(12_000)
        found = pa.concat_tables([part.to_table() for part in parts])
        assert found == three.scan().to_table()

    @pytest.mark.parametrize("order", ["partition", "fair"])
    def test_a_reading_of_it_can_be_closed(
        self, three: Topic, order: Literal["partition", "fair"]
    ) -> None:
        scan = three.scan(order=order)
        for reading in (iter(scan), scan.read_gradually(1)):
            assert next(reading).num_rows > 0
            reading.close()
            assert list(reading) == []

    def test_it_is_a_context_manager(self, topic: Topic) -> None:
        with topic.scan(end=5) as scan:
            assert offsets(scan) == [0, 1, 2, 3, 4]

    def test_its_schema_is_that_of_its_batches(self, topic: Topic) -> None:
        scan = topic.scan(columns=["offset", "key"])
        assert {batch.schema for batch in scan} == {scan.schema}
        assert scan.to_reader().schema == scan.schema
        assert topic.scan(end=0).to_table().schema == topic.scan().schema


class TestOtherLibraries:
    def test_duckdb_reads_it_as_often_as_it_likes(self, topic: Topic) -> None:
        scan = topic.scan()
        with duckdb.connect() as connection:
            connection.register("records", scan)
            for _ in range(3):
                (row,) = connection.sql(
                    "select count(*), max(r.offset), count(distinct s.offset) "
                    "from records r join records s on r.offset = s.offset"
                ).fetchall()
                assert row == (1584, 1611, 1584)

    def test_polars_reads_it_as_often_as_it_likes(self, topic: Topic) -> None:
        scan = topic.scan()
        for _ in range(2):
            frame = pl.DataFrame(scan)
            assert frame.height == 1584
            assert frame["offset"].sum() == sum(offsets(scan))

    def test_polars_from_arrow_has_every_record(self, topic: Topic) -> None:
        found = pl.from_arrow(topic.scan())
        # Since 1.x polars makes a series of structs of whatever streams Arrow.
        frame = found.struct.unnest() if isinstance(found, pl.Series) else found
        assert frame.equals(pl.DataFrame(topic.scan()))

    def test_pyarrow_reads_it(self, topic: Topic, whole: pa.Table) -> None:
        scan = topic.scan()
        for _ in range(2):
            assert pa.table(scan) == whole
            assert pa.RecordBatchReader.from_stream(scan).read_all() == whole

    def test_pandas_gets_a_frame(self, topic: Topic) -> None:
        frame = topic.scan(columns=["offset", "timestamp"]).to_pandas()
        assert len(frame) == 1584
        assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"


class TestErrors:
    @pytest.fixture
    def broken(self, memory: ObjectStore) -> Topic:
        """The topic with a wrong byte in the records of its second segment."""
        fill(memory, files_of(TXN))
        (key,) = [
            e.key for e in memory.list() if e.key.endswith("g116qleWTeS4XlSULtdhcg.log")
        ]
        log = bytearray(memory.get(key))
        log[100] ^= 1
        memory.put(key, log, overwrite=True)
        return Tier(open_storage(memory)).topic("txn")

    def test_they_keep_their_type(self, broken: Topic) -> None:
        scan = broken.scan()
        for read in (
            scan.to_table,
            scan.to_reader().read_all,
            scan.to_pandas,
            lambda: list(scan),
        ):
            with pytest.raises(CorruptBatchError, match="g116qleWTeS4XlSULtdhcg"):
                read()
        with pytest.raises(Exception, match="g116qleWTeS4XlSULtdhcg"):
            pa.table(scan)

    @pytest.mark.parametrize("order", ["partition", "fair"])
    def test_every_record_before_a_wrong_batch_comes_first(
        self, broken: Topic, order: Literal["partition", "fair"], whole: pa.Table
    ) -> None:
        found: list[int] = []
        with pytest.raises(CorruptBatchError):
            found.extend(
                offset
                for batch in broken.scan(order=order)
                for offset in batch["offset"].to_pylist()
            )
        assert found == [o for o in whole["offset"].to_pylist() if o < 76]

    @pytest.mark.parametrize("order", ["partition", "fair"])
    @pytest.mark.parametrize(
        ("row", "at", "bits"),
        [
            (3, -1, 1),  # in the records of a control batch
            (3, 22, 0x20),  # a control batch becomes one of records
            (2, 22, 0x20),  # a batch of records becomes a control batch
            (5, -1, 1),  # in the second control batch
            (6, -1, 1),  # in records behind both
        ],
    )
    def test_a_wrong_control_batch_hides_no_record_before_it(
        self,
        memory: ObjectStore,
        order: Literal["partition", "fair"],
        row: int,
        at: int,
        bits: int,
    ) -> None:
        batches = [
            encode_batch(
                [WireRecord(offset, 0, b"\0\0\0\1", b"\0" * 6)], attributes=flags
            )
            for offset in range(8)
            for flags in [CONTROL * (offset in {3, 5})]
        ]
        partition = TopicIdPartition("t", 0, UNKNOWN_TOPIC_ID)
        metadata = SegmentMetadata(partition, SegmentId(ID), 0, 7)
        data = LogSegmentData(b"".join(batches), {})
        SingleObject(memory).copy_log_segment(metadata, data)
        (key,) = [e.key for e in memory.list() if e.key.endswith(".segment")]
        position = sum(map(len, batches[:row]))
        changed = bytearray(memory.get(key))
        changed[position + at % len(batches[row])] ^= bits
        memory.put(key, changed, overwrite=True)
        scan = Tier(SingleObject(memory)).topic("t").scan(order=order)
        found: list[int] = []
        with pytest.raises(CorruptBatchError, match=f"position {position}: CRC-32C"):
            found.extend(o for batch in scan for o in batch["offset"].to_pylist())
        assert found == [offset for offset in range(row) if offset not in {3, 5}]

    def test_a_corrupt_batch_is_named_with_its_store(
        self, broken: Topic, memory: ObjectStore
    ) -> None:
        with pytest.raises(CorruptBatchError) as caught:
            broken.scan().to_table()
        folder = next(memory.list(delimiter="/")).key
        start = f"{memory.url}/{folder}{76:020d}-g116qleWTeS4XlSULtdhcg: batch at "
        assert str(caught.value).startswith(start)

    def test_what_lies_before_and_behind_is_read(self, broken: Topic) -> None:
        assert len(offsets(broken.scan(end=76))) == 74
        assert offsets(broken.scan(start=163))[0] == 163

    def test_a_segment_deleted_since_it_was_planned_is_not_found(
        self, memory: ObjectStore
    ) -> None:
        fill(memory, files_of(TXN))
        scan = Tier(open_storage(memory)).topic("txn").scan()
        gone = [e.key for e in memory.list() if "g116qleWTeS4XlSULtdhcg" in e.key]
        memory.delete(gone)
        with pytest.raises(NotFoundError, match="g116qleWTeS4XlSULtdhcg"):
            scan.to_table()

    def test_an_error_of_a_scan_pickles(self, broken: Topic) -> None:
        with pytest.raises(TieredFSError) as caught:
            broken.scan().to_table()
        again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))
