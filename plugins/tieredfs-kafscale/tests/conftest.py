"""Fixtures for all tests of the plugin."""

import os
from collections.abc import Iterator

import hypothesis
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from support.samples import new_store
from tieredfs import ObjectStore, RequestPolicy

# No deadlines: the cores are shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "ci",
    parent=hypothesis.settings.get_profile("default"),
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "proofs", parent=hypothesis.settings.get_profile("default"), max_examples=10_000
)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
    if os.environ.get("HYPOTHESIS_PROFILE") in {None, "default", "ci", "proofs"}
    else "default"
)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Forget what a test has put into memory."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def memory() -> ObjectStore:
    """An empty store, where a copy in progress has little time."""
    return new_store().with_policy(RequestPolicy(deadline=0.3))
