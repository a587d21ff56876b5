"""What users give: integers of any kind, one column, and what can never be right."""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from support.kafka_data import KAFKA, REMOTE
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PluginNotInstalledError,
    RequestCounter,
    RequestEvent,
    Tier,
    Topic,
    TopicIdPartition,
    open_storage,
    open_tier,
)
from tieredfs.cache import with_index_cache
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.read.reader import TieredReader
from tieredfs.objects import RateLimit
from tieredfs.storage.layouts.single_object.layout import SingleObject

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TopicIdPartition("t", 0)
_KINDS = [np.int8, np.uint16, np.int32, np.int64, np.uint64]


@pytest.fixture(scope="module")
def three() -> Topic:
    """Three partitions, seven segments each."""
    return open_tier(str(KAFKA / "two-partitions" / REMOTE)).topic("two-partitions")


class TestIntegers:
    @pytest.mark.parametrize("kind", _KINDS)
    def test_numpys_are_taken_wherever_pythons_are(
        self,
        three: Topic,
        kind: Any,  # noqa: ANN401 - a type of numpy's
    ) -> None:
        assert (
            three.scan([kind(1)], kind(5), kind(9)).plan == three.scan([1], 5, 9).plan
        )
        by_partition = three.scan([1], {kind(1): kind(5)}, {kind(1): kind(9)})
        assert by_partition.plan == three.scan([1], 5, 9).plan
        assert three.scan(np.array([2, 0], kind)).plan == three.scan([2, 0]).plan
        fetched = three.read(kind(1), kind(5), kind(100))
        assert fetched == three.read(1, 5, 100)
        assert type(fetched.next_offset) is int
        assert three.reader(kind(1)) is three.reader(1)
        found = three.offsets_for_times({kind(1): kind(100)})
        assert found == three.offsets_for_times({1: 100})
        assert [type(number) for number in found] == [int]
        scan = three.scan()
        assert len(scan.split(kind(100))) == len(scan.split(100))

    def test_a_numpy_partition_can_be_appended_to(self, memory: ObjectStore) -> None:
        topic = Tier(SingleObject(memory)).create_topic("t", partitions=np.int64(2))
        records = pa.table({"value": [b"a"]})
        assert topic.append(records, np.uint8(1)) == range(1)
        assert topic.append(records, partition=np.int64(1)) == range(1, 2)
        assert topic.end_offsets() == {0: 0, 1: 2}

    @pytest.mark.parametrize("wrong", [True, np.False_, 1.5, np.float64(2), "1", None])
    def test_what_is_not_an_integer_is_refused_by_name(
        self,
        three: Topic,
        memory: ObjectStore,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        empty = Tier(SingleObject(memory)).create_topic("t")
        records = pa.table({"value": [b"a"]})
        for ask, name in (
            (lambda: three.read(wrong, 0), "partition"),
            (lambda: three.read(0, wrong), "offset"),
            (lambda: three.read(0, 0, wrong), "max_bytes"),
            (lambda: three.reader(wrong), "partition"),
            (lambda: three.scan([wrong]), "partition"),
            (lambda: three.scan([1], {1: wrong}), "offset of a partition"),
            (lambda: three.scan([1], {wrong: 1}), "partition"),
            (lambda: three.offsets_for_times({wrong: 0}), "partition"),
            (lambda: three.scan().split(wrong), "target_bytes"),
            (lambda: empty.append(records, wrong), "partition"),
            (
                lambda: Tier(SingleObject(memory)).create_topic("u", partitions=wrong),
                "partitions",
            ),
        ):
            with pytest.raises(InvalidArgumentError, match=f"^{name} must be an int"):
                ask()

    def test_a_size_below_the_smallest_is_refused_by_name(self, three: Topic) -> None:
        scan = three.scan()
        asked: list[tuple[Callable[[], object], str]] = [
            (lambda: three.read(0, 0, -1), "max_bytes must be 0 or more, not -1"),
            (lambda: scan.split(0), "target_bytes must be 1 or more, not 0"),
            (lambda: scan.split(-1), "target_bytes must be 1 or more, not -1"),
            (lambda: scan.read_gradually(-1), "records must be 0 or more, not -1"),
            (lambda: scan.head(-1), "num_rows must be 0 or more, not -1"),
        ]
        for ask, said in asked:
            with pytest.raises(InvalidArgumentError, match=f"^{said}$"):
                ask()
        assert three.read(0, 0, 0).num_rows == three.read(0, 0, 1).num_rows > 0
        assert next(scan.read_gradually(0)) == next(scan.read_gradually(1))


class TestOtherTypes:
    """What is of another type is refused where it is given, and not used later."""

    @pytest.mark.parametrize("wrong", [{"attempts": 1}, None, 5])
    def test_a_policy_is_a_request_policy(
        self,
        memory: ObjectStore,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        asked: list[Callable[[], object]] = [
            lambda: memory.with_policy(wrong),
            lambda: Tier(SingleObject(memory)).with_policy(wrong),
        ]
        if wrong is not None:  # the default
            asked.append(lambda: ObjectStore(memory.url, policy=wrong))
        for ask in asked:
            with pytest.raises(InvalidArgumentError, match=r"RequestPolicy\(…\), not "):
                ask()

    @pytest.mark.parametrize("wrong", ['{"key": "topsecret"}', ["topsecret"], 5])
    def test_options_are_a_dict_and_are_not_shown(
        self,
        memory: ObjectStore,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        asked: list[tuple[Callable[[], object], str]] = [
            (lambda: open_tier(memory.url, storage_options=wrong), "storage_options"),
            (lambda: ObjectStore(memory.url, wrong), "storage_options"),
            (lambda: open_tier(memory.url, plugin_options=wrong), "plugin_options"),
            (
                lambda: open_storage(memory, "single-object", wrong),
                "the options of a plugin",
            ),
        ]
        for ask, name in asked:
            with pytest.raises(InvalidArgumentError, match=f"^{name} must be a d") as e:
                ask()
            assert "topsecret" not in str(e.value)

    @pytest.mark.parametrize("wrong", [b"memory://a", 5, None, ["memory://a"]])
    def test_a_url_is_a_text_or_a_path(
        self,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        asked: list[Callable[[], object]] = [
            lambda: open_tier(wrong),
            lambda: ObjectStore(wrong),
        ]
        for ask in asked:
            with pytest.raises(InvalidArgumentError, match="must be text or a path"):
                ask()

    @pytest.mark.parametrize("wrong", [b"memory://a", 5, ["memory://a"]])
    def test_names_are_texts(
        self,
        memory: ObjectStore,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        tier = Tier(SingleObject(memory))
        tier.create_topic("t").append(pa.table({"value": [b"a"]}))
        asked: list[tuple[Callable[[], object], str]] = [
            (lambda: tier.topic(wrong), "invalid topic name"),
            (lambda: tier.create_topic(wrong), "invalid topic name"),
            (lambda: tier.topic("t", topic_id=wrong), "topic_id must be text"),
            (lambda: tier.create_topic("u", topic_id=wrong), "an id must be text"),
            (lambda: open_tier(memory.url, plugin=wrong), "plugin must be text"),
            (lambda: open_storage(memory, wrong), "plugin must be text"),
            (
                lambda: with_index_cache(tier.storage, wrong),
                "cache directory must be text or a path",
            ),
        ]
        for ask, said in asked:
            with pytest.raises(InvalidArgumentError, match=f"^{said}"):
                ask()

    @pytest.mark.parametrize("wrong", ["5", None, 0, -1.5, float("nan")])
    def test_a_rate_is_a_number_above_0(
        self,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        with pytest.raises(
            InvalidArgumentError, match="give more than 0 bytes per second"
        ):
            RateLimit(wrong)


def test_what_readers_and_counters_show_is_short_and_tells_no_secret(
    three: Topic,
) -> None:
    assert repr(three.reader(1)).startswith("TieredReader('two-partitions-1', Kafka")
    store = ObjectStore("s3://me:topsecret@bucket/tier")
    hidden = TieredReader(SingleObject(store), SegmentCatalog(SingleObject(store)), _T)
    assert repr(hidden) == "TieredReader('t-0', SingleObject('s3://***@bucket/tier'))"
    assert repr(RateLimit(1 << 20)) == "RateLimit(1048576)"
    counter = RequestCounter()
    counter.on_request(RequestEvent("get", "a", 10, 3, 0.1, None))
    assert repr(counter) == "RequestCounter({'get': 3}, size=10)"


class TestColumns:
    def test_a_text_is_one_column(self, three: Topic) -> None:
        found = three.scan(columns="value")
        assert found.schema.names == ["value"]
        assert found.to_table() == three.scan(columns=["value"]).to_table()

    def test_a_text_that_is_not_a_column_is_refused_as_one(self, three: Topic) -> None:
        with pytest.raises(InvalidArgumentError, match=r"columns valu: choose from"):
            three.scan(columns="valu")

    @pytest.mark.parametrize("wrong", [5, [1], [None], 1.5])
    def test_what_is_not_a_list_of_names_is_refused(
        self,
        three: Topic,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^(invalid|unknown) "):
            three.scan(columns=wrong)


class TestTimes:
    @pytest.mark.parametrize("wrong", [[0, 1], 0, None, "2026-11-01"])
    def test_times_that_are_not_by_partition_are_refused_with_an_example(
        self,
        three: Topic,
        wrong: Any,  # noqa: ANN401 - any wrong thing
    ) -> None:
        with pytest.raises(
            InvalidArgumentError, match=r"by partition, such as \{0: 0\}"
        ):
            three.offsets_for_times(wrong)

    def test_nothing_is_looked_up_if_one_of_the_times_is_wrong(
        self, three: Topic
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="yesterday"):
            three.offsets_for_times({0: 0, 1: "yesterday"})
        with pytest.raises(NotFoundError, match="partition 7"):
            three.offsets_for_times({0: 0, 7: 0})


def test_without_pandas_the_error_is_the_line_that_installs_it(
    three: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        PluginNotInstalledError, match=r"pip install 'tieredfs\[pandas\]'"
    ):
        three.scan().to_pandas()


@pytest.mark.parametrize("wrong", [{"value": [b"a"]}, [b"a"], None, "a"])
def test_records_that_are_not_a_table_are_refused(
    memory: ObjectStore,
    wrong: Any,  # noqa: ANN401 - any wrong thing
) -> None:
    topic = Tier(SingleObject(memory)).create_topic("t")
    with pytest.raises(InvalidArgumentError, match=r"records must be a pyarrow\.Table"):
        topic.append(wrong)


def test_a_record_batch_can_be_appended(memory: ObjectStore) -> None:
    topic = Tier(SingleObject(memory)).create_topic("t")
    assert topic.append(pa.record_batch({"value": [b"a", b"b"]})) == range(2)
    assert topic.scan().to_table()["value"].to_pylist() == [b"a", b"b"]
