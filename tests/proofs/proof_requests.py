"""The requests of a scan are those that its explanation predicts, and not one more."""

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import shake_128
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, NamedTuple

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

import tieredfs
from proofs.extent import extent
from support.distant import distant
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import push_all, source_of, write_log
from support.memory import session_url
from support.wire import WireRecord, encode_batch
from tieredfs import ObjectStore, Options, RemoteStorageManager, Scan, Topic
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

_KIB, _MIB = 1 << 10, 1 << 20
_EXAMPLES = extent(5000, 30)

_WHOLE = (parent / "shared" / "data" / "kafka" for parent in KAFKA.parents)
_RECORDED = sorted(
    folder
    for root in (KAFKA, *filter(Path.is_dir, _WHOLE))
    for folder in root.glob("*/*")
    if folder.name in {LOCAL, REMOTE}
)
"""Topics as brokers stored them, and all of each topic where that is there."""

_LAYOUTS: Mapping[str, Callable[[ObjectStore], RemoteStorageManager]] = {
    "native": SingleObject,
    "native, compressed": partial(SingleObject, compression="zstd"),
    "kafka-local": KafkaLocal,
}
_AS_RECORDED = "as recorded"
_OF_RECORDED = st.sampled_from((_AS_RECORDED, "native", "native, compressed"))
"""A log with holes cannot be pushed to kafka-local."""

_COLUMNS = (None, ("offset",), ("key", "timestamp"))
_ORDERS: tuple[Literal["partition", "fair"], ...] = ("partition", "fair")


class _Facts(NamedTuple):
    """What positions in a topic can be."""

    first: int
    end: int
    times: Sequence[int]


@cache
def _stored(folder: Path, layout: str) -> str:
    """Return the URL of a recorded topic in a layout."""
    source = tieredfs.open_tier(str(folder))
    if layout == _AS_RECORDED:
        return str(folder)
    url = session_url()
    _push(source.storage, url, layout)
    return url


def _push(source: RemoteStorageManager, url: str, layout: str) -> None:
    store = ObjectStore(url)
    push_all(source, _LAYOUTS[layout](store), active=True)


def _open(url: str, fetch_bytes: int, *, is_distant: bool = False) -> Topic:
    url = distant(url) if is_distant else url
    tier = tieredfs.open_tier(url, options=Options(fetch_bytes=fetch_bytes))
    return tier.topic(tier.topics()[0])


@cache
def _facts(url: str) -> _Facts:
    topic = _open(url, 16 * _MIB)
    times = topic.scan(columns="timestamp").to_table()["timestamp"].cast(pa.int64())
    return _Facts(
        min(topic.beginning_offsets().values()),
        max(topic.end_offsets().values()),
        sorted(set(times.to_pylist())),
    )


@st.composite
def positions(draw: st.DrawFn, facts: _Facts) -> int | datetime | None:
    """Draw an offset or a time of a topic, or none."""
    if draw(st.booleans()):
        return draw(st.none() | st.integers(facts.first, facts.end))
    stamp = draw(st.sampled_from(facts.times)) + draw(st.integers(-1, 1))
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=stamp)


@st.composite
def scans(draw: st.DrawFn, topic: Topic, facts: _Facts) -> Scan | None:
    """Draw a scan; none where its end is before its start."""
    start, end = draw(positions(facts)), draw(positions(facts))
    with contextlib.suppress(
        tieredfs.InvalidArgumentError, tieredfs.OffsetOutOfRangeError
    ):
        return topic.scan(
            draw(st.none() | st.lists(st.sampled_from(topic.partitions), min_size=1)),
            start,
            end,
            columns=draw(st.sampled_from(_COLUMNS)),
            order=draw(st.sampled_from(_ORDERS)),
            on_gap=draw(st.sampled_from(("raise", "skip"))),
        )
    return None


def _check_scan(scan: Scan, *, is_exact: bool) -> None:
    """Check that iterating takes what was predicted, the first time and again."""
    for _ in range(2):
        explained = scan.explain()
        for _ in scan:
            pass
        stats = scan.stats
        assert stats.planned == explained
        assert stats.retries == 0
        assert stats.requests <= explained.reading
        if explained.is_exact:
            assert stats.requests == explained.reading
        assert explained.is_exact or not is_exact


