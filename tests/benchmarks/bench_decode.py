"""How fast a log becomes Arrow, beside copying its bytes and beside its checksums.

Speeds of a shared machine say little; ratios of what ran in turns in one process do.
"""

import statistics
import struct
import time
from collections.abc import Callable

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from golden import log_batches
from tieredfs.format.batch_writer import encode_batch
from tieredfs.format.records import RecordDecoder

_LOG_BYTES = 32 << 20
_RUNS = 9
_KIB = 1 << 10
_LEAST = {100: 0.01, _KIB: 0.03}
"""The slowest that is no mistake, as a part of the speed of a copy."""


def _log(value_size: int, batch_size: int) -> bytes:
    """Write a log of equal batches: no checksum covers a batch's base offset."""
    count = batch_size // (value_size + 26)
    value = bytes(range(256)) * (value_size // 256 + 1)
    records = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array(range(count), pa.int64()),
            "key": pa.array([b"a key of 16 byte"] * count, pa.binary()),
            "value": pa.array([value[:value_size]] * count, pa.binary()),
        }
    )
    batch = encode_batch(records)
    starts = range(0, count * (_LOG_BYTES // len(batch)), count)
    return b"".join(struct.pack(">q", start) + batch[8:] for start in starts)


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _decode(log: bytes) -> None:
    for _ in RecordDecoder("t", 0).decode(log_batches(log)):
        pass


def _checksums(log: bytes, size: int) -> None:
    """Do what checking each batch does: take a copy, and its CRC-32C."""
    view = memoryview(log)
    for start in range(0, len(log), size):
        google_crc32c.value(bytes(view[start : start + size]))


def bench_decode(value_size: int, batch_size: int) -> tuple[float, float, float]:
    """Return the median seconds (CPU) of a copy, of the checksums, of decoding."""
    log = _log(value_size, batch_size)
    source = np.frombuffer(log, np.uint8)
    target = np.zeros_like(source)

    def copy() -> None:
        np.copyto(target, source)

    works = (copy, lambda: _checksums(log, batch_size), lambda: _decode(log))
    for work in works:
        work()
    runs = [[_seconds(work) for work in works] for _ in range(_RUNS)]
    copied, checked, decoded = map(statistics.median, zip(*runs, strict=True))
    return copied, checked, decoded


@pytest.mark.parametrize("batch_size", [16 * _KIB, _KIB * _KIB])
@pytest.mark.parametrize("value_size", [100, _KIB])
def test_decoding_keeps_up_with_copying(value_size: int, batch_size: int) -> None:
    copied, checked, decoded = bench_decode(value_size, batch_size)
    print(
        f"\ndecode, values of {value_size} B in batches of {batch_size // _KIB} KiB, "
        f"medians of {_RUNS} interleaved runs: {_LOG_BYTES / decoded / 1e6:.0f} MB/s, "
        f"{copied / decoded:.3f} of a copy, {checked / decoded:.3f} of the checksums"
    )
    assert copied / decoded > _LEAST[value_size]
