"""Web servers: good ones, ones that know no ranges, and ones that misbehave."""

import http.server
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from servers import FaultProxy, Fleet
from servers.web import Handler, WebThread
from support.deadlines import assert_all_end_by_the_deadline
from support.events import Events
from support.prerequisites import server_of
from support.stores import make_place
from tieredfs import (
    ByteRange,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects import StoreCapability

CONTENT = bytes(range(256)) * 400
FILES = {
    "key": CONTENT,
    "b/c d": b"deeper",
    "b/empty": b"",
    "b-x/y": b"1",
    "é%20#?+": b"2",
}
QUICK = RequestPolicy(backoff=0.001, max_backoff=0.01)

READS: dict[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 10, 90_000),
    "head": lambda store: store.head("key"),
    "list": lambda store: [entry.key for entry in store.list("b")],
}
WRITES: dict[str, Callable[[ObjectStore], Any]] = {
    "put": lambda store: store.put("key", b"1", overwrite=True),
    "create": lambda store: store.put("key", b"1", overwrite=False),
    "put_file": lambda store: store.put_file("key", Path(__file__), overwrite=True),
    "copy": lambda store: store.copy("key", "other"),
    "delete": lambda store: store.delete(["key"]),
}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with files, on a server that knows ranges."""
    return make_place("http", request, tmp_path, FILES).url


@pytest.fixture
def proxy(fleet: Fleet) -> Iterator[FaultProxy]:
    with FaultProxy(server_of("http", fleet).port) as proxy:
        yield proxy


@pytest.fixture
def proxied(url: str, proxy: FaultProxy) -> str:
    """The same folder, through a proxy."""
    return f"{proxy.url}{urlsplit(url).path}"


class Answer(NamedTuple):
    """What a server of a test's own says."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = CONTENT


