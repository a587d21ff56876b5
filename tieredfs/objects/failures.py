"""What a backend's client raises → what tieredfs raises.

Most clients raise something that is no OSError, and importing a client to name its
errors would make every client a dependency; so errors are known by their builtin
class, by the names of their classes and by the HTTP status they carry.
"""

from collections.abc import Iterator

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)

__all__ = ["failure_class"]

_BY_STATUS: dict[int, type[TieredFSError]] = {
    401: PermissionDeniedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: StorageUnavailableError,
    409: StorageUnavailableError,
    412: AlreadyExistsError,
    416: CorruptObjectError,
    429: StorageUnavailableError,
}
_FIRST_SERVER_ERROR = 500

_BY_NAME: dict[str, type[TieredFSError]] = {
    "NoCredentialsError": PermissionDeniedError,
    "PartialCredentialsError": PermissionDeniedError,
    "CredentialRetrievalError": PermissionDeniedError,
    "ClientAuthenticationError": PermissionDeniedError,
}

_BY_BUILTIN: tuple[tuple[type[Exception], type[TieredFSError]], ...] = (
    (FileNotFoundError, NotFoundError),
    (NotADirectoryError, NotFoundError),
    (IsADirectoryError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
    (PermissionError, PermissionDeniedError),
)

_OURS_TO_FIX = (TypeError, AttributeError, LookupError, AssertionError, NameError)


def failure_class(error: Exception) -> type[TieredFSError] | None:
    """Return the class that ``error`` of a client becomes.

    Returns:
        None when ``error`` shows a mistake in the code rather than in the store, and
        has to be seen as it is.
    """
    for link in _chain(error):
        known = _known(link)
        if known is not None:
            return known
    for builtin, ours in _BY_BUILTIN:
        if isinstance(error, builtin):
            return ours
    return None if isinstance(error, _OURS_TO_FIX) else StorageUnavailableError


def _known(error: BaseException) -> type[TieredFSError] | None:
    """Return what an error is by the status it carries or the name of its class."""
    status = _status(error)
    if status is not None and status >= _FIRST_SERVER_ERROR:
        return StorageUnavailableError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    names = (base.__name__ for base in type(error).__mro__)
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, the outermost first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error of a client carries."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(error, "status_code", getattr(error, "status", None))
    return status if isinstance(status, int) else None
