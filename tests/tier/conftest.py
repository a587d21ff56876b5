"""A place on each backend, and tiers in memory that can be changed."""

from pathlib import Path

import pytest

from logs import KINDS, make_place, open_store
from servers import Bucket
from tieredfs import ObjectStore


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place of this test's own, with nothing in it."""
    return make_place(request.param, request, tmp_path)


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of this test's own."""
    return open_store(make_place("memory", request, tmp_path))