def _check_first_records(scan: Scan, needed: int, *, stops: bool) -> None:
    """Check that reading gradually takes no more than was predicted.

    Nor is it predicted to take less for more records, unless that is exact.
    """
    scan.explain(needed)  # what it asks for may spare the next ones a request
    fewer = scan.explain(needed // 2)
    explained = scan.explain(needed)
    assert fewer.reading <= explained.reading or explained.is_exact
    assert explained.expected <= explained.reading
    found = 0
    for batch in scan.read_gradually(needed):
        found += len(batch)
        if stops and found >= needed:
            break
    assert scan.stats.requests <= explained.reading
    if explained.is_exact:
        assert found < needed or not needed
        assert scan.stats.requests == explained.reading


@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_a_recorded_topic_takes_the_requests_that_were_predicted(
    data: st.DataObject,
) -> None:
    folder = data.draw(st.sampled_from(_RECORDED))
    url = _stored(folder, data.draw(_OF_RECORDED))
    fetch_bytes = data.draw(st.sampled_from((64 * _KIB, 16 * _MIB)))
    topic = _open(url, fetch_bytes, is_distant=data.draw(st.booleans()))
    scan = data.draw(scans(topic, _facts(url)))
    if scan is not None:
        _check_scan(scan, is_exact=fetch_bytes > _MIB)


@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_the_first_records_of_a_recorded_topic_take_no_more_than_was_predicted(
    data: st.DataObject,
) -> None:
    folder = data.draw(st.sampled_from(_RECORDED))
    url = _stored(folder, data.draw(_OF_RECORDED))
    fetch_bytes = data.draw(st.sampled_from((64 * _KIB, 16 * _MIB)))
    topic = _open(url, fetch_bytes, is_distant=data.draw(st.booleans()))
    scan = data.draw(scans(topic, _facts(url)))
    if scan is not None:
        needed = data.draw(st.integers(0, 3000))
        _check_first_records(scan, needed, stops=data.draw(st.booleans()))


_PARTITIONS = 6
_BATCHES = 60
_OFFSETS = 4 * _BATCHES
_END = 2 * _OFFSETS


@cache
def _large(layout: str) -> str:
    """Return the URL of a topic whose segments take several requests.

    Its batches are of up to 200 KB.
    """
    root = Path(mkdtemp())
    try:
        for partition in range(_PARTITIONS):
            folder = f"t-{partition}"
            logs = {at: _log(partition, at) for at in range(0, _END, _OFFSETS)}
            write_log(root, {**logs, _END: b""}, partition=folder)
        url = session_url()
        _push(source_of(root), url, layout)
    finally:
        shutil.rmtree(root)
    return url


def _log(partition: int, start: int) -> bytes:
    found, offset = [], start
    for number in range(_BATCHES):
        size = number * (partition + 1) * 7919 % 200_000
        value = shake_128(b"%d %d" % (partition, number)).digest(size)
        records = [WireRecord(offset + n, 1, None, value[n::4]) for n in range(4)]
        found.append(encode_batch(records))
        offset += 4
    return b"".join(found)


@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_segments_of_many_requests_take_no_more_than_was_predicted(
    data: st.DataObject,
) -> None:
    url = _large(data.draw(st.sampled_from(sorted(_LAYOUTS))))
    fetch_bytes = data.draw(st.sampled_from((64 * _KIB, 300 * _KIB, _MIB, 3 * _MIB)))
    topic = _open(url, fetch_bytes, is_distant=data.draw(st.booleans()))
    facts = _Facts(0, _END, [1])
    scan = data.draw(scans(topic, facts))
    if scan is None:
        return
    if data.draw(st.booleans()):
        _check_scan(scan, is_exact=False)
    else:
        needed = data.draw(st.integers(0, 500) | st.integers(0, 5000))
        _check_first_records(scan, needed, stops=data.draw(st.booleans()))
