"""Every option takes effect, whether Python, the command or Spark gives it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
import pyarrow as pa
import pytest

from servers import FaultProxy, ProxiedBucket
from support.events import Events
from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch
from tieredfs import (
    ByteRange,
    CorruptBatchError,
    InvalidArgumentError,
    ObjectStore,
    Options,
    RateLimit,
    Tier,
    Topic,
    open_storage,
    open_tier,
)
from tieredfs.cli.options import StoreOptions, store_options
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import push
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.objects.backends import BACKENDS
from tieredfs.options import option_ranges
from tieredfs.spark.options import parse_options
from tieredfs.storage.layouts.single_object.layout import SingleObject

KIB, MIB = 1 << 10, 1 << 20
FOLDER = "t-0-AAAAAAAAAAAAAAAAAAAAAQ"
SIZE = 13 * MIB + 5


def _in_command(name: str, value: int) -> Options:
    seen: list[Options] = []

    @click.command
    @store_options
    def probe(options: StoreOptions) -> None:
        seen.append(options.tuned)

    probe.main(["--option", f"{name}={value}"], standalone_mode=False)
    return seen[0]


def _in_spark(name: str, value: int) -> Options:
    own = {f"tieredfs.{name}": str(value)}
    return parse_options({"path": "memory://t", "subscribe": "t", **own}).tuned


WAYS: dict[str, Callable[[str, int], Options]] = {
    "Python": lambda name, value: Options(**{name: value}),
    "command": _in_command,
    "Spark": _in_spark,
}

Give = Callable[[str, int], Options]


@pytest.fixture(params=list(WAYS))
def give(request: pytest.FixtureRequest) -> Give:
    """One of the ways to give an option."""
    return WAYS[request.param]


@pytest.mark.parametrize("name", list(option_ranges()))
def test_every_option_arrives(give: Give, name: str) -> None:
    smallest = option_ranges()[name].minimum
    assert give(name, smallest) == Options(**{name: smallest})


# What is read.


@pytest.fixture
def logs(memory: ObjectStore) -> ObjectStore:
    """A partition of 4 MiB in batches of 10 KiB, uncompressed."""
    batches = [
        encode_batch(records(at, 10, value="v" * KIB)) for at in range(0, 4000, 10)
    ]
    fill(memory, segment(FOLDER, 0, b"".join(batches)))
    return memory


def _tier(store: ObjectStore, options: Options, events: Events | None = None) -> Tier:
    watched = ObjectStore(store.url, observer=events, options=options)
    return Tier(open_storage(watched, "kafka-local"))


def _fetched(events: Events) -> list[int]:
    return [event.size for event in events if event.key.endswith(".log")]


@pytest.mark.parametrize("order", ["partition", "fair"])
def test_a_request_for_a_log_has_fetch_bytes(
    logs: ObjectStore,
    give: Give,
    order: str,
) -> None:
    events = Events()
    tier = _tier(logs, give("fetch_bytes", 100 * KIB), events)
    scan = tier.topic("t").scan(order=order)  # type: ignore[arg-type] # one of them
    assert scan.plan.fetch_size == 100 * KIB
    events.clear()
    assert scan.to_table().num_rows == 4000
    *full, last = _fetched(events)
    assert set(full) == {100 * KIB}
    assert last <= 100 * KIB
    assert len(full) + 1 == scan.plan.requests


def test_a_turn_has_four_mib_at_most(logs: ObjectStore, give: Give) -> None:
    topic = _tier(logs, give("fetch_bytes", 64 * MIB)).topic("t")
    assert topic.scan().plan.fetch_size == 64 * MIB
    assert topic.scan(order="fair").plan.fetch_size == 4 * MIB


LATE = 1_700_000_000_009  # the last record of each batch

READS: dict[str, Callable[[Topic], bool]] = {
    "end_offsets": lambda topic: topic.end_offsets() == {0: 4000},
    "offsets_for_times": lambda topic: topic.offsets_for_times({0: LATE}) != {0: None},
    "a time after all": lambda topic: topic.offsets_for_times({0: LATE + 1})[0] is None,
    "scan": lambda topic: topic.scan().to_table().num_rows == 4000,
    "scan of offsets": lambda topic: len(topic.scan(start=5, end=3999).to_table()) > 0,
    "scan of times": lambda topic: len(topic.scan(start=_iso(LATE)).to_table()) == 3991,
    "scan in turn": lambda topic: len(topic.scan(order="fair").to_table()) == 4000,
    "scan by steps": lambda topic: any(topic.scan().read_gradually(2000)),
    "read": lambda topic: topic.read(0, 0, max_bytes=MIB).num_rows > 900,
}


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_no_read_of_a_topic_requests_more_than_fetch_bytes(
    logs: ObjectStore, read: Callable[[Topic], bool]
) -> None:
    events = Events()
    topic = _tier(logs, Options(fetch_bytes=100 * KIB), events).topic("t")
    assert read(topic)
    assert 0 < max(_fetched(events)) <= 100 * KIB  # the end is found in the log


def test_the_beginning_of_a_log_is_known_without_reading_it(logs: ObjectStore) -> None:
    events = Events()
    assert _tier(logs, Options(), events).topic("t").beginning_offsets() == {0: 0}
    assert not list(_fetched(events))


def test_a_log_is_verified_pushed_and_pulled_whole_in_pieces_of_their_own(
    logs: ObjectStore, tmp_path: Path
) -> None:
    size = next(info.size for info in logs.list() if info.key.endswith(".log"))
    events = Events()
    storage = _tier(logs, Options(fetch_bytes=100 * KIB), events).storage
    partitions = storage.list_partitions()
    target = SingleObject(ObjectStore(str(tmp_path / "to")))
    for work in (
        lambda: verify(storage, partitions, Depth.EVERYTHING),
        lambda: push(storage, target, partitions),
        lambda: pull(storage, ObjectStore(str(tmp_path / "back")), partitions),
    ):
        events.clear()
        work()
        # What they look up in a log before is requested as in a read.
        assert [one for one in _fetched(events) if one > 100 * KIB] == [size]


def test_a_part_of_a_log_is_pulled_in_requests_of_fetch_bytes(
    logs: ObjectStore, tmp_path: Path
) -> None:
    later = [
        encode_batch(records(at, 10, value="v" * KIB)) for at in range(2000, 5000, 10)
    ]
    fill(logs, segment(FOLDER, 2000, b"".join(later)))
    events = Events()
    storage = _tier(logs, Options(fetch_bytes=100 * KIB), events).storage
    back = ObjectStore(str(tmp_path / "back"))
    pulled = pull(storage, back, storage.list_partitions())
    assert [one.segment.start_offset for one in pulled] == [0, 4000]
    cut = [event.size for event in events if "/00000000000000002000" in event.key]
    assert 0 < max(cut) <= 100 * KIB


@pytest.mark.parametrize("size", [64 * KIB, 256 * KIB, MIB, 64 * MIB])
def test_output_batches_have_output_batch_bytes_at_most(
    logs: ObjectStore, give: Give, size: int
) -> None:
    whole = _tier(logs, Options()).topic("t").scan().to_table()
    scan = _tier(logs, give("output_batch_bytes", size)).topic("t").scan()
    batches = list(scan)
    assert pa.Table.from_batches(batches).equals(whole)
    assert all(batch.nbytes <= size for batch in batches)
    # Full at 3/8, so none but the last is much smaller.
    assert all(batch.nbytes >= size / 4 for batch in batches[:-1])
    assert (len(batches) == 1) == (size == 64 * MIB)


def test_a_larger_record_is_an_output_batch_by_itself(
    memory: ObjectStore, give: Give
) -> None:
    rows = [*records(0, 3), *records(3, 1, value="v" * MIB), *records(4, 3)]
    fill(memory, segment(FOLDER, 0, encode_batch(rows)))
    scan = _tier(memory, give("output_batch_bytes", 64 * KIB)).topic("t").scan()
    assert [batch.num_rows for batch in scan] == [3, 1, 3]


def test_a_batch_may_decompress_to_max_decompressed_bytes(
    memory: ObjectStore, give: Give
) -> None:
    log = encode_batch(records(0, 5, value="v" * MIB), codec="gzip")
    fill(memory, segment(FOLDER, 0, log))
    name = "max_decompressed_bytes"
    with pytest.raises(CorruptBatchError, match=f"raise the option {name} to read"):
        _tier(memory, give(name, 4 * MIB)).topic("t").scan().to_table()
    topic = _tier(memory, give(name, 8 * MIB)).topic("t")
    assert topic.scan().to_table().num_rows == 5


# What an S3 server is asked for.


def _store(proxied: ProxiedBucket, options: Options) -> ObjectStore:
    store = ObjectStore(proxied.url, proxied.storage_options, options=options)
    assert store.probe_capabilities()  # what it takes to find out is not counted
    proxied.proxy.clear()
    return store


def _part_sizes(proxy: FaultProxy) -> list[int]:
    """Return the sizes of the parts that the server received."""
    return [
        int(
            part.headers.get("x-amz-decoded-content-length")
            or part.headers["content-length"]
        )
        for part in proxy.requests("PUT", "partNumber=")
    ]


def _most_at_once(proxy: FaultProxy, requests: str, path: str) -> int:
    """Return how many requests waited for the proxy's latency together."""
    begun = sorted(request.at for request in proxy.requests(requests, path))
    reach = proxy.latency * 0.9
    return max(sum(at <= other < at + reach for other in begun) for at in begun)


