"""What only S3 says."""

import pytest

from objects.watched import CALLS, Watched
from servers import ProxiedBucket
from tieredfs import (
    AlreadyExistsError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)

pytestmark = pytest.mark.parametrize("proxied", ["s3"], indirect=True)

ANSWERS = [
    (400, "AuthorizationHeaderMalformed", PermissionDeniedError),
    (400, "BadDigest", StorageUnavailableError),
    (400, "EntityTooLarge", InvalidArgumentError),
    (400, "ExpiredToken", PermissionDeniedError),
    (400, "IncompleteBody", StorageUnavailableError),
    (400, "InvalidArgument", InvalidArgumentError),
    (400, "InvalidBucketName", InvalidArgumentError),
    (400, "InvalidRequest", InvalidArgumentError),
    (400, "InvalidToken", PermissionDeniedError),
    (400, "KeyTooLongError", InvalidArgumentError),
    (400, "RequestTimeout", StorageUnavailableError),
    (400, "TokenRefreshRequired", PermissionDeniedError),
    (400, "XAmzContentSHA256Mismatch", StorageUnavailableError),
    (403, "AccessDenied", PermissionDeniedError),
    (403, "InvalidAccessKeyId", PermissionDeniedError),
    (403, "InvalidObjectState", UnsupportedOperationError),
    (403, "RequestTimeTooSkewed", PermissionDeniedError),
    (403, "SignatureDoesNotMatch", PermissionDeniedError),
    (404, "NoSuchBucket", NotFoundError),
    (405, "MethodNotAllowed", UnsupportedOperationError),
    (409, "ConditionalRequestConflict", StorageUnavailableError),
    (409, "OperationAborted", StorageUnavailableError),
    (412, "PreconditionFailed", AlreadyExistsError),
    (416, "InvalidRange", CorruptObjectError),
    (429, "TooManyRequests", StorageUnavailableError),
    (500, "InternalError", StorageUnavailableError),
    (501, "NotImplemented", UnsupportedOperationError),
    (503, "ServiceUnavailable", StorageUnavailableError),
    (503, "SlowDown", StorageUnavailableError),
]


@pytest.mark.parametrize(("status", "code", "ours"), ANSWERS)
def test_an_answer_is_mapped_to_an_error_of_ours(
    proxied: ProxiedBucket, status: int, code: str, ours: type[TieredFSError]
) -> None:
    watched = Watched(proxied, attempts=2)
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    headers = {"Content-Type": "application/xml"}
    watched.proxy.add(status=status, body=body, headers=headers)
    for verb in ("get", "get_range", "put", "copy", "list", "delete"):
        watched.events.clear()
        with pytest.raises(TieredFSError) as caught:
            CALLS[verb](watched.store)
        assert (verb, type(caught.value)) == (verb, ours)
        assert watched.events[0].attempts == 1 + ours.retryable
        assert watched.store.url in str(caught.value)


def test_an_answer_without_a_body_is_known_by_its_status(
    proxied: ProxiedBucket,
) -> None:
    watched = Watched(proxied)
    watched.proxy.add("HEAD", status=400)
    with pytest.raises(InvalidArgumentError, match="key"):
        watched.store.head("key")
    assert watched.events.requests == 1  # the client asks for the region besides
