"""Each benchmark once, on next to nothing: what it does, not how fast."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from benchmarks.bench_cache import (
    bench_cold_load,
    bench_held,
    bench_opening,
    bench_restart,
)
from benchmarks.bench_cat import bench_cat
from benchmarks.bench_codecs import bench_codecs, codecs_alone, payloads
from benchmarks.bench_copies import bench_copies
from benchmarks.bench_decode import bench_decode
from benchmarks.bench_encode import arrow_batch, bench_encode
from benchmarks.bench_import import bench_import
from benchmarks.bench_indexes import bench_lookups, bench_parsing
from benchmarks.bench_listing import bench_listing
from benchmarks.bench_manager import bench_idle, bench_slow_partition, show
from benchmarks.bench_objects import CLOUDS, bench_calls, bench_clouds
from benchmarks.bench_planning import bench_long_plans, bench_planning
from benchmarks.bench_push import bench_push
from benchmarks.bench_pytest_start import bench_pytest_start
from benchmarks.bench_reads import (
    bench_first,
    bench_local_work,
    bench_raw,
    bench_remote_work,
    bench_scans,
)
from benchmarks.bench_spark import bench_spark
from benchmarks.bench_spark_planning import bench_spark_planning
from benchmarks.bench_watched_push import LIMITS, bench_time_to_tier
from benchmarks.decoders import (
    AIOKAFKA,
    KAFKA_PYTHON,
    FallbackProcess,
    arrow_by_loop,
    decode,
    kernel_in_use,
    records_by,
)
from benchmarks.measuring import (
    SMOKE,
    Comparison,
    Figures,
    Promise,
    Report,
    Sample,
    Scale,
    Unit,
    Work,
    measure,
)
from benchmarks.segments import KIB, MIB, Shape, segment
from servers import Fleet, ProxiedBucket
from support.golden import headers_of, rows_of
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import decompress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = Shape(100, 4 * KIB)


def _cells(report: Report) -> list[list[str]]:
    columns = [list(column.cells) for column in report.table().columns]
    return [list(map(str, row)) for row in zip(*columns, strict=True)]


def _check(report: Report, comparisons: int, works: set[str]) -> None:
    """Check that the works agree, and that each has its row with each data."""
    assert report.disagreements() == []
    assert len(report.comparisons) == comparisons
    for comparison in report.comparisons:
        assert {figures.name for figures in comparison.figures} >= works
    rows = [row[0].removesuffix(" *") for row in _cells(report)]
    for work in works:
        assert rows.count(work) == comparisons


def test_decoding_is_measured_beside_peers_and_limits(tmp_path: Path) -> None:
    ours = {"tieredfs", "tieredfs, Python kernel", "tieredfs: open_tier, scan"}
    peers = {"aiokafka", "aiokafka → Arrow", "kafka-python"}
    limits = {"memcpy", "checksums alone", "page cache alone"}
    _check(bench_decode(SMOKE, tmp_path), 6, ours | peers | limits)


def test_decoding_of_compressed_logs_is_measured_beside_the_codec() -> None:
    works = {"tieredfs", "aiokafka", "aiokafka → Arrow", "pyarrow's codec alone"}
    _check(bench_codecs(SMOKE), 8, works)


def test_encoding_is_measured_beside_a_peer_and_a_copy() -> None:
    _check(bench_encode(SMOKE), 4, {"tieredfs", "aiokafka's builder", "memcpy"})


def test_parsing_of_indexes_is_measured_beside_reading_them_once() -> None:
    works = {"tieredfs, all checks", "numpy, read once"}
    _check(bench_parsing(SMOKE), 2, works)


def test_lookups_are_measured_beside_bisect() -> None:
    _check(bench_lookups(SMOKE), 4, {"tieredfs", "np.searchsorted", "bisect alone"})


def test_lookups_in_a_cached_index_are_measured_three_ways(tmp_path: Path) -> None:
    works = {"held", "through the cache", "many per call"}
    _check(bench_held(SMOKE, tmp_path), 1, works)


def test_opening_an_entry_is_measured_beside_a_copy_and_a_checksum(
    tmp_path: Path,
) -> None:
    report = bench_opening(SMOKE, tmp_path)
    (comparison,) = report.comparisons
    assert {figures.name for figures in comparison.figures} == {
        "opened, every byte checked",
        "loaded, every entry checked",
        "memcpy + CRC",
    }


def test_a_cold_load_is_measured_in_round_trips(
    s3_proxied: ProxiedBucket, tmp_path: Path
) -> None:
    trips, milliseconds = bench_cold_load(s3_proxied, tmp_path, 1)
    assert trips.found > 0
    assert milliseconds.found >= 30


def test_a_restart_is_measured_by_what_it_takes_and_holds(tmp_path: Path) -> None:
    limits = {limit.name: limit for limit in bench_restart(tmp_path, 3, 1)}
    assert limits["files for each entry"].found == 1
    assert limits["descriptors and mappings held"].found == 0
    assert limits["reopening"].found > 0
    assert limits["memory for each entry"].most == 300


def test_importing_is_measured_beside_pyarrow() -> None:
    _check(bench_import(SMOKE), 1, {"tieredfs, after pyarrow", "pyarrow", "aiokafka"})


def test_a_start_of_pytest_is_measured_with_and_without_the_kit(
    tmp_path: Path,
) -> None:
    report = bench_pytest_start(SMOKE, tmp_path)
    works = {"with the kit", "with hypothesis alone", "without"}
    _check(report, 1, works)
    (comparison,) = report.comparisons
    assert {figures.outcomes for figures in comparison.figures} == {("0",)}


def test_calls_of_stores_are_measured_beside_plain_filesystems(tmp_path: Path) -> None:
    _check(bench_calls(SMOKE, tmp_path), 2, {"tieredfs", "fsspec"})


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
def test_object_stores_are_measured_beside_their_plain_clients(fleet: Fleet) -> None:
    report = bench_clouds(SMOKE, fleet)
    _check(report, 3 * len(CLOUDS), {"tieredfs", "fsspec"})


def test_listings_are_measured_beside_the_plain_clients(fleet: Fleet) -> None:
    _check(bench_listing(SMOKE, fleet), len(CLOUDS), {"tieredfs", "fsspec"})


def test_scans_are_measured_beside_one_request_after_the_other(
    tmp_path: Path, fleet: Fleet
) -> None:
    works = {"scan", "one request after the other"}
    _check(bench_scans(SMOKE, tmp_path, fleet), 2, works)


def test_printing_is_measured_with_both_kernels(tmp_path: Path) -> None:
    works = {"cat --format jsonl", "cat --format jsonl, Python kernel", "scan"}
    _check(bench_cat(SMOKE, tmp_path), 1, works)


def test_raw_reads_are_measured_with_and_without_reading_ahead(tmp_path: Path) -> None:
    _check(
        bench_raw(SMOKE, tmp_path),
        1,
        {"window of 4", "window of 0", "memory that was not used before"},
    )


def test_the_work_of_scans_is_measured_beside_that_of_the_decoder(
    tmp_path: Path, fleet: Fleet
) -> None:
    works = {"scan", "fsspec and the decoder"}
    _check(bench_remote_work(SMOKE, tmp_path / "remote", fleet), 1, works)
    works = {"scan", "read once, and decode", "decode what is in memory"}
    _check(bench_local_work(SMOKE, tmp_path / "local"), 2, works)


def test_copies_are_measured_beside_one_put_after_the_other(fleet: Fleet) -> None:
    names = [limit.name for limit in bench_copies(SMOKE, fleet)]
    assert names[:2] == ["two, of serial", "three, of serial"]
    assert len(names) == len(set(names)) == 9


def test_first_batches_are_measured_in_round_trips(
    tmp_path: Path, fleet: Fleet
) -> None:
    (first,) = bench_first(SMOKE, tmp_path, fleet)
    assert first.found >= 1


def test_plans_are_measured_in_columns_and_one_by_one() -> None:
    _check(bench_planning(SMOKE), 1, {"in columns", "one by one"})


def test_long_plans_are_measured_in_time_and_memory() -> None:
    time, held, highest = bench_long_plans([3000])
    assert time.found > 0
    assert 61 < held.found < 200
    assert 0 < highest.found < 100


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_all_decoders_give_the_same_records(codec: Codec) -> None:
    log = segment(Shape(KIB, 16 * KIB, codec), 40 * KIB).data
    ours = _rows(decode(log))
    assert ours == _rows(arrow_by_loop(log))
    expected = [
        (
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in ours
    ]
    assert records_by(AIOKAFKA, log) == expected
    if codec is Codec.NONE:  # kafka-python is measured without compression
        assert records_by(KAFKA_PYTHON, log) == expected


@pytest.mark.parametrize(
    "codec",
    [codec for codec in Codec if codec is not Codec.NONE],
    ids=lambda codec: codec.name.lower(),
)
def test_codecs_alone_give_what_a_reader_gets(codec: Codec) -> None:
    log = segment(Shape(KIB, 64 * KIB, codec), 1)
    cut = payloads(log, codec)
    whole = bytes(decompress(codec, log.batches[0].payload))
    for run in codecs_alone(codec).values():
        assert b"".join(bytes(run(payload)) for payload in cut) == whole


def test_the_fallback_decodes_in_another_process_in_python() -> None:
    with FallbackProcess() as fallback:
        assert fallback.timed(kernel_in_use).outcome == "python"


def test_a_segment_is_one_log_with_what_real_data_has() -> None:
    log = segment(_SMALL, 256 * KIB)
    headers = list(headers_of(log.data))
    assert headers[-1].end == len(log.data) == log.size >= 256 * KIB
    assert [header.record_count for header in headers] == [b.count for b in log.batches]
    rows = _rows(decode(log.data))
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert {len(row["headers"] or ()) for row in rows} == {0, 1, 2}
    for column in ("key", "value"):
        assert 0 < [row[column] for row in rows].count(None) < len(rows) // 32
    assert {len(row["value"]) for row in rows if row["value"]} == {100}
    assert {len(row["key"]) for row in rows if row["key"]} == {16}


def test_a_compressed_segment_has_the_size_it_would_have_without() -> None:
    plain = segment(Shape(KIB, 16 * KIB), 64 * KIB)
    packed = segment(Shape(KIB, 16 * KIB, Codec.ZSTD), 64 * KIB)
    assert packed.size == plain.size
    assert len(packed.data) < len(plain.data) / 2
    assert [b.size - HEADER_SIZE for b in packed.batches] == [
        len(b.payload) for b in plain.batches
    ]


def test_a_segment_repeats_what_was_built() -> None:
    log = segment(Shape(KIB, MIB), 8 * MIB)
    assert len(log.batches) > len(set(log.batches))
    headers = list(headers_of(log.data))
    assert sum(b.count for b in log.batches) == headers[-1].last_offset + 1


def test_the_arrow_that_is_encoded_has_the_records_that_are_built() -> None:
    log = segment(_SMALL, 1).data
    records = records_by(AIOKAFKA, log)
    batch = arrow_batch(records)
    columns = batch.schema.names
    assert _rows([batch]) == [
        {name: row[name] for name in columns} for row in _rows(decode(log))
    ]


def test_works_run_in_turns() -> None:
    ran: list[str] = []
    works = [Work(name, 1, _noting(ran, name)) for name in ("a", "b")]
    measure("data", works, Scale(1, 2))
    assert "".join(ran) == "ababab"  # a warm run, and two that count


def test_a_speed_is_that_of_the_median_and_a_promise_says_whether_it_holds() -> None:
    comparison = measure(
        "data",
        [_lasting("slow", 0.25, 4.0, 0.5), _lasting("fast", 0.125, 0.25, 0.5)],
        Scale(1, 3, warm=0),
        [Promise("fast", 2, "slow"), Promise("fast", 3, "slow"), Promise("fast", 600)],
    )
    assert comparison.speed("slow") == 200
    assert comparison.kept("slow", Unit.LOOKUPS) == ""
    assert comparison.kept("fast", Unit.LOOKUPS).splitlines() == [
        "≥ 2× slow: 2 yes",
        "≥ 3× slow: 2 NO",
        "≥ 600 lookups/s: 400 NO",
    ]


def test_a_promise_may_be_what_a_call_takes_longer() -> None:
    comparison = measure(
        "data",
        [_lasting("one", 100e-6), _lasting("other", 70e-6)],
        Scale(1, 1, warm=0),
        [
            Promise("one", 0, "other", more=1e-6),
            Promise("one", 0, "other", more=0.1e-6),
        ],
    )
    assert comparison.kept("one", Unit.CALLS).splitlines() == [
        "≤ 1 µs more: 0.3 yes",
        "≤ 0 µs more: 0.3 NO",
    ]


def test_works_that_do_not_give_the_same_are_named() -> None:
    figures = [_figures("a", 5), _figures("limit", None), _figures("b", 4)]
    (said,) = Comparison("data", tuple(figures)).disagreements()
    assert said == "data: b gave (4,), not (5,)"


def test_a_work_of_several_threads_is_marked() -> None:
    report = Report("title", Unit.MEGABYTES, ("one",), repetitions=1)
    alone, threads = _figures("one", 5), _figures("two", 5, threads=1.9)
    report.comparisons.append(Comparison("data", (alone, threads)))
    assert [row[0] for row in _cells(report)][1:] == ["one", "two *"]


def test_a_report_prints_each_row_and_what_it_ran_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report("What it is", Unit.MEGABYTES, ("one",), repetitions=1)
    works = (_figures("one", 5), _figures("two", 5))
    report.comparisons.append(Comparison("data", works, (Promise("two", 1e6),)))
    report.show()
    printed = capsys.readouterr().out
    for said in (
        "What it is",
        "one",
        "two",
        "≥ 1.0 MB/s: 1.0 yes",
        "CPUs under a load",
    ):
        assert said in printed


def _rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return rows_of(pa.Table.from_batches(list(batches)))


def _noting(ran: list[str], name: str) -> Callable[[], None]:
    return lambda: ran.append(name)


def _lasting(name: str, *seconds: float) -> Work:
    """Return a work whose runs take so long."""
    left = iter(seconds)
    return Work(
        name, 100, lambda: None, lambda run: Sample(next(left), wall=1, outcome=run())
    )


def _figures(name: str, outcome: object, threads: float = 1) -> Figures:
    return Figures(name, 1e6, 1, 0, threads, (outcome,))


def test_a_push_copies_all_logs_and_needs_no_temporary_file(
    tmp_path: Path, fleet: Fleet
) -> None:
    found = bench_push(SMOKE, tmp_path, fleet)
    assert len({footprint.copied for footprint in found}) == 1
    assert [footprint.temporary for footprint in found] == [0, 0, 0]
    assert all(footprint.memory and str(footprint) for footprint in found)


@pytest.mark.parametrize("how", LIMITS)
def test_the_time_to_the_tier_is_measured_from_the_roll(
    tmp_path: Path, how: str
) -> None:
    found = bench_time_to_tier(tmp_path, how, rolls=1, records=10)
    assert len(found.seconds) == 1
    assert f"promised <= {LIMITS[how]} s" in str(found)


def test_idle_partitions_are_counted_and_a_slow_one_is_survived(
    capsys: pytest.CaptureFixture[str],
) -> None:
    idle = bench_idle(count=4, intervals=2)
    assert [one.listings for one in idle[:2]] == [0, 0]
    assert idle[0].source_listings == 0
    assert idle[3].listings > 0
    show(idle, bench_slow_partition(count=3, latency=0.01))
    assert "leaders of a folder" in capsys.readouterr().out


def test_spark_is_measured_beside_prebuilt_batches_and_parquet(
    spark: "SparkSession", tmp_path: Path
) -> None:
    works = {"tieredfs", "the same batches, prebuilt", "Parquet"}
    narrow = {"tieredfs: offset alone", "tieredfs: offset alone, count()"}
    _check(bench_spark(SMOKE, spark, tmp_path), 2, works | narrow)


def test_a_plan_of_a_spark_query_is_measured_beside_its_listing(tmp_path: Path) -> None:
    works = {"plan of a query", "its listing alone"}
    _check(bench_spark_planning(SMOKE, tmp_path), 2, works)
