"""What the index cache costs: lookups, opening an entry, a cold load, a restart.

The limit of opening an entry is a copy of its bytes and a checksum of them. The limit
of a cold load is one round trip: a request of a byte through the same proxy, before
which each request waits for the same time. What a restart costs is told in absolute
figures.
"""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bench_indexes import offset_index, time_index
from benchmarks.measuring import (
    FULL,
    Limit,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    show_limits,
)
from benchmarks.segments import MIB
from cache.made import Made, content_of, made_segment
from servers import Bucket, ProxiedBucket
from support.log_directories import native, push_all, small, source_of
from tieredfs import (
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.cache import CacheDirectory, RemoteIndexCache
from tieredfs.cache.entry import check_indexes, entry_name
from tieredfs.cache.entry_file import decode_entry, encode_entry
from tieredfs.format.checksum import crc32c

__all__ = ["bench_cold_load", "bench_held", "bench_opening", "bench_restart"]

_BASE: Final = 1 << 33
_ENTRIES: Final = (1 << 30) // 4096
"""Those of a segment of 1 GiB by default."""

_TARGETS: Final = 100_000
_LATENCY: Final = 0.030
_SEGMENTS: Final = 10_000
_COLD: Final = 15


def bench_held(scale: Scale, folder: Path) -> Report:
    """Measure lookups in an entry that is held, and through the cache."""
    report = Report(
        "Lookups in a cached index", Unit.LOOKUPS, ("held",), scale.repetitions
    )
    storage = _Large(folder, min(_ENTRIES, scale.size))
    cache = RemoteIndexCache(storage, folder / "cache")
    held = cache.get(storage.segment)
    draw = np.random.default_rng(20241105)
    count = min(_TARGETS, scale.size)
    targets = draw.integers(_BASE, _BASE + (1 << 31), count)
    each = targets.tolist()
    works = [
        Work("held", count, partial(_each, held.lookup_offset, each)),
        Work(
            "through the cache",
            count,
            partial(_each, partial(cache.lookup_offset, storage.segment), each),
        ),
        Work("many per call", count, lambda: int(held.lookup_offsets(targets)[-1])),
    ]
    promises = [
        Promise("held", 1e6),
        Promise("through the cache", 3e5),
        Promise("many per call", 5e6),
    ]
    title = f"offset index, {min(_ENTRIES, scale.size):,} entries"
    report.comparisons.append(measure(title, works, scale, promises))
    return report


def bench_opening(scale: Scale, folder: Path) -> Report:
    """Measure how fast an entry is opened, every byte of it checked."""
    opened, loaded = "opened, every byte checked", "loaded, every entry checked"
    limit = "memcpy + CRC"
    report = Report("Entry → lookups", Unit.MEGABYTES, (limit,), scale.repetitions)
    storage = _Large(folder, min(10 * MIB, scale.size) // 20 + 1)
    cache = RemoteIndexCache(storage, folder / "cache")
    cache.get(storage.segment)
    directory = CacheDirectory.existing(cache.directory)
    assert directory is not None
    entry = entry_name(storage.identity, storage.segment)
    data = bytes(directory.read(entry.name))
    target = bytearray(len(data))
    found = storage.fetch_all_indexes(storage.segment)

    def copied() -> None:
        target[:] = data
        crc32c(target)

    works = [
        Work(
            opened,
            len(data),
            lambda: len(
                decode_entry(directory.read(entry.name), entry.identity).indexes
            ),
        ),
        Work(limit, len(data), copied),
        Work(
            loaded,
            len(data),
            partial(check_indexes, found, storage.segment, "segment"),
        ),
    ]
    title = f"indexes of {len(data) / MIB:.0f} MiB"
    promises = [Promise(name, 1 / 3, limit) for name in (opened, loaded)]
    report.comparisons.append(measure(title, works, scale, promises))
    return report


def bench_cold_load(remote: ProxiedBucket, folder: Path, count: int) -> list[Limit]:
    """Measure a load of all indexes of a segment that is 30 ms away."""
    small(folder / "broker")
    place = Bucket(remote.url, remote.storage_options)
    storage = native(place)
    push_all(source_of(folder / "broker"), storage)
    (partition,) = storage.list_partitions()
    segments = storage.list_segments(partition)
    key = next(storage.store.list("")).key
    remote.proxy.latency = _LATENCY
    trips, loads = [], []
    for number in range(count):
        trips.append(_seconds(partial(storage.store.get_range, key, 0, 1)))
        cache = RemoteIndexCache(storage, folder / f"cache-{number}")
        loads.append(_seconds(partial(cache.get, segments[number % len(segments)])))
    ratio = statistics.median(loads) / statistics.median(trips)
    cold, trip = (statistics.median(each) * 1e3 for each in (loads, trips))
    return [
        Limit("cold load, in round trips", ratio, 1.3, "×"),
        Limit("cold load", cold, 1.3 * trip, "ms"),
    ]


def bench_restart(folder: Path, segments: int, repetitions: int) -> list[Limit]:
    """Measure what a directory of many entries costs when it is opened again."""
    made = Made(folder / "asked")
    fill_directory(made, folder / "cache", segments)
    times = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        RemoteIndexCache(made, folder / "cache")
        times.append(time.perf_counter() - begun)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    cache = RemoteIndexCache(made, folder / "cache")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held = _held(cache.directory)
    cache.get(made_segment(segments - 1))
    assert made.fetches == 0
    return [
        Limit("reopening", statistics.median(times) * 1e3, 150, "ms"),
        Limit("files for each entry", _files(cache.directory) / segments, 1, ""),
        Limit("descriptors and mappings held", held, 0, ""),
        Limit("memory for each entry", (after - before) / segments, 300, "bytes"),
    ]


def fill_directory(storage: Made, directory: Path, segments: int) -> None:
    """Write the entries of many segments, as a cache does, but without its account."""
    RemoteIndexCache(storage, directory).close()
    place = storage.identity
    for number in range(segments):
        segment = made_segment(number)
        name, identity = entry_name(place, segment)
        views = {k: memoryview(v) for k, v in content_of(segment).items()}
        pieces = encode_entry(identity, SegmentIndexes(views))
        (directory / f"{name}.indexes").write_bytes(b"".join(pieces))


class _Large(Made):
    """A storage of one segment with large indexes.

    Attributes:
        segment: It.
    """

    def __init__(self, folder: Path, entries: int) -> None:
        super().__init__(folder / "asked")
        self._offsets = offset_index(entries)
        self._times = time_index(entries)
        self.segment = SegmentMetadata(
            TopicIdPartition("large", 0),
            SegmentId.from_bytes(bytes(15) + b"\1"),
            _BASE,
            _BASE + (1 << 31) - 1,
            size=(1 << 31) - 1,
        )

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return them."""
        del metadata
        epochs = f"0\n1\n0 {_BASE}\n".encode()
        return SegmentIndexes(
            {
                IndexType.OFFSET: memoryview(self._offsets),
                IndexType.TIMESTAMP: memoryview(self._times),
                IndexType.LEADER_EPOCH: memoryview(epochs),
            }
        )


def _each(lookup: Callable[[int], tuple[int, int]], targets: Iterable[int]) -> int:
    for target in targets:
        found = lookup(target)
    return found[1]


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _files(directory: Path) -> int:
    return sum(path.suffix == ".indexes" for path in directory.iterdir())


def _held(directory: Path) -> int:
    """Count what this process holds of a directory; nothing where none can tell."""
    me = Path("/proc/self")
    if not me.exists():  # not Linux
        return 0
    links = [
        str(link.readlink()) for link in (me / "fd").iterdir() if link.is_symlink()
    ]
    maps = (me / "maps").read_text().splitlines()
    return sum(str(directory) in line for line in [*links, *maps])


def test_looking_into_cached_indexes(tmp_path: Path) -> None:
    report = bench_held(FULL, tmp_path)
    report.show()
    assert not report.disagreements()


def test_opening_an_entry(tmp_path: Path) -> None:
    report = bench_opening(FULL, tmp_path)
    report.show()


def test_a_cold_load(s3_proxied: ProxiedBucket, tmp_path: Path) -> None:
    show_limits(
        f"Cold load, {_LATENCY * 1e3:.0f} ms away",
        bench_cold_load(s3_proxied, tmp_path, _COLD),
    )


def test_a_restart(tmp_path: Path) -> None:
    limits = bench_restart(tmp_path, _SEGMENTS, FULL.repetitions)
    show_limits(f"A directory of {_SEGMENTS:,} entries", limits)
