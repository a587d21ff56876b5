"""What a scan of a remote log makes of its connection, and when its first batch comes.

S3 is a server on this machine behind a proxy, in a process of its own, that adds 30 ms
to each answer, and lets 10 MiB a second through each connection and 30 MiB through all.
So times are those of the clock: they consist of waits more than of work.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from benchmarks.distance import LATENCY, LINK, distant
from benchmarks.measuring import (
    Limit,
    Promise,
    Report,
    Sample,
    Scale,
    Unit,
    Work,
    measure,
    one_core,
    show_limits,
    timed_by_clock,
)
from benchmarks.segments import KIB, MIB, Shape, segment
from servers import Bucket, Fleet
from support.log_directories import native, push_all, source_of, topic_of, write_log
from tieredfs import RemoteStorageManager, SegmentMetadata, TopicIdPartition
from tieredfs.cache.log_blocks import LogBlocks
from tieredfs.fetch.block_reader import BlockReader
from tieredfs.fetch.purgatory import FetchPurgatory
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log import SegmentCatalog, TieredReader
from tieredfs.log.read.partition_view import PartitionView
from tieredfs.log.read.scan import Scan
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.topic import Topic

_BARE: Final = "fsspec and the decoder"
_ONCE: Final = "read once, and decode"
_DECODER: Final = "decode what is in memory"
_MEMORY: Final = "memory that was not used before"
_BLOCK: Final = 4 * MIB
_OURS: Final = "scan"
_SERIAL: Final = "one request after the other"
_SHAPE: Final = Shape(KIB, 16 * KIB)
_SCALE: Final = Scale(256 * MIB, 1, warm=0)
_REPEATED: Final = Scale(256 * MIB, 5)
_RAW: Final = Scale(256 * MIB, 3, warm=0)
_FIRSTS: Final = 7
_RANGE: Final = 16 * KIB
_SIZES: Final = (64, 4)
"""Segments of the log, which are the smaller the more there are."""


@contextmanager
def _remote(scale: Scale, count: int, folder: Path, fleet: Fleet) -> Iterator[Topic]:
    """Yield a topic of so many segments, as it is seen through the proxy."""
    with _distant_bucket(scale, count, folder, fleet) as bucket:
        yield _opened(bucket)


@contextmanager
def _distant_bucket(
    scale: Scale, count: int, folder: Path, fleet: Fleet
) -> Iterator[Bucket]:
    """Yield where a log of so many segments is, behind the proxy."""
    source = source_of(_written(scale, count, folder))
    direct = fleet.place("s3")
    push_all(source, native(direct))
    with distant(fleet.server("s3").port) as endpoint:
        options = fleet.server("s3").bucket("", endpoint).storage_options
        yield Bucket(direct.url, options)


def _opened(bucket: Bucket) -> Topic:
    """Open the topic, with a connection that is warm."""
    topic = topic_of(native(bucket))
    topic.end_offsets()  # connects
    return topic


def _written(scale: Scale, count: int, folder: Path) -> Path:
    """Write a log of so many closed segments, and return the log directory."""
    batches = segment(_SHAPE, max(1, scale.size // count)).batches
    logs, offset = {}, 0
    for _ in range(count):
        start, parts = offset, []
        for batch in batches:
            parts.append(batch.at(offset))
            offset += batch.count
        logs[start] = b"".join(parts)
    logs[offset] = b""
    return write_log(folder, logs).parent


def _serial(scan: Scan) -> int:
    """Download each log, and then read it."""
    decoder = RecordDecoder(scan.topic, 0, None, scan.storage.store.options)
    count = 0
    for part in scan.plan:
        log, size = part.segment, part.segment.size or 0
        data = scan.storage.fetch_log_ahead(log, 0, size)
        count += sum(found.num_rows for found in decoder.decode(scan_log(data)))
    return count


def _scan(scan: Scan) -> int:
    return sum(found.num_rows for found in scan)


def bench_scans(scale: Scale, folder: Path, fleet: Fleet) -> Report:
    """Measure scans of a log of small segments and of a log of large ones.

    Args:
        scale: How much is read.
        folder: Where the logs are made.
        fleet: The servers.
    """
    report = Report(
        "Scans of a remote log",
        Unit.MEGABYTES,
        (_SERIAL,),
        scale.repetitions,
        times="Time by the clock",
    )
    promises = [Promise(_OURS, 2.5, _SERIAL), Promise(_OURS, 0.9 * LINK)]
    for count in _SIZES:
        with _remote(scale, count, folder / str(count), fleet) as topic:
            scan = topic.scan()
            size = scan.plan.size
            works = [
                Work(_OURS, size, partial(_scan, scan), timed_by_clock),
                Work(_SERIAL, size, partial(_serial, scan), timed_by_clock),
            ]
            name = f"{count} segments"
            report.comparisons.append(measure(name, works, scale, promises))
    return report


def bench_remote_work(scale: Scale, folder: Path, fleet: Fleet) -> Report:
    """Measure what a scan costs the processor, beside what it cannot do without.

    Args:
        scale: How much is read.
        folder: Where the log is made.
        fleet: The servers.
    """
    place = fleet.place("s3")
    push_all(source_of(_written(scale, _SIZES[-1], folder)), native(place))
    scan = topic_of(native(place)).scan()
    works = [
        Work(_OURS, scan.plan.size, partial(_scan, scan)),
        Work(_BARE, scan.plan.size, partial(_bare, scan, place)),
    ]
    promises = [Promise(_OURS, 1 / 1.3, _BARE)]
    found = measure("S3", works, scale, promises)
    title, runs = "The processor's work for a scan", scale.repetitions
    return Report(title, Unit.MEGABYTES, (_BARE,), runs, comparisons=[found])


def _bare(scan: Scan, place: Bucket) -> int:
    """Fetch each log by the plain client, and decode it."""
    client, _ = url_to_fs(place.url, **place.storage_options)
    decoder = RecordDecoder(scan.topic, 0, None, scan.storage.store.options)
    count = 0
    for part in scan.plan:
        name, size = scan.storage.name_of(part.segment), part.segment.size or 0
        step = scan.plan.fetch_size
        parts = [
            client.cat_file(name, start=at, end=min(at + step, size))
            for at in range(0, size, step)
        ]
        for found in decoder.decode(scan_log(memoryview(b"".join(parts)))):
            count += found.num_rows
    return count


def bench_local_work(scale: Scale, folder: Path) -> Report:
    """Measure scans of files that the system has in memory, on one core and on two.

    Args:
        scale: How much is read.
        folder: Where the log is made.
    """
    logs = _written(scale, _SIZES[-1], folder)
    files = sorted(logs.glob("*/*.log"))
    scan = topic_of(source_of(logs)).scan()
    size = scan.plan.size
    held = [memoryview(path.read_bytes()) for path in files]
    report = Report(
        "Scans of files in memory",
        Unit.MEGABYTES,
        (_ONCE, _DECODER),
        scale.repetitions,
        times="Time by the clock",
    )

    def decode(logs: Iterable[memoryview]) -> int:
        decoder = RecordDecoder(scan.topic, 0, None, scan.storage.store.options)
        batches = chain.from_iterable(map(scan_log, logs))
        return sum(found.num_rows for found in decoder.decode(batches))

    works = [
        Work(_OURS, size, partial(_scan, scan), timed_by_clock),
        Work(
            _ONCE,
            size,
            lambda: decode(memoryview(path.read_bytes()) for path in files),
            timed_by_clock,
        ),
        Work(_DECODER, size, lambda: decode(held), timed_by_clock),
    ]
    with one_core():
        promises = [Promise(_OURS, 0.9, _ONCE)]
        report.comparisons.append(measure("one core", works, scale, promises))
    promises = [Promise(_OURS, 0.95, _DECODER)]
    report.comparisons.append(measure("all cores", works, scale, promises))
    return report


def bench_first(scale: Scale, folder: Path, fleet: Fleet) -> list[Limit]:
    """Measure how many round trips the first records take, after the listing."""
    with _remote(scale, _SIZES[-1], folder, fleet) as topic:
        times = []
        for _ in range(_FIRSTS):
            times.append(_until_first(topic))
            time.sleep(scale.size / LINK / _FIRSTS)  # what was not waited for ends
        first = statistics.median(times)
    return [Limit("first batch of a scan", first / LATENCY, 1.5, "round trips")]


def _until_first(topic: Topic) -> float:
    """Return the seconds until the first batch of a scan has come."""
    store = topic.scan().storage.store
    scan = topic_of(SingleObject(store)).scan()  # which knows no object yet
    begun, batches = time.perf_counter(), iter(scan)
    next(batches)
    seconds = time.perf_counter() - begun
    batches.close()
    return seconds


def bench_point(scale: Scale, folder: Path, fleet: Fleet) -> list[Limit]:
    """Measure how many round trips a record takes, from its offset, after the listing.

    Nothing is known of the segment but its key, and it has a small tail. Beside it are
    two requests of the plain client for as much, without which there is no record.
    """
    with _distant_bucket(scale, _SIZES[0], folder, fleet) as bucket:
        topic = _opened(bucket)
        client, _ = url_to_fs(bucket.url, **bucket.storage_options)
        pairs = [
            (_until_found(topic), _two_ranges(topic, client)) for _ in range(_FIRSTS)
        ]
    found, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [
        Limit("a record by its offset", found / LATENCY, 2.3, "round trips"),
        Limit("two ranges by the plain client", bare / LATENCY, 2.3, "round trips"),
    ]


def _two_ranges(topic: Topic, client: AbstractFileSystem) -> float:
    """Return the seconds that the plain client takes for two ranges of a segment."""
    storage = topic.scan().storage
    segment = storage.list_segments(storage.list_partitions()[0])[0]
    name, size = storage.name_of(segment), segment.size or 0
    begun = time.perf_counter()
    client.cat_file(name, start=max(0, size - _RANGE), end=size)
    client.cat_file(name, start=0, end=min(size, _RANGE))
    return time.perf_counter() - begun


def _until_found(topic: Topic) -> float:
    """Return the seconds until a record in the middle of a segment has come."""
    store = topic.scan().storage.store
    reader = topic_of(SingleObject(store)).reader(0)  # which knows no object yet
    segments = reader.segments()
    middle = segments[len(segments) // 2]
    offset = (middle.start_offset + (middle.end_offset or 0)) // 2
    begun = time.perf_counter()
    fetched = reader.read(offset, 1, segments=segments)
    seconds = time.perf_counter() - begun
    assert fetched["offset"][0].as_py() == offset
    return seconds


class _Distant(StorageWrapper):
    """A storage of which each answer takes a round trip."""

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Wait, and fetch."""
        time.sleep(LATENCY)
        return self.inner.fetch_log_ahead(metadata, start, end, layout=layout)


