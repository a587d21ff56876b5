"""How long an acknowledged copy of a small segment takes, one object after the other.

A real S3 server answers behind a proxy that adds 30 ms to each answer. Works run in
turns, so that what the machine does besides affects them equally.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.distance import LATENCY, distant
from benchmarks.measuring import FULL, Limit, Scale, show_limits
from servers import Fleet
from tieredfs import ObjectStore
from tieredfs.storage import CopiedObject, copy_objects
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

__all__ = ["bench_copies"]

_TURNS = 3


def bench_copies(scale: Scale, fleet: Fleet) -> list[Limit]:
    """Measure copies of two and of three objects beside one put after the other.

    Args:
        scale: How often.
        fleet: The servers.
    """
    count = scale.repetitions * _TURNS
    one, *others = (sample(PARTITIONS[0], number) for number in range(count + 1))
    unused = iter(others)

    def copy_to(native: SingleObject) -> None:
        segment = next(unused)
        native.copy_log_segment(segment.metadata, segment.data)

    with _distant(fleet) as store:
        native = SingleObject(store)
        made = [
            CopiedObject(f"copies/{name}", one.log)
            for name in ("log", "index", "times")
        ]
        works: dict[str, Callable[[], object]] = {
            "two, serial": lambda: _serial(store, made[:2]),
            "two": lambda: copy_objects(store, "two", made[:2]),
            "three, serial": lambda: _serial(store, made),
            "three": lambda: copy_objects(store, "three", made),
            "three, the last one a mark": lambda: copy_objects(
                store, "three", made[:2], made[2]
            ),
            "single-object": lambda: copy_to(native),
        }
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(count):
            for name, work in works.items():
                begun = time.perf_counter()
                work()
                found[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(times) for name, times in found.items()}
    serial = medians["three, serial"]
    return [
        Limit("two, of serial", medians["two"] / medians["two, serial"], 0.55, ""),
        Limit("three, of serial", medians["three"] / serial, 0.4, ""),
        Limit(
            "three, the last one a mark",
            medians["three, the last one a mark"] / serial,
            0.75,
            "",
        ),
        *(
            Limit(f"{name}, alone", median / LATENCY, 9, "round trips")
            for name, median in medians.items()
        ),
    ]


def _serial(store: ObjectStore, objects: Sequence[CopiedObject]) -> None:
    for one in objects:
        assert isinstance(one.content, bytes)
        store.put(one.key, one.content, overwrite=True)


@contextmanager
def _distant(fleet: Fleet) -> Iterator[ObjectStore]:
    direct = fleet.place("s3")
    with distant(fleet.server("s3").port) as endpoint:
        options = fleet.server("s3").bucket("", endpoint).storage_options
        store = ObjectStore(direct.url, options)
        store.put("copies/connects", b"", overwrite=True)
        yield store


def test_copies(fleet: Fleet) -> None:
    show_limits("Copies of a small segment", bench_copies(FULL, fleet))
