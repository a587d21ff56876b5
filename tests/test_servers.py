"""The servers do what tests of the package take for granted."""

from pathlib import Path

import pytest
from fsspec.core import url_to_fs

from logs import PLACES, make_place

FILES = {"a": b"0123456789", "b/c d": b"deeper", "b/empty": b""}


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_gives_back_what_it_was_made_with(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(kind, request, tmp_path, FILES)
    filesystem, root = url_to_fs(
        place.url, skip_instance_cache=True, **place.storage_options
    )
    for key, content in FILES.items():
        assert filesystem.cat_file(f"{root}/{key}") == content
    with filesystem.open(f"{root}/a", "rb") as file:
        file.seek(2)
        assert file.read(3) == b"234"
    assert len(filesystem.find(root)) == len(FILES)
