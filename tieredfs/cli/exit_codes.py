"""The exit code of each kind of error; the codes are stable."""

from collections.abc import Iterable
from typing import Final

from tieredfs.errors import AlreadyExistsError, ErrorKind, TieredFSError

__all__ = ["CORRUPT", "EXIT_CODES", "INTERRUPTED", "OTHER", "PERMISSION", "worst_code"]

USAGE, NOT_FOUND, CORRUPT, UNAVAILABLE, PERMISSION = 2, 3, 4, 5, 6
OTHER, INTERRUPTED = 1, 130

EXIT_CODES: Final[dict[ErrorKind, int]] = {
    ErrorKind.ERROR: OTHER,
    ErrorKind.NOT_FOUND: NOT_FOUND,
    ErrorKind.OFFSET_OUT_OF_RANGE: NOT_FOUND,
    ErrorKind.ALREADY_EXISTS: OTHER,
    ErrorKind.PERMISSION_DENIED: PERMISSION,
    ErrorKind.INVALID_ARGUMENT: USAGE,
    ErrorKind.CORRUPT_DATA: CORRUPT,
    ErrorKind.CORRUPT_INDEX: CORRUPT,
    ErrorKind.CORRUPT_BATCH: CORRUPT,
    ErrorKind.CORRUPT_OBJECT: CORRUPT,
    ErrorKind.UNSUPPORTED_FORMAT: CORRUPT,
    ErrorKind.UNSUPPORTED_OPERATION: USAGE,
    ErrorKind.STORAGE_UNAVAILABLE: UNAVAILABLE,
    ErrorKind.STORAGE_FULL: OTHER,
    ErrorKind.DEADLINE_EXCEEDED: UNAVAILABLE,
    ErrorKind.FENCED: UNAVAILABLE,
    ErrorKind.CLOSED: OTHER,
    ErrorKind.INVALID_TRANSITION: OTHER,
    ErrorKind.PLUGIN: USAGE,
    ErrorKind.UNKNOWN_PLUGIN: USAGE,
    ErrorKind.PLUGIN_NOT_INSTALLED: USAGE,
}
"""The exit code of each kind of error; stable."""

_MAX_SERIOUS_FIRST: Final = (CORRUPT, PERMISSION, USAGE, UNAVAILABLE)


def worst_code(errors: Iterable[TieredFSError]) -> int:
    """Return the exit code of the most serious of one or more errors.

    Corrupt data and another log in a log's place come first; then missing permissions,
    invalid requests, and errors that may succeed on a retry.
    """
    codes = {
        CORRUPT if isinstance(error, AlreadyExistsError) else EXIT_CODES[error.kind]
        for error in errors
    }
    return next((code for code in _MAX_SERIOUS_FIRST if code in codes), max(codes))
