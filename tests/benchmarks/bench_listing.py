"""How long a client takes for each key of a listing, beside the plain client.

The clouds are servers on this machine, in processes of their own: only the client's
processor time counts.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fsspec.core import url_to_fs

from benchmarks.bench_objects import CLOUDS
from benchmarks.measuring import FULL, Promise, Report, Scale, Unit, Work, measure
from servers import Bucket, Fleet
from tieredfs import ObjectStore

_OURS = "tieredfs"
_BARE = "fsspec"
_BYTES_PER_KEY = 1 << 13
"""Of the scale's size: 4096 keys at full scale, which are five pages."""
_WRITERS = 16
_PARTS = {"s3": 4.0, "gcs": 0.8, "azure": 4.0}
"""How fast ours has to be, as a part of the plain client's speed."""
_NAME = "{0:020d}-{0:020d}-{0:020d}-0000000000-0000000001000-0000000100-0000-{1}"


def bench_listing(scale: Scale, fleet: Fleet) -> Report:
    """Measure a listing of all keys of a bucket on each cloud.

    Args:
        scale: How many keys there are.
        fleet: The servers.
    """
    report = Report(
        "Listings, beside the plain clients", Unit.KEYS, (_BARE,), scale.repetitions
    )
    count = max(2, scale.size // _BYTES_PER_KEY)
    keys = [f"{_NAME.format(n, 'A' * 22)}.segment" for n in range(count)]
    for kind in CLOUDS:
        place = fleet.place(kind)
        store = ObjectStore(place.url, place.storage_options)
        with ThreadPoolExecutor(_WRITERS) as pool:
            put = partial(store.put, data=b"content", overwrite=True)
            list(pool.map(put, keys))
        works = [
            Work(_OURS, count, _ours(store)),
            Work(_BARE, count, _bare(place)),
        ]
        promises = [Promise(_OURS, _PARTS[kind], _BARE)]
        report.comparisons.append(measure(f"{kind}: list", works, scale, promises))
    return report


def _ours(store: ObjectStore) -> Callable[[], object]:
    return lambda: tuple((entry.key, entry.size) for entry in store.list())


def _bare(place: Bucket) -> Callable[[], object]:
    options = {**place.storage_options, "use_listings_cache": False}
    filesystem, root = url_to_fs(place.url, skip_instance_cache=True, **options)

    def find() -> object:
        filesystem.invalidate_cache()
        found = filesystem.find(root, detail=True)
        cut = len(root) + 1
        return tuple(sorted((path[cut:], info["size"]) for path, info in found.items()))

    return find


def test_listings(fleet: Fleet) -> None:
    report = bench_listing(FULL, fleet)
    report.show()
    assert not report.disagreements()
