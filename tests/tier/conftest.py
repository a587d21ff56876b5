"""A place on each backend."""

from pathlib import Path

import pytest

from servers import Bucket
from support.stores import KINDS, make_place


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place of this test's own, with nothing in it."""
    return make_place(request.param, request, tmp_path)
