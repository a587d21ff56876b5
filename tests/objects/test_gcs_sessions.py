"""An upload to a session comes out whole, whatever the server keeps and says of it."""

import json
import os
from collections.abc import Callable, Mapping

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.objects.backends.gcs.sessions import Session, SessionError, crc32c

BLOCK = 256 << 10
NOISE = os.urandom(12 * BLOCK)

Answer = tuple[int, Mapping[str, str], bytes]


class Server:
    """A session as Google documents it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.data = b""
        self.keeps: list[int] = []
        self.loses: list[bool] = []
        self.made: bytes | None = None
        self.requests = 0
        self.sent = 0

    def send(self, headers: Mapping[str, str], data: bytes) -> Answer:
        span, _, total = headers["Content-Range"].removeprefix("bytes ").partition("/")
        assert int(total) == self.total
        self.requests += 1
        self.sent += len(data)
        if self.made is None:
            self.take(span, data)
            if len(self.data) == self.total:
                value = google_crc32c.value(self.data)
                assert headers["X-Goog-Hash"] == f"crc32c={crc32c(value)}"
                self.made = self.data
        if self.loses and self.loses.pop():
            raise ConnectionResetError
        if self.made is not None:
            return 200, {}, json.dumps({"size": str(len(self.made))}).encode()
        last = {"Range": f"bytes=0-{len(self.data) - 1}"} if self.data else {}
        return 308, last, b""

    def take(self, span: str, data: bytes) -> None:
        start, _, end = span.partition("-")
        assert int(end) - int(start) + 1 == len(data) > 0
        assert int(start) <= len(self.data)
        assert int(end) + 1 == self.total or len(data) % BLOCK == 0
        data = data[len(self.data) - int(start) :]
        blocks = len(data) // BLOCK
        if self.keeps and blocks > 1:
            data = data[: min(blocks, self.keeps.pop()) * BLOCK]
        self.data += data


@given(
    size=st.integers(1, len(NOISE)),
    part=st.integers(4, 12),
    keeps=st.lists(st.integers(1, 8), max_size=8),
    loses=st.lists(st.booleans(), max_size=8),
)
def test_what_is_kept_or_lost_makes_no_difference(
    size: int, part: int, keeps: list[int], loses: list[bool]
) -> None:
    server = Server(size)
    server.keeps, server.loses = keeps, loses
    session = Session()
    content = NOISE[:size]
    for start in range(0, size, part * BLOCK):
        data = content[start : start + part * BLOCK]
        until_done(session.add, data, size, server.send)
        assert server.made is None
    until_done(session.finish, server.send)
    assert server.made == content


def until_done(call: Callable[..., None], *args: object) -> None:
    """Call again as often as the store does, and more."""
    for _ in range(50):
        try:
            call(*args)
        except (ConnectionResetError, SessionError):
            continue
        return
    raise AssertionError("never done")


def test_each_part_and_the_end_is_one_request() -> None:
    server, session = Server(9 * BLOCK), Session()
    for start in range(0, server.total, 3 * BLOCK):
        data = NOISE[start : start + 3 * BLOCK]
        session.add(data, server.total, server.send)
        assert len(server.data) == start + 2 * BLOCK  # one is kept for the end
    session.finish(server.send)
    assert server.requests == 4
    assert server.made == NOISE[: 9 * BLOCK]


def test_a_server_that_keeps_a_block_of_each_request_gets_the_object() -> None:
    server, session = Server(len(NOISE)), Session()
    server.keeps = [1] * 500
    for start in range(0, len(NOISE), 12 * BLOCK):
        data = NOISE[start : start + 12 * BLOCK]
        session.add(data, server.total, server.send)
        assert len(session.left) == BLOCK  # what waits does not grow
    session.finish(server.send)
    assert server.made == NOISE
    assert server.sent < 4 * len(NOISE)


def test_a_part_that_was_kept_half_is_gone_on_with_there() -> None:
    server, session = Server(len(NOISE)), Session()
    server.keeps, server.loses = [1, 2], [True, False]
    with pytest.raises(ConnectionResetError):
        session.add(NOISE, server.total, server.send)
    session.add(NOISE, server.total, server.send)
    session.finish(server.send)
    assert server.made == NOISE


def test_a_server_that_keeps_nothing_is_an_error() -> None:
    with pytest.raises(SessionError, match="at 0 of"):
        Session().add(NOISE, len(NOISE), lambda *_: (308, {}, b""))


def test_an_upload_is_done_when_the_server_has_made_the_object() -> None:
    server, session = Server(len(NOISE)), Session()
    session.add(NOISE, len(NOISE), server.send)
    kept = {"Range": f"bytes=0-{len(NOISE) - 1}"}
    for _ in range(2):
        with pytest.raises(SessionError, match="no object was created"):
            session.finish(lambda *_: (308, kept, b""))
    session.finish(server.send)
    assert server.made == NOISE


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        (200, {}, b'{"size": "%d"}' % len(NOISE)),
        (308, {"Range": f"bytes=0-{len(NOISE) - 2}"}, b""),
        (308, {"Range": f"bytes=0-{len(NOISE) - 1}"}, b""),
        (308, {"Range": f"bytes=0-{len(NOISE)}"}, b""),
        (308, {"Range": f"bytes={BLOCK}-{2 * BLOCK - 1}"}, b""),
        (308, {"Range": "bytes=0-x"}, b""),
        (308, {"Range": "7"}, b""),
    ],
)
def test_bytes_that_were_never_sent_cannot_be_kept(
    status: int, headers: Mapping[str, str], content: bytes
) -> None:
    server, session = Server(len(NOISE)), Session()
    with pytest.raises(SessionError):
        session.add(NOISE, len(NOISE), lambda *_: (status, headers, content))
    session.add(NOISE, len(NOISE), server.send)
    session.finish(server.send)
    assert server.made == NOISE


def test_an_object_of_another_size_is_an_error() -> None:
    server, session = Server(len(NOISE)), Session()
    session.add(NOISE, len(NOISE), server.send)
    with pytest.raises(SessionError, match="has 7 of"):
        session.finish(lambda *_: (200, {}, b'{"size": "7"}'))


def test_an_invalid_answer_is_an_error() -> None:
    with pytest.raises(SessionError, match="307"):
        Session().add(NOISE, len(NOISE), lambda *_: (307, {}, b""))


def test_checksums_are_written_as_google_does() -> None:
    assert crc32c(google_crc32c.value(b"hello")) == "mnG7TA=="
