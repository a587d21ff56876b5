"""What pytest finds of tieredfs: the fixture of ``tieredfs.testing``.

It is a module of its own, and imports tieredfs when the fixture is used: every start of
pytest imports this file, and importing any module of tieredfs imports Arrow.
"""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tieredfs.objects import ObjectStore

__all__ = ["tieredfs_store"]


@pytest.fixture(params=["memory", "local"])
def tieredfs_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> "Iterator[ObjectStore]":
    """An empty object store of this test's own: one in memory, one in a local folder.

    ``RemoteStorageTests`` asks its rules there. A fixture of this name in a class or a
    ``conftest.py`` gives others.
    """
    from tieredfs.objects import ObjectStore  # noqa: PLC0415 - see above
    from tieredfs.testing.stores import scratch_store  # noqa: PLC0415 - see above

    if cast("str", request.param) == "local":
        yield ObjectStore(str(tmp_path / "tieredfs"))
        return
    with scratch_store() as store:
        yield store
