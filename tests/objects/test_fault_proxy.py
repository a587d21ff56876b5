"""Each fault of the proxy does what its name says, as a bare client sees it."""

import gc
import time
import warnings
from collections.abc import Iterator
from http.client import (
    HTTPConnection,
    HTTPResponse,
    IncompleteRead,
    RemoteDisconnected,
)
from pathlib import Path

import pytest

from servers import FaultProxy, WebHDFS

CONTENT = bytes(range(256)) * 1000
PATIENCE = 10.0
HASTE = 0.3
"""Seconds to wait for an answer that comes, and for one that does not."""


class Site:
    """A folder on a server behind a proxy, and one connection to it."""

    def __init__(self, folder: Path, proxy: FaultProxy) -> None:
        self.folder = folder
        self.proxy = proxy
        self.client = HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)

    def hasten(self) -> None:
        """Wait no longer than for an answer that does not come."""
        self.client.timeout = HASTE
        if self.client.sock is not None:
            self.client.sock.settimeout(HASTE)

    def ask(
        self,
        method: str = "GET",
        operation: str = "OPEN",
        body: bytes | None = None,
        *,
        key: str = "file",
        headers: dict[str, str] | None = None,
    ) -> HTTPResponse:
        """Ask the server's second half, which does not redirect."""
        target = f"/webhdfs/v1/{key}?op={operation}&datanode=here&overwrite=true"
        self.client.request(method, target, body, headers or {})
        return self.client.getresponse()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site with one file."""
    (tmp_path / "file").write_bytes(CONTENT)
    with WebHDFS(tmp_path) as server, FaultProxy(server.port) as proxy:
        site = Site(tmp_path, proxy)
        yield site
        site.client.close()


def test_without_a_rule_all_is_as_the_server_has_it(site: Site) -> None:
    assert site.ask().read() == CONTENT
    assert site.ask("PUT", "CREATE", b"new", key="other").read() == b""
    assert (site.folder / "other").read_bytes() == b"new"
    assert [(r.method, r.status, r.injected) for r in site.proxy.log] == [
        ("GET", 200, False),
        ("PUT", 200, False),
    ]


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_status_is_answered_and_the_server_is_not_asked(
    site: Site, status: int
) -> None:
    rule = site.proxy.add(status=status, headers={"Retry-After": "7"}, times=1)
    answer = site.ask("PUT", "CREATE", b"new")
    assert (answer.status, answer.headers["Retry-After"]) == (status, "7")
    assert answer.read()
    assert (site.folder / "file").read_bytes() == CONTENT
    assert rule.hits == 1
    assert site.ask().read() == CONTENT


@pytest.mark.parametrize(
    ("target", "headers", "word"),
    [
        ("/bucket/key", {}, b"<Code>SlowDown</Code>"),
        ("/account/key", {"x-ms-version": "2026-02-06"}, b"<Code>ServerBusy</Code>"),
        ("/storage/v1/b/bucket/o/key", {}, b'"code": 503'),
    ],
)
def test_a_status_is_worded_as_the_store_words_it(
    site: Site, target: str, headers: dict[str, str], word: bytes
) -> None:
    site.proxy.add(status=503)
    site.client.request("GET", target, headers=headers)
    answer = site.client.getresponse()
    assert word in answer.read()
    assert (answer.headers["x-ms-error-code"] == "ServerBusy") == bool(headers)


def test_a_reset_before_it_leaves_the_server_unasked(site: Site) -> None:
    site.proxy.add("PUT", cut_before=True)
    with pytest.raises(ConnectionResetError):
        site.ask("PUT", "CREATE", b"new")
    assert (site.folder / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(("method", "operation"), [("PUT", "CREATE"), ("DELETE",) * 2])
def test_a_lost_reply_is_a_reset_after_the_work_is_done(
    site: Site, method: str, operation: str
) -> None:
    site.proxy.add(method, lose_reply=True)
    with pytest.raises(ConnectionResetError):
        site.ask(method, operation, b"new")
    left = {path.name: path.read_bytes() for path in site.folder.iterdir()}
    assert left == ({"file": b"new"} if method == "PUT" else {})


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_body_ends_after_so_many_bytes(site: Site, *, reset: bool) -> None:
    site.proxy.add("GET", cut_after=100_000, reset=reset)
    answer = site.ask()
    if reset:
        assert answer.read(100_000) == CONTENT[:100_000]
        with pytest.raises(ConnectionResetError):
            answer.read()
    else:
        with pytest.raises(IncompleteRead) as caught:
            answer.read()
        assert caught.value.partial == CONTENT[:100_000]


def test_a_hang_in_the_body_comes_after_so_many_bytes(site: Site) -> None:
    site.proxy.add("GET", hang_after=100_000)
    answer = site.ask()
    assert answer.read(100_000) == CONTENT[:100_000]
    site.hasten()
    with pytest.raises(TimeoutError):
        answer.read(1)


def test_a_hang_before_the_reply_leaves_the_server_unasked(site: Site) -> None:
    site.proxy.add("PUT", hang=60)
    site.hasten()
    with pytest.raises(TimeoutError):
        site.ask("PUT", "CREATE", b"new")
    assert (site.folder / "file").read_bytes() == CONTENT


def test_a_delay_comes_after_the_work_is_done(site: Site) -> None:
    site.proxy.add("PUT", delay=60)
    site.hasten()
    with pytest.raises(TimeoutError):
        site.ask("PUT", "CREATE", b"new")
    while (site.folder / "file").read_bytes() != b"new":
        time.sleep(0.001)


def test_a_silent_proxy_accepts_and_never_answers(site: Site) -> None:
    site.proxy.silent = True
    site.hasten()
    with pytest.raises(TimeoutError):
        site.ask()
    assert not site.proxy.requests()


def test_a_proxy_that_refuses_does_not_listen(site: Site) -> None:
    assert site.ask().read() == CONTENT
    site.proxy.refuse()
    with pytest.raises((ConnectionResetError, RemoteDisconnected)):
        site.ask()
    for _ in range(3):
        site.client.close()
        with pytest.raises(ConnectionRefusedError):
            site.ask()
    site.client.close()
    site.proxy.clear()
    assert site.ask().read() == CONTENT


def test_dropped_connections_can_be_made_again(site: Site) -> None:
    assert site.ask().read() == CONTENT
    site.proxy.drop_connections()
    with pytest.raises((ConnectionResetError, RemoteDisconnected)):
        site.ask()
    site.client.close()
    assert site.ask().read() == CONTENT


def test_a_flipped_byte_is_the_only_one(site: Site) -> None:
    site.proxy.add("GET", flip_byte=70_000)
    wrong = site.ask().read()
    assert [i for i in range(len(CONTENT)) if wrong[i] != CONTENT[i]] == [70_000]


def test_a_rule_can_ask_for_a_header(site: Site) -> None:
    site.proxy.add("GET", when=lambda request: request.range, status=500)
    site.proxy.add(when=lambda r: "if-none-match" in r.headers, status=503)
    assert site.ask(headers={"Range": "bytes=0-9"}).status == 500
    assert site.ask(headers={"x-ms-range": "bytes=0-9"}).status == 500
    assert site.ask(headers={"If-None-Match": "*"}).status == 503
    assert site.ask().read() == CONTENT
    assert [r.range for r in site.proxy.log] == ["bytes=0-9", "bytes=0-9", "", ""]


def test_a_rule_lets_some_pass_and_takes_only_so_many(site: Site) -> None:
    site.proxy.add("GET", "/file", status=500, skip=1, times=2)
    seen = []
    for _ in range(5):
        answer = site.ask()
        seen.append(answer.status)
        answer.read()
    assert seen == [200, 500, 500, 200, 200]


def test_where_to_go_on_is_the_proxy(tmp_path: Path) -> None:
    with WebHDFS(tmp_path) as server, FaultProxy(server.port) as proxy:
        client = HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)
        named = {"Host": f"127.0.0.1:{server.port}"}  # as in the server's redirect
        client.request("GET", "/webhdfs/v1/file?op=OPEN", headers=named)
        answer = client.getresponse()
        assert answer.status == 307
        assert answer.headers["Location"].startswith(f"{proxy.url}/webhdfs/v1/file")
        client.close()


def test_a_server_that_ends_an_idle_connection_is_connected_to_again(
    site: Site,
) -> None:
    assert site.ask().read() == CONTENT
    with WebHDFS(site.folder) as server, FaultProxy(server.port) as proxy:
        other = Site(site.folder, proxy)
        assert other.ask().read() == CONTENT
        server._listener.end_connections()
        while not all(stream.reader.at_eof() for stream in proxy._servers):
            time.sleep(0.001)
        assert other.ask().read() == CONTENT
        other.client.close()


def test_a_proxy_that_ends_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other tests have left
        gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with WebHDFS(tmp_path) as server, FaultProxy(server.port) as proxy:
            proxy.add("GET", hang_after=10, times=1)
            proxy.add("GET", hang=60, times=1)
            waiting = [Site(tmp_path, proxy) for _ in range(4)]
            for site in waiting[:2]:
                site.hasten()
                with pytest.raises(TimeoutError):
                    site.ask().read(11)
            waiting[2].ask()  # and read nothing of it
            proxy.silent = True
            waiting[3].client.connect()
            began = time.monotonic()
        took = time.monotonic() - began
        for site in waiting:
            site.client.close()
        del waiting, site, server, proxy
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert took < 5
