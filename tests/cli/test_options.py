"""``--option``: what it changes, and how wrong ones are refused."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from cli.commands import Run
from servers import Bucket, ProxiedBucket
from support.log_directories import write_log
from support.segments import records, segment
from support.stores import fill, open_store
from support.wire import encode_batch
from tieredfs import ObjectStore
from tieredfs.options import option_ranges

KIB, MIB = 1 << 10, 1 << 20
FOLDER = "t-0-AAAAAAAAAAAAAAAAAAAAAQ"


def _given(place: Bucket | ProxiedBucket) -> tuple[str, ...]:
    return "--storage-options", json.dumps(place.storage_options)


def _log(batches: int) -> bytes:
    return b"".join(
        encode_batch(records(at, 10, value="v" * KIB))
        for at in range(0, batches * 10, 10)
    )


def test_cat_reads_and_writes_in_the_sizes_it_is_given(
    run: Run, s3_proxied: ProxiedBucket
) -> None:
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    fill(open_store(place), segment(FOLDER, 0, _log(50)))
    s3_proxied.proxy.clear()
    done = run(
        *("cat", s3_proxied.url, "t", *_given(s3_proxied), "--format", "arrow"),
        *("--option", "fetch_bytes=100K", "--option", "output_batch_bytes=65536"),
        *("--from", "0", "--to", "500"),
    )
    assert (done.code, done.err) == (0, [])
    batches = list(pa.ipc.open_stream(done.out))
    assert sum(batch.num_rows for batch in batches) == 500
    assert len(batches) > 8
    assert all(batch.nbytes <= 64 * KIB for batch in batches)
    asked = [request.range for request in s3_proxied.proxy.requests("GET", ".log")]
    assert f"bytes=0-{100 * KIB - 1}" in asked
    assert f"bytes={100 * KIB}-{200 * KIB - 1}" in asked


def test_push_uploads_parts_of_the_size_it_is_given(
    run: Run, tmp_path: Path, s3_proxied: ProxiedBucket
) -> None:
    write_log(tmp_path / "logs", {0: _log(1200), 12_000: b""})
    s3_proxied.proxy.latency = 0.2
    done = run(
        *("push", str(tmp_path / "logs"), s3_proxied.url, *_given(s3_proxied)),
        *("--option", "multipart_threshold_bytes=5M", "--option", "part_bytes=6M"),
        *("--option", "max_concurrent_parts=2"),
    )
    assert (done.code, done.err) == (0, [])
    parts = s3_proxied.proxy.requests("PUT", "partNumber=")
    sizes = [int(part.headers["content-length"]) for part in parts]
    assert sorted(sizes)[1:] == [6 * MIB]
    assert sizes[0] + sizes[1] > 11 * MIB


@pytest.mark.parametrize("verb", ["ls", "cat", "push", "pull", "verify"])
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("fetch_size=1M", "no option is called 'fetch_size' (did you mean fetch_bytes"),
        ("fetch_bytes=1", "option fetch_bytes is 1: give 65536 to 1073741824 bytes"),
        ("fetch_bytes", "'fetch_bytes' is not NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_wrong_usage_in_every_command(
    run: Run, tmp_path: Path, verb: str, option: str, told: str
) -> None:
    done = run(verb, str(tmp_path), str(tmp_path / "b"), "--option", option)
    assert done.code == 2
    assert len(done.err) == 1
    assert told in done.err[0]


def test_of_an_option_that_is_given_twice_the_last_counts(
    run: Run, tmp_path: Path
) -> None:
    store = ObjectStore(str(tmp_path))
    log = encode_batch(records(0, 5, value="v" * MIB), codec="gzip")
    fill(store, segment(FOLDER, 0, log))
    name = "max_decompressed_bytes"
    first, last = ("--option", f"{name}=4M"), ("--option", f"{name}=8M")
    assert run("cat", str(tmp_path), "t", *first, *last).code == 0
    assert run("cat", str(tmp_path), "t", *last, *first).code == 4


def test_the_help_of_every_command_lists_the_options(run: Run) -> None:
    for verb in ("ls", "cat", "push", "pull", "verify", "report", "demo"):
        shown = "".join(run(verb, "--help").text.split())
        assert all(name in shown for name in option_ranges())