def answering(answer: Callable[[Handler], Answer]) -> WebThread:
    """Return a server without ranges that gives the answers of a function."""

    class Own(Handler):
        def do_GET(self) -> None:  # noqa: N802 -- as http.server calls it
            reply = answer(self)
            length = {"Content-Length": str(len(reply.body))}
            self.send_response(reply.status)
            for name, value in (length | dict(reply.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(reply.body)

        do_HEAD = do_GET  # noqa: N815 -- http.server's name

    return WebThread(Own)


def always(status: int = 200, body: bytes = CONTENT, **headers: str) -> WebThread:
    """Return a server with one answer to everything."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answering(lambda _: Answer(status, named, body))


def test_it_can_be_read_and_that_is_all(url: str) -> None:
    assert ObjectStore(url).probe_capabilities() == {StoreCapability.RANGE_READ}


@pytest.mark.parametrize("verb", WRITES)
def test_it_is_read_only_and_not_even_asked(
    proxied: str, proxy: FaultProxy, verb: str
) -> None:
    with pytest.raises(UnsupportedOperationError, match="it is read-only"):
        WRITES[verb](ObjectStore(proxied))
    assert proxy.log == []


def test_existing_objects_are_read(url: str) -> None:
    store = ObjectStore(url)
    for key, content in FILES.items():
        assert store.get(key) == content
        assert store.head(key).size == len(content)
        for start in range(0, len(content), 37_000):
            end = min(start + 999, len(content))
            assert store.get_range(key, start, end) == content[start:end]
    ranges = [ByteRange(90_000, 90_001), ByteRange(0, 5), ByteRange(7, 7)]
    assert store.get_ranges("key", ranges) == [CONTENT[90_000:90_001], CONTENT[:5], b""]
    for verb in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
        for key in ("missing", "b", "b/missing", "no/such"):
            with pytest.raises(NotFoundError, match=key):
                verb(key)
    for start, end in ((0, len(CONTENT) + 1), (len(CONTENT), len(CONTENT) + 5)):
        with pytest.raises(CorruptObjectError):
            store.get_range("key", start, end)
    with pytest.raises(CorruptObjectError):
        store.get_range("b/empty", 0, 1)


def test_what_its_pages_link_to_is_listed_with_sizes(url: str) -> None:
    store = ObjectStore(url)
    assert {entry.key: entry.size for entry in store.list()} == {
        key: len(content) for key, content in FILES.items()
    }
    assert [entry.key for entry in store.list()] == sorted(FILES)
    folded = [entry.key for entry in store.list(delimiter="/")]
    assert folded == ["b-x/", "b/", "key", "é%20#?+"]
    assert [entry.key for entry in store.list("b/")] == ["b/c d", "b/empty"]
    assert [e.key for e in store.list(start_after="b/c d")] == [
        "b/empty",
        "key",
        "é%20#?+",
    ]
    for prefix in ("no/", "no/such/folder/", "key/"):
        assert list(store.list(prefix)) == []
    listed = next(store.list("key"))
    assert listed == store.head("key")
    assert listed.version


@pytest.mark.parametrize("verb", ["get", "get_range", "head"])
def test_a_read_is_one_request(proxied: str, proxy: FaultProxy, verb: str) -> None:
    events = Events()
    READS[verb](ObjectStore(proxied, observer=events))
    assert [event.attempts for event in events] == [1]
    assert len(proxy.requests()) == 1


def test_a_listing_is_a_request_for_the_page_and_one_for_each_size(
    proxied: str, proxy: FaultProxy
) -> None:
    READS["list"](ObjectStore(proxied))
    assert len(proxy.requests("GET")) == 3  # the root, b/ and b-x/
    assert len(proxy.requests("HEAD")) == 3


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_before": True}], ids=str)
@pytest.mark.parametrize("verb", ["get", "get_range", "head"])
def test_each_try_is_one_request(
    proxied: str, proxy: FaultProxy, verb: str, fault: dict[str, Any]
) -> None:
    events = Events()
    store = ObjectStore(proxied, policy=QUICK, observer=events)
    expected = READS[verb](store)
    proxy.clear()
    proxy.add(**fault, times=2)
    assert READS[verb](store) == expected
    assert events[1].attempts == 3
    assert len(proxy.requests()) == 3


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_before": True}], ids=str)
def test_a_listing_goes_on_where_it_failed(
    proxied: str, proxy: FaultProxy, fault: dict[str, Any]
) -> None:
    store = ObjectStore(proxied, policy=QUICK)
    for skip in (0, 1, 2, 4):
        proxy.add(**fault, skip=skip, times=1)
    assert READS["list"](store) == ["b-x/y", "b/c d", "b/empty"]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("verb", ["get", "get_range"])
def test_a_body_that_is_cut_is_fetched_again(
    proxied: str, proxy: FaultProxy, verb: str, reset: bool
) -> None:
    store = ObjectStore(proxied, policy=QUICK)
    proxy.add("GET", cut_after=50_000, reset=reset, times=2)
    content = CONTENT if verb == "get" else CONTENT[10:90_000]
    assert READS[verb](store) == content
    assert len(proxy.requests()) == 3


def test_what_hangs_ends_by_the_deadline(proxied: str, proxy: FaultProxy) -> None:
    store = ObjectStore(proxied)
    assert store.get("key") == CONTENT
    proxy.add(hang=60)
    assert_all_end_by_the_deadline(store, READS.values())
    proxy.clear()
    assert store.get("key") == CONTENT


def test_a_slow_body_is_a_hang_too(proxied: str, proxy: FaultProxy) -> None:
    proxy.bandwidth = 1000
    store = ObjectStore(proxied)
    assert_all_end_by_the_deadline(store, [READS["get"], READS["get_range"]])


def test_a_server_without_ranges_gives_the_right_bytes() -> None:
    with always() as server:
        store = ObjectStore(server.endpoint)
        for start, end in (
            (0, 10),
            (50_000, 50_001),
            (0, len(CONTENT)),
            (102_000, 102_400),
        ):
            assert store.get_range("key", start, end) == CONTENT[start:end]
        assert StoreCapability.RANGE_READ not in store.probe_capabilities()
        with pytest.raises(CorruptObjectError):
            store.get_range("key", 5, len(CONTENT) + 1)


@pytest.mark.parametrize(
    "said", ["bytes 0-9/102400", "bytes 11-20/102400", "bytes */*", "nonsense", ""]
)
def test_a_range_that_is_another_one_is_not_taken_for_ours(said: str) -> None:
    with always(206, bytes(10), Content_Range=said) as server:
        policy = RequestPolicy(attempts=2, backoff=0)
        store = ObjectStore(server.endpoint, policy=policy)
        with pytest.raises(StorageUnavailableError):
            store.get_range("key", 10, 20)


def test_what_the_server_compresses_is_refused_not_misread() -> None:
    with always(Content_Encoding="br") as server:
        store = ObjectStore(server.endpoint)
        for verb in ("get", "get_range", "head"):
            with pytest.raises(UnsupportedOperationError, match="key"):
                READS[verb](store)


class TestWithoutHead:
    @pytest.mark.parametrize("status", [403, 405, 501])
    def test_the_size_comes_with_the_first_byte(
        self, proxied: str, proxy: FaultProxy, status: int
    ) -> None:
        proxy.add("HEAD", status=status)
        store = ObjectStore(proxied)
        assert store.head("key").size == len(CONTENT)
        assert store.head("b/empty").size == 0
        with pytest.raises(NotFoundError):
            store.head("missing")
        assert {entry.key for entry in store.list()} == set(FILES)

    def test_the_size_comes_of_a_server_without_ranges_too(self) -> None:
        with answering(
            lambda it: Answer(405 * (it.command == "HEAD") or 200)
        ) as server:
            assert ObjectStore(server.endpoint).head("key").size == len(CONTENT)


def test_a_missing_size_is_an_error() -> None:
    once = RequestPolicy(attempts=1)
    with always(Content_Length="") as server, pytest.raises(TieredFSError):
        ObjectStore(server.endpoint, policy=once).head("key")


class TestQuery:
    """A signature is sent with each request, and never shown."""

    QUERY = "X-Amz-Signature=hunter2%2Fsecret%3D&se=2026-01-01T00%3A00%3A00Z"

    def test_it_is_sent_unchanged_with_each_request(
        self, proxied: str, proxy: FaultProxy
    ) -> None:
        store = ObjectStore(f"{proxied}?{self.QUERY}")
        for key, content in FILES.items():
            assert store.get(key) == content
            assert store.head(key).size == len(content)
        assert [entry.key for entry in store.list()] == sorted(FILES)
        assert [
            r.target for r in proxy.log if not r.target.endswith(f"?{self.QUERY}")
        ] == []

    @pytest.mark.parametrize("status", [403, 404, 503])
    @pytest.mark.parametrize("verb", READS)
    def test_it_is_not_shown(
        self, proxied: str, proxy: FaultProxy, verb: str, status: int
    ) -> None:
        store = ObjectStore(f"{proxied}?{self.QUERY}", policy=QUICK)
        proxy.add(status=status)
        with pytest.raises(TieredFSError) as caught:
            READS[verb](store)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        assert "hunter2" not in repr(store)


class TestIndexPages:
    def links(self, page: str, **headers: str) -> list[str]:
        """Return the keys of a folder with such a page; each has a size."""

        def answer(asked: Handler) -> Answer:
            if urlsplit(asked.path).path != "/files/":
                return Answer(body=b"12")
            return Answer(200, {"Content-Type": "text/html", **headers}, page.encode())

        with answering(answer) as server:
            store = ObjectStore(f"{server.endpoint}/files")
            return [entry.key for entry in store.list(delimiter="/")]

    def test_what_is_not_below_the_folder_is_left_out(self) -> None:
        page = """<a href="../">up</a> <a href="?C=N;O=D">name</a> <a href="/">root</a>
            <a href="a">a</a><A HREF='./b'>b</A> <a href="/files/c">c</a> <a name="x">
            <a href="https://example.org/files/d">elsewhere</a> <a href="#top">top</a>
            <a href="sub/">sub</a> <a href="sub/e">deeper</a> <a href="mailto:a@b">m</a>
            <a href="javascript:void(0)">j</a> <a href="a">again</a>
            <a href="/files/">self</a>"""
        assert self.links(page) == ["a", "b", "c", "sub/"]

    def test_names_are_unquoted_once(self) -> None:
        page = """<a href="a%20b">1</a> <a href="c%2520">2</a>
            <a href="d&amp;e">3</a> <a href="f%3Fg">4</a>"""
        assert self.links(page) == ["a b", "c%20", "d&e", "f?g"]

    def test_a_page_of_something_else_is_not_a_listing(self) -> None:
        with pytest.raises(UnsupportedOperationError, match="index page"):
            self.links("{}", **{"Content-Type": "application/json"})

    @pytest.mark.parametrize("prefix", ["", "folder/"])
    def test_a_server_without_them_cannot_list(self, prefix: str) -> None:
        with always(404) as server:
            store = ObjectStore(server.endpoint)
            with pytest.raises(UnsupportedOperationError, match="index page"):
                list(store.list(prefix))


def test_a_folder_that_redirects_to_its_page_is_not_an_object(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text("<a href='a'>a</a>")
    handler = type("_Files", (Handler, http.server.SimpleHTTPRequestHandler), {})
    with WebThread(partial(handler, directory=str(tmp_path))) as server:
        store = ObjectStore(server.endpoint)
        for verb in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(NotFoundError):
                verb("folder")


@pytest.mark.parametrize("verb", READS)
def test_a_server_that_is_not_there_is_unavailable(verb: str) -> None:
    policy = RequestPolicy(attempts=2, backoff=0.001)
    with pytest.raises(StorageUnavailableError):
        READS[verb](ObjectStore("http://127.0.0.1:9/folder", policy=policy))


@pytest.mark.parametrize("url", ["http://", "http://[", "http://host:port/x"])
def test_an_invalid_url_is_an_invalid_argument(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        ObjectStore(url).get("a")


def test_headers_of_the_user_s_go_with_each_request() -> None:
    def answer(asked: Handler) -> Answer:
        return Answer(200 if asked.headers.get("X-Pass") == "yes" else 403)

    with answering(answer) as server:
        options = {"headers": {"X-Pass": "yes"}}
        store = ObjectStore(server.endpoint, options)
        assert store.get("key") == CONTENT
        assert store.head("key").size == len(CONTENT)
        assert store.get_range("key", 1, 3) == CONTENT[1:3]


def test_a_forked_child_that_ends_leaves_the_parent_s_connection_alone(
    url: str,
) -> None:
    program = (
        "import os, sys, tieredfs\n"
        "policy = tieredfs.RequestPolicy(attempts=1, deadline=10)\n"
        "store = tieredfs.ObjectStore(sys.argv[1], policy=policy)\n"
        "whole = bytes(store.get('key'))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit(store.get('key') != whole)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert store.get('key') == whole\n"
    )
    subprocess.run([sys.executable, "-c", program, url], check=True)  # noqa: S603 - ours
