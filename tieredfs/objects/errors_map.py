"""Map what a backend's client raises to what tieredfs raises.

Most clients raise errors that are not OSErrors, and importing a client to name its
errors would make every client a dependency. So errors are recognised by their builtin
class, by the names of their classes, and by the HTTP status, code and errno they carry.
"""

import errno
from collections.abc import Callable, Iterator, Mapping

from tieredfs.errors import (
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

__all__ = [
    "failure_class",
    "is_ambiguous",
    "is_container_missing",
    "links",
    "retry_after",
    "text_of",
]

_BY_STATUS: dict[int, type[TieredFSError]] = {
    400: InvalidArgumentError,
    401: PermissionDeniedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: StorageUnavailableError,
    409: StorageUnavailableError,
    405: UnsupportedOperationError,
    412: AlreadyExistsError,
    414: InvalidArgumentError,
    416: CorruptObjectError,
    429: StorageUnavailableError,
    501: UnsupportedOperationError,
    507: StorageFullError,
}
_BY_CODE: dict[str, type[TieredFSError]] = {
    # Caused by the network or a clock, not the caller, though S3 and Azure answer 400.
    "BadDigest": StorageUnavailableError,
    "Crc64Mismatch": StorageUnavailableError,
    "IncompleteBody": StorageUnavailableError,
    "Md5Mismatch": StorageUnavailableError,
    "RequestTimeout": StorageUnavailableError,
    "XAmzContentChecksumMismatch": StorageUnavailableError,
    "XAmzContentSHA256Mismatch": StorageUnavailableError,
    # S3's, which are more specific than its 400 and 403.
    "AuthorizationHeaderMalformed": PermissionDeniedError,
    "ExpiredToken": PermissionDeniedError,
    "InvalidObjectState": UnsupportedOperationError,
    "InvalidToken": PermissionDeniedError,
    "QuotaExceeded": StorageFullError,  # Ceph's, with a 403
    "TokenRefreshRequired": PermissionDeniedError,
    # Azure's, which are more specific than its 400, 409 and 412.
    "BlobAlreadyExists": AlreadyExistsError,
    "BlobArchived": UnsupportedOperationError,
    "BlobBeingRehydrated": UnsupportedOperationError,
    "BlobImmutableDueToPolicy": PermissionDeniedError,
    "InvalidAuthenticationInfo": PermissionDeniedError,
    "InvalidBlobType": UnsupportedOperationError,
    "InvalidResourceName": InvalidArgumentError,
    "InvalidUri": InvalidArgumentError,
    "LeaseIdMissing": StorageUnavailableError,
    "OutOfRangeInput": InvalidArgumentError,
    "SnapshotsPresent": UnsupportedOperationError,
}
_NO_CONTAINER = frozenset({"ContainerNotFound", "FilesystemNotFound", "NoSuchBucket"})
_NO_BUCKET = "bucket does not exist"  # Google's, which has no code for it
_FIRST_SERVER_ERROR = 500
_STATUSES = range(100, 600)
_STATUS_NAMES = ("status_code", "status", "code")  # Azure's, aiohttp's, gcsfs's
_REFUSALS = frozenset({409, 412, 429})  # not 503: gateways send it for a lost reply
# Not botocore's EndpointConnectionError: it may be a lost connection as well.
_NEVER_SENT = frozenset(
    {
        "AbandonedCallsError",
        "ClientConnectorError",
        "ConnectionRefusedError",
        "EarlierWriteError",
        "StaleTokenError",
        "TokenServerError",
        "TransportError",
    }
)

_BY_NAME: dict[str, type[TieredFSError]] = {
    "NoCredentialsError": PermissionDeniedError,
    "PartialCredentialsError": PermissionDeniedError,
    "CredentialRetrievalError": PermissionDeniedError,
    "ClientAuthenticationError": PermissionDeniedError,
    "TokenServerError": StorageUnavailableError,
    "TransportError": StorageUnavailableError,  # google-auth's, like the one above
    "GoogleAuthError": PermissionDeniedError,
    "BadRequestError": InvalidArgumentError,
    "DamagedError": StorageUnavailableError,
    "HttpProcessingError": StorageUnavailableError,  # aiohttp's
    "ParamValidationError": InvalidArgumentError,
    "OptionError": InvalidArgumentError,
    # botocore's own configuration: a missing profile or region, a file that cannot be
    # parsed. No request was made, and a repeated call would not make one either.
    "ConfigNotFound": InvalidArgumentError,
    "ConfigParseError": InvalidArgumentError,
    "InfiniteLoopConfigError": InvalidArgumentError,
    "InvalidConfigError": InvalidArgumentError,
    "InvalidRegionError": InvalidArgumentError,
    "NoRegionError": InvalidArgumentError,
    "ProfileNotFound": InvalidArgumentError,
    "UnknownCredentialError": InvalidArgumentError,
    "NoAuthTokenError": PermissionDeniedError,
    "SSOError": PermissionDeniedError,
    "TokenRetrievalError": PermissionDeniedError,
    "BadZipFile": CorruptObjectError,
    "InvalidURL": InvalidArgumentError,  # of aiohttp and of requests
    # asyncssh's; below them paramiko's, which chains of URLs may bring
    "PermissionDenied": PermissionDeniedError,
    "HostKeyNotVerifiable": PermissionDeniedError,
    "SFTPNoSuchFile": NotFoundError,
    "SFTPNoSuchPath": NotFoundError,
    "SFTPPermissionDenied": PermissionDeniedError,
    "SFTPWriteProtect": PermissionDeniedError,
    "SFTPNoSpaceOnFilesystem": StorageFullError,
    "SFTPQuotaExceeded": StorageFullError,
    "SFTPFileAlreadyExists": AlreadyExistsError,
    "SFTPInvalidFilename": InvalidArgumentError,
    "SFTPOpUnsupported": UnsupportedOperationError,
    "QuotaExceededError": StorageFullError,
    "AuthenticationException": PermissionDeniedError,
    "BadHostKeyException": PermissionDeniedError,
    # fsspec's HTTP filesystem reports an unreachable server as "not found".
    "ClientConnectionError": StorageUnavailableError,
    "ConnectionError": StorageUnavailableError,
    "TimeoutError": StorageUnavailableError,
    # The body was not an answer of the service; each is a ValueError.
    "DeserializationError": StorageUnavailableError,  # Azure's
    "JSONDecodeError": StorageUnavailableError,
    "UnicodeDecodeError": StorageUnavailableError,
}

_BY_ERRNO: dict[int, type[TieredFSError]] = {
    errno.EDQUOT: StorageFullError,
    errno.EFBIG: UnsupportedOperationError,
    errno.EINVAL: InvalidArgumentError,
    errno.ELOOP: InvalidArgumentError,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ENOSPC: StorageFullError,
    errno.ENOSYS: UnsupportedOperationError,
    errno.ENOTSUP: UnsupportedOperationError,
    errno.EROFS: PermissionDeniedError,
    errno.EXDEV: UnsupportedOperationError,
}
"""Errors of a disk that another attempt does not change."""

_BY_BUILTIN: tuple[tuple[type[Exception], type[TieredFSError]], ...] = (
    (FileNotFoundError, NotFoundError),
    (NotADirectoryError, NotFoundError),
    (IsADirectoryError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
    (PermissionError, PermissionDeniedError),
    (NotImplementedError, UnsupportedOperationError),
    (UnicodeError, InvalidArgumentError),  # a key or host that cannot be encoded
    (OSError, StorageUnavailableError),  # that of a certificate is a ValueError as well
)

_RAISED_UNCHANGED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
    Warning,  # the application turns warnings into errors
)


def failure_class(error: Exception) -> type[TieredFSError] | None:
    """Return the class that a client's ``error`` is mapped to.

    Returns:
        None when ``error`` is a bug, or a lack of memory, rather than a failure of the
        store, and has to be raised unchanged.
    """
    for link in _causes(error):
        known = _known(link)
        if known is not None:
            return known
    # After all of these: s3fs turns every error of S3 into EINVAL.
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    for builtin, ours in _BY_BUILTIN:
        if isinstance(error, builtin):
            return ours
    return None if isinstance(error, _RAISED_UNCHANGED) else StorageUnavailableError


def is_ambiguous(error: Exception) -> bool:
    """Return whether the server may have performed the request despite ``error``.

    True after a lost connection, for example; false when the server refused the
    request, or was never reached.
    """
    if failure_class(error) is not StorageUnavailableError:
        return False
    return not any(
        _status(link) in _REFUSALS or type(link).__name__ in _NEVER_SENT
        for link in _causes(error)
    )


def is_container_missing(error: BaseException) -> bool:
    """Return whether a server reports that the bucket or container does not exist."""
    return any(
        _code(link) in _NO_CONTAINER or _NO_BUCKET in text_of(link)
        for link in _causes(error)
    )


def retry_after(error: BaseException) -> float:
    """Return the seconds a server asks to wait before the next attempt; 0 if none.

    Only a number of seconds is understood, which is what object stores send.
    """
    for link in _causes(error):
        text = str(_header(link, "retry-after") or "")
        if text.isdecimal():
            return float(text)
    return 0.0


def links(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all others that its traceback shows, outermost first."""
    return _chain(error, _shown_below)


def text_of(error: BaseException) -> str:
    """Return an error's class and message; the class alone if printing it fails."""
    kind = type(error).__name__
    try:
        message = str(error).strip()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - its __str__ may do anything
        message = ""
    return f"{kind}: {message}" if message else kind


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors it was raised from, outermost first."""
    return _chain(error, lambda link: link.__cause__)


def _shown_below(error: BaseException) -> BaseException | None:
    hidden = error.__suppress_context__
    return error.__cause__ or (None if hidden else error.__context__)


def _chain(
    error: BaseException, following: Callable[[BaseException], BaseException | None]
) -> Iterator[BaseException]:
    """Yield an error and those that follow; stop at a cycle.

    An error object that two attempts raised is its own cause.
    """
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = following(link)


def _known(error: BaseException) -> type[TieredFSError] | None:
    """Return the class of an error by its code, its class name or its status."""
    code = _code(error)
    if code in _BY_CODE:
        return _BY_CODE[code]
    # Before the status: aiohttp reports a truncated answer as 400.
    names = (base.__name__ for base in type(error).__mro__)
    known = next((_BY_NAME[name] for name in names if name in _BY_NAME), None)
    if known is not None:
        return known
    status = _status(error)
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and status >= _FIRST_SERVER_ERROR:
        return StorageUnavailableError
    return None


def _code(error: BaseException) -> str:
    """Return S3's or Azure's code of an error; empty if it is from neither."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code", ""))
    return str(_header(error, "x-ms-error-code") or "")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error of a client carries."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        source = error if response is None else response  # requests' errors have one
        names = (name for name in _STATUS_NAMES if hasattr(source, name))
        status = getattr(source, next(names, ""), None)
    return status if isinstance(status, int) and status in _STATUSES else None


def _header(error: BaseException, name: str) -> object:
    """Return a header of the answer that an error of a client carries."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders")
    else:
        headers = getattr(response, "headers", getattr(error, "headers", None))
    return headers.get(name) if isinstance(headers, Mapping) else None