def test_objects_above_the_threshold_are_put_in_parts(
    s3_proxied: ProxiedBucket, give: Give
) -> None:
    store = _store(s3_proxied, give("multipart_threshold_bytes", 6 * MIB))
    store.put("small", bytes(6 * MIB), overwrite=True)
    assert _part_sizes(s3_proxied.proxy) == []
    store.put("large", bytes(6 * MIB + 1), overwrite=True)
    assert _part_sizes(s3_proxied.proxy) == [6 * MIB + 1]
    assert store.head("large").size == 6 * MIB + 1


def test_without_the_option_an_object_of_64_mib_is_one_request(
    s3_proxied: ProxiedBucket,
) -> None:
    store = _store(s3_proxied, Options())
    store.put("a", bytes(SIZE), overwrite=True)
    assert len(s3_proxied.proxy.requests("PUT")) == 1


def test_the_docstring_says_what_suits_each_store() -> None:
    s3, azure, gcs = (BACKENDS[name] for name in ("s3", "az", "gs"))
    assert s3.parts is not None
    assert azure.parts is not None
    assert gcs.parts is not None
    for stated in (
        (
            f"By default {s3.parts.part_size // MIB} MiB in S3, "
            f"{azure.parts.part_size // MIB} MiB in Azure and "
            f"{gcs.parts.part_size // MIB} MiB in Google's storage."
        ),
        (
            f"By default {s3.parts.concurrency} in S3 and {azure.parts.concurrency} in "
            "Azure. Google's storage takes one part after the other, always."
        ),
        f"By default {s3.concurrency} in clouds, less in other stores",
    ):
        assert stated in " ".join((Options.__doc__ or "").split())
    assert gcs.parts.concurrency == 1
    assert {s3.concurrency, azure.concurrency, gcs.concurrency} == {s3.concurrency}


