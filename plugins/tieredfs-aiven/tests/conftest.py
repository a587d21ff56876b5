"""Fixtures for all tests of the plugin."""

import os
from collections.abc import Iterator

import hypothesis
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer

from support.samples import new_store
from tieredfs import ObjectStore

# No deadlines: the cores are shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "ci",
    parent=hypothesis.settings.get_profile("default"),
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Forget what a test has put into memory."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def memory() -> ObjectStore:
    """An empty store."""
    return new_store()


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, object]]:
    """What fsspec needs to know of an S3 server of this module's own."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "key": "test",
        "secret": "test",
        "endpoint_url": f"http://{host}:{port}",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    server.stop()
