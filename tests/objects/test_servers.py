"""The servers do what tests of the package take for granted."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from fsspec.core import url_to_fs

from servers import Bucket, ProxiedBucket
from support.stores import CLOUDS, PLACES, READ_ONLY, SECOND, make_place

FILES = {"a": b"0123456789", "b/c d": b"deeper", "b/empty": b""}
CONTENT = bytes(range(256)) * 1000


def plain(place: Bucket | ProxiedBucket) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the plain client of a place, and the path there."""
    filesystem, root = url_to_fs(
        place.url, skip_instance_cache=True, **place.storage_options
    )
    return filesystem, root


class TestPlaces:
    @pytest.mark.parametrize("kind", PLACES)
    def test_a_place_holds_what_it_was_made_with(
        self, kind: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        filesystem, root = plain(make_place(kind, request, tmp_path, FILES))
        for key, content in FILES.items():
            assert filesystem.cat_file(f"{root}/{key}") == content
        with filesystem.open(f"{root}/a", "rb") as file:
            file.seek(2)
            assert file.read(3) == b"234"
        assert len(filesystem.find(root)) == len(FILES)

    @pytest.mark.parametrize("kind", sorted(set(PLACES) - set(READ_ONLY)))
    def test_what_is_put_comes_back(
        self, kind: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        filesystem, root = plain(make_place(kind, request, tmp_path))
        filesystem.makedirs(f"{root}/b", exist_ok=True)
        filesystem.pipe_file(f"{root}/b/c", CONTENT)
        assert filesystem.cat_file(f"{root}/b/c") == CONTENT
        filesystem.rm(f"{root}/b/c")
        with pytest.raises(FileNotFoundError):
            filesystem.cat_file(f"{root}/b/c")

    @pytest.mark.parametrize("kind", sorted(READ_ONLY))
    def test_what_can_only_be_read_takes_nothing(
        self, kind: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        filesystem, root = plain(make_place(kind, request, tmp_path, FILES))
        with pytest.raises(Exception, match=r"Unsupported method|requires mode"):
            filesystem.pipe_file(f"{root}/new", b"")

    @pytest.mark.parametrize("kind", ["s3", "s3-moto", "gcs", "azure"])
    def test_one_of_many_creates_wins(
        self, kind: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        filesystem, root = plain(make_place(kind, request, tmp_path))

        def create(number: int) -> int | None:
            try:
                filesystem.pipe_file(f"{root}/key", b"%d" % number, mode="create")
            except OSError:  # s3fs translates one server's 412, and not another's
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            winners = {n for n in pool.map(create, range(16)) if n is not None}
        assert {int(filesystem.cat_file(f"{root}/key"))} == winners

    def test_rclone_lets_every_create_win(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        filesystem, root = plain(make_place("s3-rclone", request, tmp_path))
        for content in (b"1", b"2"):
            filesystem.pipe_file(f"{root}/key", content, mode="create")
        assert filesystem.cat_file(f"{root}/key") == b"2"


class TestProxiedPlaces:
    @pytest.mark.parametrize("proxied", [*CLOUDS, *SECOND], indirect=True)
    def test_every_request_goes_through_the_proxy(self, proxied: ProxiedBucket) -> None:
        filesystem, root = plain(proxied)
        filesystem.pipe_file(f"{root}/key", CONTENT)
        before = len(proxied.proxy.requests())
        assert filesystem.cat_file(f"{root}/key", start=10, end=20) == CONTENT[10:20]
        (asked,) = proxied.proxy.requests()[before:]
        assert (asked.method, asked.range) == ("GET", "bytes=10-19")
        assert asked.status in {200, 206}
        assert not asked.injected

    @pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
    @pytest.mark.parametrize("proxied", CLOUDS, indirect=True)
    def test_every_part_of_a_large_upload_does(self, proxied: ProxiedBucket) -> None:
        filesystem, root = plain(proxied)
        with filesystem.open(f"{root}/key", "wb", block_size=5 << 20) as file:
            for _ in range(11):
                file.write(bytes(1 << 20))
        sent = sum(
            int(request.headers.get("content-length", 0))
            for request in proxied.proxy.requests()
        )
        assert sent >= 11 << 20
        assert filesystem.info(f"{root}/key")["size"] == 11 << 20
