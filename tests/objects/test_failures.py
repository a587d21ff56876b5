import errno
import json
import ssl
from types import SimpleNamespace
from zipfile import BadZipFile

import aiohttp
import asyncssh
import pytest
import requests
from azure.core.exceptions import DeserializationError
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageFullError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects.errors_map import failure_class, is_ambiguous, links, retry_after


class ResponseError(Exception):
    """Carries its status as botocore's ClientError does."""

    def __init__(self, status: object) -> None:
        super().__init__("reported by the server")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class StatusError(Exception):
    """Carries its status as aiohttp's errors do."""

    def __init__(self, status: object) -> None:
        super().__init__("reported by the server")
        self.status = status


class StatusCodeError(Exception):
    """Carries its status as Azure's errors do."""

    def __init__(self, status: object) -> None:
        super().__init__("reported by the server")
        self.status_code = status


class NoCredentialsError(Exception):
    """Named as botocore's."""


class ClientConnectionError(Exception):
    """Named as aiohttp's."""


class ClientConnectorError(ClientConnectionError, OSError):
    """Inherits as aiohttp's does."""


class ParamValidationError(Exception):
    """Named as botocore's."""


class ClientAuthenticationError(Exception):
    """Named as Azure's."""


class OurOwnCredentialsError(ClientAuthenticationError):
    """Inherits from one that is known by its name."""


def caused(error: Exception, *, by: Exception) -> Exception:
    """Return the error as ``raise error from by`` makes it."""
    error.__cause__ = by
    return error


BY_STATUS = [
    (400, InvalidArgumentError),
    (401, PermissionDeniedError),
    (403, PermissionDeniedError),
    (404, NotFoundError),
    (405, UnsupportedOperationError),
    (408, StorageUnavailableError),
    (409, StorageUnavailableError),
    (412, AlreadyExistsError),
    (414, InvalidArgumentError),
    (416, CorruptObjectError),
    (429, StorageUnavailableError),
    (500, StorageUnavailableError),
    (501, UnsupportedOperationError),
    (503, StorageUnavailableError),
    (507, StorageFullError),
    (599, StorageUnavailableError),
]


@pytest.mark.parametrize("kind", [ResponseError, StatusError, StatusCodeError])
@pytest.mark.parametrize(("status", "ours"), BY_STATUS)
def test_a_status_decides(
    kind: type[ResponseError] | type[StatusError] | type[StatusCodeError],
    status: int,
    ours: type[TieredFSError],
) -> None:
    assert failure_class(kind(status)) is ours


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (FileNotFoundError(), NotFoundError),
        (NotADirectoryError(), NotFoundError),
        (IsADirectoryError(), NotFoundError),
        (FileExistsError(), AlreadyExistsError),
        (PermissionError(), PermissionDeniedError),
        (OSError(errno.EACCES, "no"), PermissionDeniedError),
        (OSError(errno.EIO, "no"), StorageUnavailableError),
        (OSError(errno.EBUSY, "no"), StorageUnavailableError),
        (OSError("Failure"), StorageUnavailableError),
        (ConnectionResetError(), StorageUnavailableError),
        (TimeoutError(), StorageUnavailableError),
        (OSError(errno.EROFS, "no"), PermissionDeniedError),
        (OSError(errno.ENAMETOOLONG, "no"), InvalidArgumentError),
        (OSError(errno.EINVAL, "no"), InvalidArgumentError),
        (OSError(errno.ELOOP, "no"), InvalidArgumentError),
        (OSError(errno.ENOSPC, "no"), StorageFullError),
        (OSError(errno.EDQUOT, "no"), StorageFullError),
        (OSError(errno.EFBIG, "no"), UnsupportedOperationError),
        (OSError(errno.ENOTSUP, "no"), UnsupportedOperationError),
        (NotImplementedError(), UnsupportedOperationError),
        (ParamValidationError(), InvalidArgumentError),
        (NoCredentialsError(), PermissionDeniedError),
        (ClientAuthenticationError(), PermissionDeniedError),
        (OurOwnCredentialsError(), PermissionDeniedError),
        (RuntimeError("whatever"), StorageUnavailableError),
    ],
    ids=repr,
)
def test_without_a_status_the_class_decides(
    error: Exception, ours: type[TieredFSError]
) -> None:
    assert failure_class(error) is ours


