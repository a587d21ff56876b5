"""A place for objects on each backend, and one behind a proxy that makes it fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logs import KINDS, make_place, open_store
from servers import Bucket, FaultProxy, ProxiedBucket, SeaweedS3
from tieredfs import ObjectStore


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place of this test's own, with nothing in it."""
    return make_place(request.param, request, tmp_path)


@pytest.fixture
def store(place: Bucket) -> ObjectStore:
    """The store of that place."""
    return open_store(place)


@pytest.fixture
def proxied(
    request: pytest.FixtureRequest, tmp_path: Path, s3_server: SeaweedS3
) -> Iterator[ProxiedBucket]:
    """A place on S3, reached through a proxy of this test's own."""
    place = make_place("s3", request, tmp_path)
    with FaultProxy(s3_server.port) as proxy:
        options = s3_server.storage_options(endpoint=proxy.url)
        yield ProxiedBucket(place.url, options, proxy)
