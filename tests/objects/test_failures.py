import errno

import pytest

from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.objects.failures import failure_class


class ResponseError(Exception):
    """Carries its status as botocore's ClientError does."""

    def __init__(self, status: object) -> None:
        super().__init__("told by the server")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class StatusError(Exception):
    """Carries its status as aiohttp's errors do."""

    def __init__(self, status: object) -> None:
        super().__init__("told by the server")
        self.status = status


class StatusCodeError(Exception):
    """Carries its status as Azure's errors do."""

    def __init__(self, status: object) -> None:
        super().__init__("told by the server")
        self.status_code = status


class NoCredentialsError(Exception):
    """Named as botocore's."""


class ClientAuthenticationError(Exception):
    """Named as Azure's."""


class OurOwnCredentialsError(ClientAuthenticationError):
    """Inherits from one that is known by its name."""


BY_STATUS = [
    (400, StorageUnavailableError),
    (401, PermissionDeniedError),
    (403, PermissionDeniedError),
    (404, NotFoundError),
    (408, StorageUnavailableError),
    (409, StorageUnavailableError),
    (412, AlreadyExistsError),
    (416, CorruptObjectError),
    (429, StorageUnavailableError),
    (500, StorageUnavailableError),
    (501, StorageUnavailableError),
    (503, StorageUnavailableError),
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


@pytest.mark.parametrize(
    "error",
    [TypeError(), AttributeError(), KeyError(), IndexError(), NameError()],
    ids=repr,
)
def test_a_mistake_in_the_code_is_seen_as_it_is(error: Exception) -> None:
    assert failure_class(error) is None


def test_a_status_further_down_the_chain_decides() -> None:
    try:
        try:
            raise ResponseError(403)  # noqa: TRY301
        except ResponseError as inner:
            raise OSError(errno.EIO, "translated") from inner
    except OSError as outer:
        assert failure_class(outer) is PermissionDeniedError  # noqa: PT017


def test_a_mistake_that_came_of_an_answer_is_the_answer() -> None:
    try:
        try:
            raise StatusError(503)  # noqa: TRY301
        except StatusError as inner:
            raise TypeError from inner
    except TypeError as outer:
        assert failure_class(outer) is StorageUnavailableError  # noqa: PT017


@pytest.mark.parametrize("status", [None, "404", 200, 0, True])
@pytest.mark.parametrize("kind", [ResponseError, StatusError, StatusCodeError])
def test_what_is_no_status_of_an_error_decides_nothing(
    kind: type[ResponseError], status: object
) -> None:
    assert failure_class(kind(status)) is StorageUnavailableError
    try:
        raise FileNotFoundError from kind(status)  # noqa: TRY301
    except FileNotFoundError as error:
        assert failure_class(error) is NotFoundError  # noqa: PT017
