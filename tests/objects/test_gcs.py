"""What Google Cloud Storage, and gcsfs, do in their own way."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any, ClassVar

import pytest

from objects.small_parts import upload_in_parts
from objects.watched import Watched
from servers import ProxiedBucket
from servers.web import Handler, WebThread
from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)

ON_GCS = pytest.mark.parametrize("proxied", ["gcs"], indirect=True)

MIB = 1 << 20
CONTENT = os.urandom(9 * MIB + 5)


@pytest.fixture
def place(proxied: ProxiedBucket) -> Watched:
    watched = Watched(proxied)
    watched.prove()
    return watched


@ON_GCS
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidArgumentError),
        (401, PermissionDeniedError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (409, StorageUnavailableError),
        (412, AlreadyExistsError),
        (416, CorruptObjectError),
        (429, StorageUnavailableError),
        (500, StorageUnavailableError),
        (502, StorageUnavailableError),
        (503, StorageUnavailableError),
    ],
)
def test_a_status_becomes_an_error_of_ours(
    place: Watched, status: int, error: type[TieredFSError]
) -> None:
    place.proxy.add(status=status)
    for call in (
        lambda: place.store.get("a"),
        lambda: place.store.get_range("a", 0, 5),
        lambda: place.store.head("a"),
        lambda: place.store.put("a", b"1", overwrite=True),
        lambda: list(place.store.list()),
        lambda: place.store.delete(["a", "b"]),
    ):
        with pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error
        assert place.store.url in str(caught.value)
    looks = status in {500, 502, 503}  # whether the object exists nevertheless
    assert place.agree() == (30 + looks if error.retryable else 6)


@ON_GCS
def test_a_throttled_answer_gives_the_time_to_retry(
    place: Watched, waits: list[float]
) -> None:
    place.store.put("a", b"1", overwrite=True)
    place.proxy.add(status=429, headers={"Retry-After": "7"}, times=2)
    assert place.store.get("a") == b"1"
    assert waits == [7, 7]


@ON_GCS
def test_bytes_that_are_damaged_on_their_way_are_fetched_again(place: Watched) -> None:
    place.store.put("a", CONTENT, overwrite=True)
    place.clear()
    place.proxy.add("GET", flip_byte=MIB, times=2)
    assert place.store.get("a") == CONTENT
    assert place.agree() == 3


@ON_GCS
def test_bytes_that_are_always_damaged_are_not_given(place: Watched) -> None:
    place.store.put("a", b"content", overwrite=True)
    place.proxy.add("GET", flip_byte=3)
    with pytest.raises(StorageUnavailableError, match="checksum"):
        place.store.get("a")


@ON_GCS
def test_an_object_is_read_as_it_is_stored(
    place: Watched, proxied: ProxiedBucket
) -> None:
    packed = gzip.compress(b"text" * 1000)
    place.store.put("a", packed, overwrite=True)
    bucket, _, name = proxied.url.removeprefix("gs://").partition("/")
    about = {"name": f"{name}/a", "contentEncoding": "gzip"}
    parts = [("application/json", json.dumps(about).encode()), ("text/plain", packed)]
    body = b"".join(
        b"--cut\r\nContent-Type: %s\r\n\r\n%s\r\n" % (kind.encode(), part)
        for kind, part in parts
    )
    connection = HTTPConnection("127.0.0.1", proxied.proxy.port)
    connection.request(
        "POST",
        f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart",
        body + b"--cut--\r\n",
        {"Content-Type": "multipart/related; boundary=cut"},
    )
    assert json.load(connection.getresponse())["contentEncoding"] == "gzip"
    connection.close()
    assert place.store.get("a") == packed
    assert place.store.head("a").size == len(packed)
    assert place.store.get_range("a", 2, 20) == packed[2:20]


@ON_GCS
def test_a_version_is_the_generation(place: Watched) -> None:
    for content in (b"1", b"1"):
        place.store.put("a", content, overwrite=True)
    (listed,) = place.store.list()
    assert listed == place.store.head("a")
    assert listed.version.isdecimal()
    place.store.put("a", b"1", overwrite=True)
    assert place.store.head("a").version != listed.version


@ON_GCS
def test_an_upload_sends_its_condition_in_one_request(place: Watched) -> None:
    place.store.put("a", b"1", overwrite=False)
    (request,) = place.proxy.requests()
    assert "ifGenerationMatch=0" in request.target
    assert "uploadType=multipart" in request.target


@ON_GCS
def test_many_keys_are_deleted_a_hundred_at_a_time(place: Watched) -> None:
    keys = [f"folder/{number} é+%?#" for number in range(250)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: place.store.put(key, b"", overwrite=True), keys[::2]))
    place.clear()
    place.store.delete(keys)
    assert place.agree() == 3
    assert list(place.store.list()) == []


@ON_GCS
def test_a_large_copy_is_gone_on_with(
    place: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.store.put("a", b"1", overwrite=True)
    filesystem = place.store._requests.backend("", "").filesystem
    send, tokens = filesystem._request, []

    async def partly(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the real one's
        tokens.append(options["rewriteToken"])
        if len(tokens) < 3:
            return (
                200,
                {},
                None,
                b'{"done": false, "rewriteToken": "t%d"}' % len(tokens),
            )
        return await send(*args, **options | {"rewriteToken": None})

    monkeypatch.setattr(filesystem, "_request", partly)
    place.store.copy("a", "b")
    monkeypatch.undo()
    assert tokens == [None, "t1", "t2"]
    assert place.store.get("b") == b"1"


@ON_GCS
def test_folders_and_objects_of_several_pages_come_in_order(place: Watched) -> None:
    keys = [f"{number:04}" + "/x" * (number % 3 == 0) for number in range(1600)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: place.store.put(key, b"", overwrite=True), keys))
    place.clear()
    found = [entry.key for entry in place.store.list(delimiter="/")]
    assert found == [key.removesuffix("x") for key in keys]
    assert place.agree() == 2
    place.clear()
    assert [entry.key for entry in place.store.list()] == keys
    assert [entry.key for entry in place.store.list(start_after="1597")] == keys[-2:]
    assert place.agree() == 3


@ON_GCS
def test_a_url_without_a_bucket_is_refused(proxied: ProxiedBucket) -> None:
    store = ObjectStore("gs://", proxied.storage_options)
    with pytest.raises(InvalidArgumentError, match="no bucket"):
        store.get("a")


def test_an_invalid_endpoint_is_refused() -> None:
    store = ObjectStore("gs://bucket", {"token": "anon", "endpoint_url": "nowhere"})
    with pytest.raises(InvalidArgumentError, match="nowhere"):
        store.get("a")


@ON_GCS
def test_the_environment_does_not_choose_the_class(proxied: ProxiedBucket) -> None:
    # It asks Google over gRPC what kind of bucket this is: 17 s and more, here.
    code = (
        "import json, sys\n"
        "from tieredfs import ObjectStore, RequestPolicy\n"
        "url, options = json.load(sys.stdin)\n"
        "store = ObjectStore(url, options, policy=RequestPolicy(deadline=5))\n"
        "store.put('a', b'1', overwrite=False)\n"
        "assert store.get('a') == b'1'\n"
        "kind = type(store._requests.backend('', '').filesystem)\n"
        "assert 'ExtendedGcsFileSystem' not in [base.__name__ for base in kind.__mro__]"
    )
    environment = {**os.environ, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "true"}
    subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code],
        input=json.dumps([proxied.url, proxied.storage_options]).encode(),
        env=environment,
        check=True,
        timeout=60,
    )


class Gateway(Handler):
    """Knows uploads in sessions, below a path that it may name or not."""

    location: ClassVar[str]
    seen: ClassVar[list[str]]

    def do_POST(self) -> None:  # noqa: N802 - as http.server calls it
        self._answer(200, {"Location": f"http://elsewhere{self.location}"})

    def do_PUT(self) -> None:  # noqa: N802 - as http.server calls it
        span, _, total = self.headers["Content-Range"].split()[1].partition("/")
        end = int(span.partition("-")[2]) + 1
        if end == int(total):
            self._answer(200, {}, b'{"size": "%d"}' % end)
        else:
            self._answer(308, {"Range": f"bytes=0-{end - 1}"})

    def _answer(
        self, status: int, headers: Mapping[str, str], body: bytes = b"{}"
    ) -> None:
        self.seen.append(self.path)
        while self.headers.get("Transfer-Encoding") == "chunked":
            size = int(self.rfile.readline(), 16)
            self.rfile.read(size + 2)
            if not size:
                break
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("path", ["/gw", ""])
def test_an_upload_goes_on_below_the_path_of_the_endpoint(path: str, end: str) -> None:
    below = "/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id=A%2Bb"
    members: dict[str, Any] = {"location": path + below, "seen": []}
    gateway = type("_Gateway", (Gateway,), members)
    with WebThread(gateway) as server:
        options = {"token": "anon", "endpoint_url": f"{server.endpoint}/gw{end}"}
        store = ObjectStore("gs://bucket/t", options)
        upload_in_parts(store, above=MIB, part_size=MIB)
        store.put("a", bytes(2 * MIB), overwrite=True)
    assert members["seen"][0].startswith("/gw/upload/storage/v1/b/bucket/o?")
    assert set(members["seen"][1:]) == {f"/gw{below}"}


@ON_GCS
class TestParts:
    @pytest.fixture
    def parted(self, place: Watched) -> Watched:
        """The place, where what is larger than 2 MiB is uploaded in parts of 2 MiB."""
        upload_in_parts(place.store, above=2 * MIB, part_size=2 * MIB)
        return place

    @pytest.mark.parametrize("key", ["a", "b c/é?#%+&="])
    def test_a_large_object_is_put_in_parts(self, parted: Watched, key: str) -> None:
        parted.store.put(key, CONTENT, overwrite=True)
        assert parted.agree() == 7
        assert parted.events.by_verb() == {
            "begin_upload": 1,
            "put_part": 5,
            "finish_upload": 1,
        }
        assert parted.store.get(key) == CONTENT
        assert parted.store._requests.backend("", "")._sessions == {}  # type: ignore[attr-defined] # of this backend

    @pytest.mark.parametrize("skip", [1, 5])
    @pytest.mark.parametrize("fault", [{"status": 503}, {"cut_before": True}])
    def test_what_did_not_arrive_is_sent_again(
        self, parted: Watched, skip: int, fault: dict[str, Any]
    ) -> None:
        parted.proxy.add("PUT", skip=skip, times=2, **fault)
        parted.store.put("a", CONTENT, overwrite=False)
        assert parted.agree() == 10  # the first asks whether it is there
        assert parted.store.get("a") == CONTENT

    def test_an_end_whose_reply_is_lost_is_success(self, parted: Watched) -> None:
        parted.proxy.add("PUT", lose_reply=True, skip=5, times=1)
        parted.store.put("a", CONTENT, overwrite=False)
        assert parted.store.get("a") == CONTENT

    def test_a_part_that_keeps_failing_leaves_nothing(self, parted: Watched) -> None:
        parted.proxy.add("PUT", status=500, skip=2)
        with pytest.raises(StorageUnavailableError, match="part 3"):
            parted.store.put("a", CONTENT, overwrite=True)
        assert len(parted.proxy.requests("DELETE", "upload_id")) == 1
        with pytest.raises(NotFoundError):
            parted.store.head("a")
