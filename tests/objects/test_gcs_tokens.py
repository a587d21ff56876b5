"""A token is asked for when it is needed, within the deadline, and never shown."""

import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gcsfs.credentials import GoogleCredentials

from objects.watched import Watched
from servers import ProxiedBucket
from support.deadlines import assert_all_end_by
from tieredfs import (
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageUnavailableError,
)

pytestmark = pytest.mark.parametrize("proxied", ["gcs"], indirect=True)

KEY = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    .decode()
)


class Tokens(ThreadingHTTPServer):
    """Gives tokens, as often as it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.given = 0
        self.status = 200
        self.open = threading.Event()
        self.open.set()

    @property
    def account(self) -> dict[str, str]:
        """Who asks for them."""
        return {
            "type": "service_account",
            "client_email": "me@example.iam.gserviceaccount.com",
            "private_key": KEY,
            "token_uri": f"http://127.0.0.1:{self.server_port}/token",
        }


class Handler(BaseHTTPRequestHandler):
    server: Tokens

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.open.wait(60)
        self.server.given += self.server.status == 200
        token = f"secret-token-{self.server.given}"
        answers: dict[int, dict[str, Any]] = {
            200: {"access_token": token, "expires_in": 3600, "token_type": "Bearer"},
            400: {"error": "invalid_grant", "error_description": "Invalid signature"},
        }
        content = json.dumps(answers.get(self.server.status, {})).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    server = Tokens()
    thread = threading.Thread(target=partial(server.serve_forever, 0.02))
    thread.start()
    yield server
    server.open.set()
    server.shutdown()
    thread.join()
    server.server_close()


def needing(proxied: ProxiedBucket, token: object, **policy: Any) -> Watched:  # noqa: ANN401 - a policy's fields
    """Return a store that needs a token."""
    return Watched(proxied, {"token": token}, **policy)


def test_one_token_serves_all_calls(proxied: ProxiedBucket, tokens: Tokens) -> None:
    place = needing(proxied, tokens.account)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: place.store.put(f"{n}", b"", overwrite=True), range(8)))
    assert len(list(place.store.list())) == 8
    assert tokens.given == 1


def test_nothing_is_asked_before_the_first_call(
    proxied: ProxiedBucket, tokens: Tokens
) -> None:
    place = needing(proxied, tokens.account)
    place.store._requests.backend("", "")
    assert tokens.given == 0
    assert proxied.proxy.requests() == []


def test_a_token_that_is_refused_early_is_renewed(
    proxied: ProxiedBucket, tokens: Tokens
) -> None:
    place = needing(proxied, tokens.account)
    place.proxy.add(status=401, times=1)
    place.store.put("a", b"1", overwrite=True)
    assert place.events[-1].attempts == 2
    assert tokens.given == 2
    place.proxy.add(status=401, times=1)  # the second is refused too
    with pytest.raises(PermissionDeniedError):
        place.store.get("a")
    assert tokens.given == 2


def test_a_token_that_cannot_be_renewed_is_denied_immediately(
    proxied: ProxiedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FETCH_RAW_TOKEN_EXPIRY", "false")  # by Google's own server
    place = needing(proxied, "secret-raw-token")
    place.store.put("a", b"1", overwrite=True)
    place.proxy.add(status=401)
    with pytest.raises(PermissionDeniedError) as caught:
        place.store.get("a")
    assert place.events[-1].attempts == 1
    assert "secret" not in str(caught.value)


def test_who_may_have_no_token_is_denied(
    proxied: ProxiedBucket, tokens: Tokens
) -> None:
    tokens.status = 400
    place = needing(proxied, tokens.account)
    with pytest.raises(PermissionDeniedError, match="invalid_grant") as caught:
        place.store.get("a")
    shown = f"{caught.value}{caught.value.__cause__}{pickle.dumps(caught.value)!r}"
    assert KEY[100:150] not in shown
    assert proxied.proxy.requests() == []


def test_a_server_of_tokens_that_is_not_there_is_unavailable(
    proxied: ProxiedBucket, tokens: Tokens
) -> None:
    account = tokens.account | {"token_uri": "http://127.0.0.1:9/token"}
    place = needing(proxied, account, attempts=1)
    with pytest.raises(StorageUnavailableError, match="get"):
        place.store.get("a")


def test_a_server_of_tokens_that_hangs_costs_no_more_than_the_deadline(
    proxied: ProxiedBucket, tokens: Tokens
) -> None:
    tokens.open.clear()
    place = needing(proxied, tokens.account, deadline=1.5)
    other = needing(proxied, "anon")
    hung = threading.Event()

    def hang() -> None:
        with pytest.raises(DeadlineExceededError):
            place.store.get("a")
        hung.set()

    def work() -> None:
        other.store.put("b", b"1", overwrite=True)  # on the same event loop
        assert not hung.is_set()

    assert_all_end_by(1.5, [hang, work])
    tokens.open.set()
    place.store.put("a", b"1", overwrite=True)


def test_a_search_for_credentials_goes_on_when_one_call_has_no_more_time_for_it(
    proxied: ProxiedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[object] = []
    found = threading.Event()

    def search(_: GoogleCredentials, method: object = None) -> None:
        searches.append(method)
        if method is None:
            found.wait(60)

    place = needing(proxied, None, deadline=0.5)
    monkeypatch.setattr(GoogleCredentials, "connect", search)
    try:
        for _ in range(2):
            with pytest.raises(DeadlineExceededError):
                place.store.get("a")
    finally:
        found.set()
    place.store.put("a", b"1", overwrite=True)
    assert searches.count(None) == 1


@pytest.mark.parametrize(
    "token", [{"type": "secret-type"}, 5, "/dev/null"], ids=["dict", "int", "file"]
)
def test_an_invalid_token_is_refused(proxied: ProxiedBucket, token: object) -> None:
    with pytest.raises(InvalidArgumentError, match="token"):
        needing(proxied, token).store.get("a")


def test_a_raw_token_is_not_shown_when_its_server_cannot_be_reached(
    proxied: ProxiedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    place = needing(proxied, "secret-raw-token", attempts=1)
    with pytest.raises(StorageUnavailableError) as caught:
        place.store.get("a")
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