def answered(status: int) -> requests.HTTPError:
    """Return what requests makes of an answer."""
    response = requests.Response()
    response.status_code = status
    response.headers["Retry-After"] = "7"
    return requests.HTTPError(f"{status} for url", response=response)


def responded(status: int) -> aiohttp.ClientResponseError:
    """Return what aiohttp makes of an answer."""
    url = URL("http://host/x")
    asked = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    headers = CIMultiDictProxy(CIMultiDict({"Retry-After": "7"}))
    return aiohttp.ClientResponseError(asked, (), status=status, headers=headers)


class AuthenticationException(Exception):  # noqa: N818 - as paramiko calls it
    """Named as paramiko's."""


class NoValidConnectionsError(OSError):
    """Named, and inherits, as paramiko's."""


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (asyncssh.SFTPNoSuchFile("x"), NotFoundError),
        (asyncssh.SFTPNoSuchPath("x"), NotFoundError),
        (asyncssh.SFTPPermissionDenied("x"), PermissionDeniedError),
        (asyncssh.SFTPWriteProtect("x"), PermissionDeniedError),
        (asyncssh.SFTPFileAlreadyExists("x"), AlreadyExistsError),
        (asyncssh.SFTPInvalidFilename("x"), InvalidArgumentError),
        (asyncssh.SFTPOpUnsupported("x"), UnsupportedOperationError),
        (asyncssh.SFTPFailure("x"), StorageUnavailableError),
        (asyncssh.SFTPConnectionLost("x"), StorageUnavailableError),
        (asyncssh.SFTPNoSpaceOnFilesystem("x"), StorageFullError),
        (asyncssh.SFTPQuotaExceeded("x"), StorageFullError),
        (asyncssh.PermissionDenied("x"), PermissionDeniedError),
        (asyncssh.HostKeyNotVerifiable("x"), PermissionDeniedError),
        (asyncssh.ConnectionLost("x"), StorageUnavailableError),
        (asyncssh.ChannelOpenError(1, "x"), StorageUnavailableError),
        (asyncssh.KeyExchangeFailed("x"), StorageUnavailableError),
        (AuthenticationException(), PermissionDeniedError),
        (NoValidConnectionsError(), StorageUnavailableError),
        (requests.ConnectionError(), StorageUnavailableError),
        (requests.ReadTimeout(), StorageUnavailableError),
        (requests.exceptions.ChunkedEncodingError(), StorageUnavailableError),
        (requests.exceptions.InvalidURL(), InvalidArgumentError),
        (answered(403), PermissionDeniedError),
        (answered(404), NotFoundError),
        (answered(503), StorageUnavailableError),
        (aiohttp.ClientPayloadError(), StorageUnavailableError),
        (aiohttp.ServerDisconnectedError(), StorageUnavailableError),
        (aiohttp.ServerTimeoutError(), StorageUnavailableError),
        (aiohttp.InvalidURL("x"), InvalidArgumentError),
        (responded(401), PermissionDeniedError),
        (responded(416), CorruptObjectError),
        (responded(429), StorageUnavailableError),
        (BadZipFile(), CorruptObjectError),
    ],
    ids=repr,
)
def test_what_clients_raise_is_known_by_its_name(
    error: Exception, ours: type[TieredFSError]
) -> None:
    assert failure_class(error) is ours


