"""A put that was given up, repeated, and done by the server long afterwards."""

import os
import re
from dataclasses import replace

import pytest

from objects.small_parts import upload_in_parts
from servers import Hold, ProxiedBucket, Request
from support.events import Events
from support.stores import CLOUDS
from tieredfs import NotFoundError, ObjectStore, RequestPolicy, StorageUnavailableError

on_every_cloud = pytest.mark.parametrize("proxied", CLOUDS, indirect=True)

MIB = 1 << 20
OLD, NEW = b"old" * 10, b"new" * 10


def opened(proxied: ProxiedBucket, **policy: float) -> ObjectStore:
    """Return a store that gives an attempt a second, and knows what it can do."""
    quick = RequestPolicy(deadline=2.5, backoff=0.001)
    store = ObjectStore(
        proxied.url,
        proxied.storage_options,
        policy=replace(quick, **policy),  # type: ignore[arg-type] # a policy's fields
        observer=Events(),
    )
    assert store.probe_capabilities()
    proxied.proxy.clear()
    return store


def writes(request: Request) -> bool:
    return request.method in {"PUT", "POST"}


def ends_an_upload(request: Request) -> bool:
    if request.method == "POST" and "uploadId=" in request.target:
        return True  # S3
    if "comp=blocklist" in request.target:
        return True  # Azure
    span = re.fullmatch(
        r"bytes \d+-(\d+)/(\d+)", request.headers.get("content-range", "")
    )
    return span is not None and int(span[1]) + 1 == int(span[2])  # Google


@on_every_cloud
def test_an_object_under_a_new_key_that_was_deleted_does_not_come_back(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied)
    hold = Hold()
    proxied.proxy.add(when=writes, hold=hold, times=1)
    key = store.put_new("a/b.", NEW)
    assert key.startswith("a/b.")
    assert store.get(key) == NEW
    store.delete([key])
    hold.land()
    with pytest.raises(NotFoundError):
        store.head(key)
    (stray,) = store.list()
    assert stray.key.startswith("a/b.")


@on_every_cloud
def test_what_an_attempt_without_an_answer_has_put_is_removed(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied)
    proxied.proxy.add(when=writes, lose_reply=True, times=1)
    key = store.put_new("a", NEW)
    assert [entry.key for entry in store.list()] == [key]


def test_a_put_under_a_new_key_whose_only_reply_is_lost_is_done(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied, attempts=1)
    proxied.proxy.add(when=writes, lose_reply=True, times=1)
    assert store.get(store.put_new("a", NEW)) == NEW


def test_a_put_under_a_new_key_that_was_done_before_refusals_is_found(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied, attempts=3)
    proxied.proxy.add(when=writes, lose_reply=True, times=1)
    proxied.proxy.add(when=writes, status=503)
    key = store.put_new("a", NEW)
    assert store.get(key) == NEW


def test_a_put_under_a_new_key_that_is_refused_is_an_error(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied, attempts=2)
    proxied.proxy.add(status=503)
    with pytest.raises(StorageUnavailableError):
        store.put_new("a", NEW)


@on_every_cloud
def test_a_create_that_lands_late_changes_nothing(proxied: ProxiedBucket) -> None:
    store = opened(proxied)
    hold = Hold()
    proxied.proxy.add(when=writes, hold=hold, times=1)
    store.put("a", OLD, overwrite=False)
    store.put("a", NEW, overwrite=True)
    hold.land()
    assert store.get("a") == NEW


@on_every_cloud
@pytest.mark.parametrize("is_deleted", [False, True])
def test_the_end_of_an_upload_in_parts_that_lands_late_changes_nothing(
    proxied: ProxiedBucket, *, is_deleted: bool
) -> None:
    store = opened(proxied, deadline=6)
    upload_in_parts(store, above=5 * MIB, part_size=5 * MIB)
    hold = Hold()
    proxied.proxy.add(when=ends_an_upload, hold=hold, times=1)
    store.put("a", os.urandom(6 * MIB), overwrite=True)
    if is_deleted:
        store.delete(["a"])
    else:
        store.put("a", NEW, overwrite=True)
    hold.land()
    sizes = [] if is_deleted else [len(NEW)]
    assert [entry.size for entry in store.list()] == sizes