def bench_raw(scale: Scale, folder: Path) -> Report:
    """Measure a reader that takes the batches of a log as they are, 1 MiB at a time.

    Args:
        scale: How much is read.
        folder: Where the log is made.
    """
    storage = _Distant(source_of(_written(scale, _SIZES[-1], folder)))
    partition = storage.list_partitions()[0]
    size = _read_raw(storage, partition, 4)

    def sample(run: Callable[[], object]) -> Sample:
        # A virtual machine's host takes free memory back, and is slow to give it again.
        _touch(size)
        return timed_by_clock(run)

    works = []
    for window in (4, 0):
        read = partial(_read_raw, storage, partition, window)
        works.append(Work(f"window of {window}", size, read, sample))
    works.append(Work(_MEMORY, size, partial(_touch, size), timed_by_clock))
    return Report(
        f"Raw batches, {LATENCY * 1e3:.0f} ms a request",
        Unit.MEGABYTES,
        (works[1].name, _MEMORY),
        scale.repetitions,
        times="Time by the clock",
        comparisons=[
            measure("one reader", works, scale, [Promise(works[0].name, 600e6)])
        ],
    )


def _touch(size: int) -> None:
    """Use as much memory as the blocks of a log, which no limit of ours can beat."""
    kept = [np.ones(_BLOCK, np.uint8) for _ in range(-(-size // _BLOCK))]
    kept.clear()


def _read_raw(
    storage: RemoteStorageManager, partition: TopicIdPartition, window: int
) -> int:
    """Read a partition to its end, and return how many bytes that was."""
    reader = TieredReader(storage, SegmentCatalog(storage), partition)
    with FetchPurgatory() as purgatory:
        blocks = BlockReader(storage, LogBlocks(), purgatory, window=window)
        view = PartitionView(reader, reader.segments(), blocks)
        offset, size = view.beginning, 0
        while offset < view.end:
            raw = view.read(offset, MIB)
            offset, size = raw.next_offset, size + raw.size
    return size


def test_raw(tmp_path: Path) -> None:
    report = bench_raw(_RAW, tmp_path)
    report.show()
    assert not report.disagreements()


def test_remote_work(tmp_path: Path, fleet: Fleet) -> None:
    report = bench_remote_work(_REPEATED, tmp_path, fleet)
    report.show()
    assert not report.disagreements()


def test_local_work(tmp_path: Path) -> None:
    report = bench_local_work(_REPEATED, tmp_path)
    report.show()
    assert not report.disagreements()


def test_scans(tmp_path: Path, fleet: Fleet) -> None:
    report = bench_scans(_SCALE, tmp_path, fleet)
    report.show()
    assert not report.disagreements()


def test_first(tmp_path: Path, fleet: Fleet) -> None:
    show_limits("When the first records come", bench_first(_SCALE, tmp_path, fleet))


def test_point(tmp_path: Path, fleet: Fleet) -> None:
    show_limits("When one record comes", bench_point(_SCALE, tmp_path, fleet))
