"""How long ``import tieredfs`` takes, beside pyarrow alone."""

import statistics
import subprocess
import sys
import time

_RUNS = 15
_MOST_MORE = 0.3  # seconds that tieredfs may take more than pyarrow


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - start


def bench_import() -> tuple[float, float]:
    """Return the medians, in seconds, of importing pyarrow and tieredfs."""
    codes = ("import pyarrow", "import tieredfs")
    for code in codes:  # the first run writes bytecode and fills the page cache
        _seconds(code)
    runs = [[_seconds(code) for code in codes] for _ in range(_RUNS)]
    alone, whole = (statistics.median(column) for column in zip(*runs, strict=True))
    return alone, whole


def test_importing_tieredfs_takes_little_more_than_pyarrow() -> None:
    alone, whole = bench_import()
    print(
        f"\nimport, medians of {_RUNS} interleaved runs: pyarrow {alone:.3f} s, "
        f"tieredfs {whole:.3f} s, ratio {whole / alone:.2f}"
    )
    assert whole - alone < _MOST_MORE
