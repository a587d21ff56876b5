"""A place for objects on each backend, and one behind a proxy that makes it fail."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from servers import Bucket, FaultProxy, Fleet, ProxiedBucket
from support.prerequisites import server_of
from support.stores import CLOUDS, KINDS, make_place, open_store
from tieredfs import ObjectStore


@pytest.fixture(params=[*KINDS, "sftp", "webhdfs", "chained"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place of this test's own, with nothing in it."""
    return make_place(request.param, request, tmp_path)


@pytest.fixture
def store(place: Bucket) -> ObjectStore:
    """The store of that place."""
    return open_store(place)


@pytest.fixture(params=[kind for kind in KINDS if kind in CLOUDS])
def proxied(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[ProxiedBucket]:
    """A place reached through a proxy of this test's own."""
    kind = request.param
    with FaultProxy(server_of(kind, fleet).port) as proxy:
        yield ProxiedBucket(*fleet.place(kind, proxy.url), proxy)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, none of which is waited."""
    waits: list[float] = []
    mine = threading.get_ident()

    def sleep(seconds: float) -> None:
        if threading.get_ident() == mine:
            waits.append(seconds)
        else:  # what an earlier test has left behind
            time.sleep(seconds)

    # tenacity's own name, so that no other code in this process stops sleeping
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=sleep))
    return waits
