"""How much the object store costs above the plain filesystem that it calls.

The clouds are servers on this machine, so that nothing hides what a client costs; what
is compared is the best call that the plain client has for the same job.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import fsspec
import pytest
from fsspec.core import url_to_fs

from benchmarks.measuring import (
    FULL,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    timed_by_clock,
)
from servers import Bucket, Fleet
from tieredfs import ObjectStore

CLOUDS = ("s3", "gcs", "azure")

_OURS = "tieredfs"
_BARE = "fsspec"
_KIB = 1 << 10
_MIB = 1 << 20
_THREADS = 16
_RANGE = 64 * _KIB
_PART = 0.9
_MORE = 40e-6


def bench_clouds(scale: Scale, fleet: Fleet) -> Report:
    """Measure ranges, gets and puts on each cloud, by the clock.

    Args:
        scale: How much is moved by each call that moves a lot.
        fleet: The servers.
    """
    report = Report(
        "Object stores, beside their plain clients",
        Unit.MEGABYTES,
        (_BARE,),
        scale.repetitions,
        times="By the clock, servers included",
    )
    size = max(scale.size * 2, _RANGE)
    for kind in CLOUDS:
        place = fleet.place(kind)
        store = ObjectStore(place.url, place.storage_options)
        filesystem, root = _plain(place)
        content = bytes(range(256)) * (size // 256)
        store.put("large", content, overwrite=True)
        for name, (ours, bare) in _jobs(kind, store, filesystem, root, content).items():
            works = [
                Work(_OURS, size, ours, timed_by_clock),
                Work(_BARE, size, bare, timed_by_clock),
            ]
            promises = [Promise(_OURS, _PART, _BARE)]
            report.comparisons.append(measure(name, works, scale, promises))
    return report


def bench_calls(scale: Scale, folder: Path) -> Report:
    """Measure what a call costs on a local disk and in memory.

    Args:
        scale: How many calls there are.
        folder: Empty.
    """
    report = Report(
        "Object stores on this machine, beside their plain filesystems",
        Unit.CALLS,
        (_BARE,),
        scale.repetitions,
    )
    calls = max(1, scale.size // _RANGE)
    for place in (Bucket(str(folder), {}), Bucket("memory://benchmark", {})):
        store = ObjectStore(place.url)
        filesystem, root = _plain(place)
        store.put("key", bytes(_MIB), overwrite=True)
        name = place.url.partition("://")[0] if "://" in place.url else "local"
        ours = partial(store.get_range, "key", 0, _RANGE)
        bare = partial(filesystem.cat_file, f"{root}/key", start=0, end=_RANGE)
        works = [
            Work(_OURS, calls, _repeated(calls, ours)),
            Work(_BARE, calls, _repeated(calls, bare)),
        ]
        promises = [Promise(_OURS, 0, _BARE, more=_MORE)]
        report.comparisons.append(
            measure(f"{name}: 64 KiB range", works, scale, promises)
        )
        store.delete(["key"])
    return report


def _jobs(
    kind: str,
    store: ObjectStore,
    filesystem: fsspec.AbstractFileSystem,
    root: str,
    content: bytes,
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return what is measured of a store, each with what the plain client does."""
    path, size = f"{root}/large", len(content)
    amount = f"{size // _KIB:,} KiB"

    def ours(at: int) -> object:
        return store.get_range("large", at, at + _RANGE)

    def bare(at: int) -> object:
        return filesystem.cat_file(path, start=at, end=at + _RANGE)

    def put() -> None:
        filesystem.pipe_file(f"{root}/theirs", content)

    # s3fs takes a whole object of this size in parts, which is slower.
    whole = {"start": 0, "end": size} if kind == "s3" else {}
    return {
        f"{kind}: 64 KiB ranges, {_THREADS} threads": (
            _ranges(ours, size),
            _ranges(bare, size),
        ),
        f"{kind}: get {amount}": (
            lambda: len(store.get("large")),
            lambda: len(filesystem.cat_file(path, **whole)),
        ),
        f"{kind}: put {amount}": (
            lambda: store.put("ours", content, overwrite=True),
            put,
        ),
    }


def _plain(place: Bucket) -> tuple[fsspec.AbstractFileSystem, str]:
    found: tuple[fsspec.AbstractFileSystem, str] = url_to_fs(
        place.url, skip_instance_cache=True, **place.storage_options
    )
    return found


def _ranges(read: Callable[[int], object], size: int) -> Callable[[], None]:
    """Return what reads all of an object in small ranges, several at a time."""

    def run() -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(read, range(0, size - _RANGE + 1, _RANGE)):
                pass

    return run


def _repeated(calls: int, call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(calls):
            call()

    return run


def test_calls_on_this_machine(tmp_path: Path) -> None:
    report = bench_calls(FULL, tmp_path)
    report.show()
    assert not report.disagreements()


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
def test_clouds(fleet: Fleet) -> None:
    report = bench_clouds(FULL, fleet)
    report.show()
    assert not report.disagreements()