@pytest.mark.parametrize("error", [answered(503), responded(503)], ids=repr)
def test_a_wait_that_is_asked_for_is_heard_from_every_client(error: Exception) -> None:
    assert retry_after(error) == 7


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        AttributeError(),
        KeyError(),
        IndexError(),
        NameError(),
        ValueError(),
        ZeroDivisionError(),
        RecursionError(),
        MemoryError(),
    ],
    ids=repr,
)
def test_a_mistake_in_the_code_is_seen_as_it_is(error: Exception) -> None:
    assert failure_class(error) is None


@pytest.mark.parametrize(
    "error",
    [
        json.JSONDecodeError("x", "<html>", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
        DeserializationError("x"),
        ssl.SSLCertVerificationError("x"),
    ],
    ids=repr,
)
def test_a_body_that_is_not_the_services_is_not_taken_for_a_bug(
    error: Exception,
) -> None:
    assert isinstance(error, ValueError)
    assert failure_class(error) is StorageUnavailableError


def test_the_code_of_s3_counts_and_not_the_errno_of_its_client() -> None:
    for status, ours in ((412, AlreadyExistsError), (503, StorageUnavailableError)):
        error = caused(
            OSError(errno.EINVAL, "reported by S3"), by=ResponseError(status)
        )
        assert failure_class(error) is ours


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.booleans())
def test_a_ring_of_causes_is_gone_round_once(below: list[int], is_hidden: bool) -> None:
    """Each error is below the one of that number, or of the next one that there is."""
    errors = [OSError(errno.EIO, f"{number}") for number in range(len(below))]
    for error, number in zip(errors, below, strict=True):
        error.__context__ = errors[number % len(errors)]
        error.__cause__ = error.__context__
        error.__suppress_context__ = is_hidden
    shown = list(links(errors[0]))
    assert shown[0] is errors[0]
    assert len(shown) == len(set(map(id, shown)))
    assert failure_class(errors[0]) is StorageUnavailableError
    assert retry_after(errors[0]) == 0
    assert is_ambiguous(errors[0])


def test_a_status_further_down_the_chain_decides() -> None:
    error = caused(OSError(errno.EIO, "translated"), by=ResponseError(403))
    assert failure_class(error) is PermissionDeniedError


def test_a_code_decides_before_the_status() -> None:
    error = StatusCodeError(409)
    assert failure_class(error) is StorageUnavailableError
    headers = {"x-ms-error-code": "BlobAlreadyExists"}
    error.response = SimpleNamespace(headers=headers)  # type: ignore[attr-defined] # as Azure's errors have it
    assert failure_class(error) is AlreadyExistsError
    headers["x-ms-error-code"] = "SomethingNew"
    assert failure_class(error) is StorageUnavailableError


def test_a_mistake_that_came_of_an_answer_is_the_answer() -> None:
    error = caused(TypeError(), by=StatusError(503))
    assert failure_class(error) is StorageUnavailableError


@pytest.mark.parametrize("status", [None, "404", 200, 0, True])
@pytest.mark.parametrize("kind", [ResponseError, StatusError, StatusCodeError])
def test_a_value_that_is_not_an_error_status_is_ignored(
    kind: type[ResponseError], status: object
) -> None:
    assert failure_class(kind(status)) is StorageUnavailableError
    error = caused(FileNotFoundError(), by=kind(status))
    assert failure_class(error) is NotFoundError


@pytest.mark.parametrize(
    "cause",
    [ClientConnectorError(), ConnectionRefusedError(), TimeoutError()],
    ids=repr,
)
def test_not_found_for_want_of_a_connection_is_unavailable(cause: Exception) -> None:
    error = caused(FileNotFoundError("http://host/x"), by=cause)
    assert failure_class(error) is StorageUnavailableError


def test_a_refusal_is_not_ambiguous_and_other_failures_are() -> None:
    for status in (409, 412, 429):
        assert not is_ambiguous(ResponseError(status))
        assert not is_ambiguous(caused(OSError("translated"), by=ResponseError(status)))
    for error in (*map(ResponseError, (500, 503, 504)), ConnectionResetError()):
        assert is_ambiguous(error)
