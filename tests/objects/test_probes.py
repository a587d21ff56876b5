"""What a store is tried with to find out whether its creates are exclusive."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from servers import Fleet, ProxiedBucket
from support.prerequisites import server_of
from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    RequestPolicy,
    StoreCapability,
)
from tieredfs.objects.backends import Listing

ROUNDS, STORES = 3, 6

on_s3 = pytest.mark.parametrize("proxied", ["s3"], indirect=True)


def stored(store: ObjectStore) -> list[str]:
    """Return the keys of all objects, those that listings leave out as well."""
    page = store._requests.backend("", "").page(Listing("", "", ""), None, 10)
    return [entry.key for entry in page.entries]


@on_s3
def test_what_cannot_be_deleted_is_left_once_and_is_in_no_listing(
    proxied: ProxiedBucket,
) -> None:
    url, options, proxy = proxied
    proxy.add("DELETE", status=403)
    for number in range(3):
        store = ObjectStore(f"{url}/tier", options)
        store.put(f"{number}", b"1", overwrite=False)
    proxy.clear()
    above = ObjectStore(url, options)
    keys = ["tier/0", "tier/1", "tier/2"]
    (left,) = set(stored(above)) - set(keys)
    assert [entry.key for entry in above.list()] == keys
    assert [entry.key for entry in store.list()] == ["0", "1", "2"]
    with pytest.raises(InvalidArgumentError, match="listings omit it"):
        above.put(left, b"1", overwrite=True)


@on_s3
def test_nothing_is_left_where_it_can_be_deleted(proxied: ProxiedBucket) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options)
    store.put("a", b"1", overwrite=False)
    assert len(proxy.requests()) == 4  # two creates of another, a delete, the object
    assert stored(store) == ["a"]


@pytest.mark.parametrize(("kind", "is_exclusive"), [("s3", True), ("s3-rclone", False)])
def test_stores_that_are_tried_at_the_same_time_are_found_to_be_what_they_are(
    fleet: Fleet, kind: str, is_exclusive: bool
) -> None:
    server_of(kind, fleet)
    place = fleet.place(kind)
    together = Barrier(STORES)

    def attempt(_: int) -> list[bool]:
        found = []
        for _ in range(ROUNDS):
            store = ObjectStore(place.url, place.storage_options)
            together.wait(60)
            found.append(StoreCapability.EXCLUSIVE_CREATE in store.probe_capabilities())
        return found

    with ThreadPoolExecutor(STORES) as pool:
        found = list(pool.map(attempt, range(STORES)))
    assert found == [[is_exclusive] * ROUNDS] * STORES


@on_s3
def test_a_property_of_a_store_makes_no_request_and_a_probe_is_a_method(
    proxied: ProxiedBucket,
) -> None:
    url, options, proxy = proxied
    store = ObjectStore(url, options)
    properties = [
        name for name, each in vars(ObjectStore).items() if isinstance(each, property)
    ]
    assert {"identity", "url"} <= set(properties)
    for name in properties:
        getattr(store, name)
    assert proxy.requests() == []
    assert store.probe_capabilities() == frozenset(StoreCapability)
    assert len(proxy.requests()) == 3  # two creates of a probe, a delete
    assert store.with_policy(RequestPolicy(attempts=1)).probe_capabilities()
    assert len(proxy.requests()) == 3