def test_parts_have_part_bytes(s3_proxied: ProxiedBucket, give: Give) -> None:
    part = give("part_bytes", 6 * MIB - 7).part_bytes
    store = _store(
        s3_proxied, Options(multipart_threshold_bytes=5 * MIB, part_bytes=part)
    )
    content = bytes(range(256)) * 40 * KIB + bytes(3 * MIB)
    store.put("a", content, overwrite=True)
    assert sorted(_part_sizes(s3_proxied.proxy)) == [MIB, 6 * MIB, 6 * MIB]
    assert store.get("a") == content


def test_under_a_rate_limit_parts_are_not_larger_than_asked_for(
    s3_proxied: ProxiedBucket,
) -> None:
    store = ObjectStore(
        s3_proxied.url,
        s3_proxied.storage_options,
        rate_limit=RateLimit(1e9),
        options=Options(part_bytes=5 * MIB),
    )
    store.put("a", bytes(SIZE), overwrite=True)
    expected = [5 * MIB, 5 * MIB, 3 * MIB + 5]
    assert _part_sizes(s3_proxied.proxy) == expected


@pytest.mark.parametrize("most", [1, 3])
def test_parts_are_sent_max_concurrent_parts_at_a_time(
    s3_proxied: ProxiedBucket, most: int
) -> None:
    options = Options(
        multipart_threshold_bytes=5 * MIB,
        part_bytes=5 * MIB,
        max_concurrent_parts=most,
    )
    store = _store(s3_proxied, options)
    s3_proxied.proxy.latency = 0.3
    store.put("a", bytes(20 * MIB), overwrite=True)
    assert _most_at_once(s3_proxied.proxy, "PUT", "partNumber=") == most


@pytest.mark.parametrize("most", [1, 5])
def test_ranges_are_asked_for_max_concurrent_requests_at_a_time(
    s3_proxied: ProxiedBucket, most: int
) -> None:
    store = _store(s3_proxied, Options(max_concurrent_requests=most))
    store.put("a", bytes(5 * MIB), overwrite=True)
    s3_proxied.proxy.clear()
    s3_proxied.proxy.latency = 0.3
    ranges = [ByteRange(at, at + 1) for at in range(0, 4 * MIB, MIB // 2)]
    assert len(store.get_ranges("a", ranges)) == 8
    assert _most_at_once(s3_proxied.proxy, "GET", "") == most


@pytest.mark.parametrize("most", [1, 4])
def test_descriptions_are_asked_for_max_concurrent_requests_at_a_time(
    s3_proxied: ProxiedBucket, most: int
) -> None:
    files: dict[str, bytes] = {}
    for at in range(0, 50, 10):
        files |= segment(FOLDER, at, encode_batch(records(at, 10)))
    store = _store(s3_proxied, Options(max_concurrent_requests=most))
    fill(store, files)
    topic = Tier(open_storage(store, "kafka-local")).topic("t")
    s3_proxied.proxy.clear()
    s3_proxied.proxy.latency = 0.2
    assert topic.end_offsets() == {0: 50}
    assert _most_at_once(s3_proxied.proxy, "GET", FOLDER) == most


# Where options come from, and where they stay.


def test_what_is_not_of_the_class_options_is_refused(tmp_path: Path) -> None:
    wrong = {"fetch_bytes": 1 << 20}
    with pytest.raises(
        InvalidArgumentError, match=r"give options=Options\(…\), not dict"
    ):
        open_tier(tmp_path, options=wrong)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize("option", ["tieredfs.fetch_size", "tieredfs.", "TIEREDFS.X"])
def test_an_own_option_of_spark_that_is_unknown_is_refused(option: str) -> None:
    given = {"path": "memory://t", "subscribe": "t", option: "1"}
    with pytest.raises(InvalidArgumentError, match="no option is called"):
        parse_options(given)
