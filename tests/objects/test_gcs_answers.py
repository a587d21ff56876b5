"""What Google Cloud Storage says when something failed, and of many deletions."""

import json

import aiohttp
import pytest
from google.auth.exceptions import (
    DefaultCredentialsError,
    RefreshError,
    TransportError,
)

from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.objects.backends.gcs.bodies import answers, deletions
from tieredfs.objects.backends.gcs.errors_map import (
    StaleTokenError,
    TokenServerError,
    failure,
)
from tieredfs.objects.errors_map import failure_class, is_ambiguous, retry_after


def body(code: int, message: str, reason: str) -> bytes:
    """Return an error's body, as Google's JSON interface writes it."""
    error = {"domain": "global", "reason": reason, "message": message}
    return json.dumps(
        {"error": {"code": code, "message": message, "errors": [error]}}
    ).encode()


REAL = [
    (
        400,
        body(400, "The name of the object is too long.", "invalid"),
        InvalidArgumentError,
    ),
    (
        400,
        body(
            400,
            'Provided CRC32C "AAAAAA==" doesn\'t match calculated CRC32C "mnG7TA==".',
            "invalid",
        ),
        StorageUnavailableError,
    ),
    (401, body(401, "Invalid Credentials", "authError"), PermissionDeniedError),
    (
        403,
        body(403, "x does not have storage.objects.get", "forbidden"),
        PermissionDeniedError,
    ),
    (403, body(403, "Rate limit", "rateLimitExceeded"), StorageUnavailableError),
    (403, body(403, "Rate limit", "userRateLimitExceeded"), StorageUnavailableError),
    (404, body(404, "The specified bucket does not exist.", "notFound"), NotFoundError),
    (404, b"No such object: bucket/name", NotFoundError),
    (408, b"", StorageUnavailableError),
    (410, body(410, "gone", "gone"), StorageUnavailableError),
    (429, body(429, "slow down", "rateLimitExceeded"), StorageUnavailableError),
    (500, b"<html><body>sorry</body></html>", StorageUnavailableError),
    (503, b"\xff{", StorageUnavailableError),
]


@pytest.mark.parametrize(("status", "content", "ours"), REAL)
def test_an_answer_becomes_an_error_of_ours(
    status: int, content: bytes, ours: type[TieredFSError]
) -> None:
    assert failure_class(failure(status, {}, content)) is ours


CLIENTS: list[tuple[type[Exception], type[TieredFSError], bool]] = [
    (aiohttp.ClientPayloadError, StorageUnavailableError, True),
    (aiohttp.ServerDisconnectedError, StorageUnavailableError, True),
    (aiohttp.InvalidURL, InvalidArgumentError, False),
    (RefreshError, PermissionDeniedError, False),
    (DefaultCredentialsError, PermissionDeniedError, False),
    (TransportError, StorageUnavailableError, False),
    (TokenServerError, StorageUnavailableError, False),
    (StaleTokenError, StorageUnavailableError, False),
]


@pytest.mark.parametrize(("kind", "ours", "ambiguous"), CLIENTS)
def test_an_error_of_a_client_becomes_one_of_ours(
    kind: type[Exception], ours: type[TieredFSError], ambiguous: bool
) -> None:
    error = kind("said")
    assert failure_class(error) is ours
    assert is_ambiguous(error) is ambiguous


def test_an_error_contains_the_servers_message() -> None:
    said = failure(403, {}, body(403, "no, you may not", "forbidden"))
    assert str(said) == "403: no, you may not"
    assert str(failure(404, {}, b"No such object: a")) == "404: No such object: a"
    assert str(failure(502, {}, b"<html>")) == "502: Bad Gateway"
    assert str(failure(599, {}, b"")) == "599: "
    for odd in (b'{"error": "text"}', b'{"error": {"message": null}}', b"[]", b"5"):
        assert str(failure(400, {}, odd)).startswith("400: ")
    assert len(str(failure(500, {}, b"x" * 10_000))) < 400


@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_an_error_gives_the_time_to_retry(name: str) -> None:
    error = failure(429, {name: "7", "Authorization": "secret"}, b"")
    assert retry_after(error) == 7
    assert error.headers == {"retry-after": "7"}


def test_a_rate_limit_is_unambiguous() -> None:
    assert not is_ambiguous(failure(403, {}, body(403, "", "rateLimitExceeded")))


def part(number: int, status: str, content: bytes = b"") -> bytes:
    return (
        b"--cut\r\nContent-Type: application/http\r\n"
        b"Content-ID: <response-b29c5de2+%d>\r\n\r\n"
        b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n\r\n%s\r\n"
    ) % (number, status.encode(), content)


def read(*parts: bytes) -> dict[int, type[TieredFSError] | None]:
    """Return what becomes of each request."""
    found = answers("multipart/mixed; boundary=cut", b"".join([*parts, b"--cut--\r\n"]))
    return {
        number: None if error is None else failure_class(error)
        for number, error in found.items()
    }


def test_each_answer_is_of_its_request_in_any_order() -> None:
    found = read(
        part(2, "403 Forbidden", body(403, "no", "forbidden")),
        part(0, "204 No Content"),
        part(3, "503 Service Unavailable"),
        part(1, "404 Not Found", body(404, "no", "notFound")),
    )
    assert found == {
        0: None,
        1: None,
        2: PermissionDeniedError,
        3: StorageUnavailableError,
    }


def test_an_invalid_answer_is_omitted() -> None:
    assert read(part(0, "204 No Content"), part(1, "whatever")) == {0: None}
    assert answers("text/plain", b"no parts") == {}


def test_a_deletion_names_the_object_whatever_is_in_its_name() -> None:
    names = ["a b", "é/?#%+&", 'x"\r\n--cut']
    request = deletions("bucket", names, "userProject=p", "cut").decode()
    assert request.count("--cut\r\n") == 3
    lines = [line for line in request.split("\r\n") if line.startswith("DELETE")]
    assert lines == [
        f"DELETE /storage/v1/b/bucket/o/{name}?userProject=p HTTP/1.1"
        for name in ("a%20b", "%C3%A9%2F%3F%23%25%2B%26", "x%22%0D%0A--cut")
    ]
    assert "o/a HTTP/1.1" in deletions("bucket", ["a"], "", "cut").decode()
