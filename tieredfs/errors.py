"""The errors that tieredfs raises, grouped by what a handler would do.

::

    TieredFSError
    ├── NotFoundError              (also FileNotFoundError)  ask for something else
    │   └── OffsetOutOfRangeError                            ask for another offset
    ├── AlreadyExistsError         (also FileExistsError)    use what exists
    ├── PermissionDeniedError      (also PermissionError)    fix the credentials
    ├── InvalidArgumentError       (also ValueError)         fix the call
    ├── CorruptDataError                                     the bytes are wrong
    │   ├── CorruptIndexError
    │   ├── CorruptBatchError
    │   └── CorruptObjectError
    ├── UnsupportedFormatError                               a newer reader is needed
    ├── UnsupportedOperationError                            use another layout or store
    ├── StorageUnavailableError                              try again: retryable
    ├── StorageFullError                                     make room
    ├── DeadlineExceededError      (also TimeoutError)       it took too long
    ├── FencedError                                          another is in charge
    ├── ClosedError                                          open it again
    ├── InvalidTransitionError                               a bug in the caller
    └── PluginError                                          fix the installation
        ├── UnknownPluginError
        └── PluginNotInstalledError

Every class has a stable ``kind``, and a ``retryable`` flag that is true when the same
call may succeed later. Messages name the store, the key and the range, never a secret.
Errors can be pickled, so that they keep their type across processes.
"""

from enum import StrEnum
from typing import ClassVar, Final

__all__ = [
    "SEGMENT_ERRORS",
    "AlreadyExistsError",
    "ClosedError",
    "CorruptBatchError",
    "CorruptDataError",
    "CorruptIndexError",
    "CorruptObjectError",
    "DeadlineExceededError",
    "ErrorKind",
    "FencedError",
    "InvalidArgumentError",
    "InvalidTransitionError",
    "NotFoundError",
    "OffsetOutOfRangeError",
    "PermissionDeniedError",
    "PluginError",
    "PluginNotInstalledError",
    "StorageFullError",
    "StorageUnavailableError",
    "TieredFSError",
    "TieredFSWarning",
    "UnknownPluginError",
    "UnsupportedFormatError",
    "UnsupportedOperationError",
]


class ErrorKind(StrEnum):
    """A stable name for each class of error; names are added, never changed."""

    ERROR = "error"
    NOT_FOUND = "not_found"
    OFFSET_OUT_OF_RANGE = "offset_out_of_range"
    ALREADY_EXISTS = "already_exists"
    PERMISSION_DENIED = "permission_denied"
    INVALID_ARGUMENT = "invalid_argument"
    CORRUPT_DATA = "corrupt_data"
    CORRUPT_INDEX = "corrupt_index"
    CORRUPT_BATCH = "corrupt_batch"
    CORRUPT_OBJECT = "corrupt_object"
    UNSUPPORTED_FORMAT = "unsupported_format"
    UNSUPPORTED_OPERATION = "unsupported_operation"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    STORAGE_FULL = "storage_full"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    FENCED = "fenced"
    CLOSED = "closed"
    INVALID_TRANSITION = "invalid_transition"
    PLUGIN = "plugin"
    UNKNOWN_PLUGIN = "unknown_plugin"
    PLUGIN_NOT_INSTALLED = "plugin_not_installed"


class TieredFSError(Exception):
    """Base class of all errors that tieredfs raises on purpose."""

    kind: ClassVar[ErrorKind] = ErrorKind.ERROR
    retryable: ClassVar[bool] = False
    keys: tuple[str, ...] = ()
    """Keys that a call with several keys did not process; empty for any other call."""
    offsets: tuple[int, int] | None = None
    """Offsets ``[start, end)`` of the segment that cannot be read, where a listing that
    surveys every segment knows them from its name."""


class TieredFSWarning(UserWarning):
    """A choice was made on the user's behalf that they may want to make themselves."""


class NotFoundError(TieredFSError, FileNotFoundError):
    """An object, topic, partition or index does not exist."""

    kind = ErrorKind.NOT_FOUND


class OffsetOutOfRangeError(NotFoundError):
    """An offset is outside the range of offsets that the log holds."""

    kind = ErrorKind.OFFSET_OUT_OF_RANGE


class AlreadyExistsError(TieredFSError, FileExistsError):
    """An object that was to be created exclusively already exists."""

    kind = ErrorKind.ALREADY_EXISTS


class PermissionDeniedError(TieredFSError, PermissionError):
    """The store refused the credentials, or there are none."""

    kind = ErrorKind.PERMISSION_DENIED


class InvalidArgumentError(TieredFSError, ValueError):
    """An argument is invalid, whatever the store holds."""

    kind = ErrorKind.INVALID_ARGUMENT


class CorruptDataError(TieredFSError):
    """Bytes contradict their format, their checksum or the data next to them."""

    kind = ErrorKind.CORRUPT_DATA


class CorruptIndexError(CorruptDataError):
    """An index, snapshot or checkpoint is malformed or inconsistent with its log."""

    kind = ErrorKind.CORRUPT_INDEX


class CorruptBatchError(CorruptDataError):
    """A record batch is malformed, fails its checksum or is out of place."""

    kind = ErrorKind.CORRUPT_BATCH


class CorruptObjectError(CorruptDataError):
    """A stored object is not of its stated length, or fails its checksum."""

    kind = ErrorKind.CORRUPT_OBJECT


class UnsupportedFormatError(TieredFSError):
    """The data has a version or type that this release cannot read."""

    kind = ErrorKind.UNSUPPORTED_FORMAT


class UnsupportedOperationError(TieredFSError):
    """The layout or the store does not support this operation."""

    kind = ErrorKind.UNSUPPORTED_OPERATION


class StorageUnavailableError(TieredFSError):
    """The store throttled, failed or was unreachable; a retry may succeed."""

    kind = ErrorKind.STORAGE_UNAVAILABLE
    retryable = True


class StorageFullError(TieredFSError):
    """The store has no space left for a write, or a quota is exhausted."""

    kind = ErrorKind.STORAGE_FULL


class DeadlineExceededError(TieredFSError, TimeoutError):
    """The deadline of a call passed before the call completed."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class FencedError(TieredFSError):
    """Another manager is in charge of a partition; this one has changed nothing."""

    kind = ErrorKind.FENCED


class ClosedError(TieredFSError):
    """The object was closed before this call."""

    kind = ErrorKind.CLOSED


class InvalidTransitionError(TieredFSError):
    """A segment cannot change from its current state to the requested one."""

    kind = ErrorKind.INVALID_TRANSITION


class PluginError(TieredFSError):
    """A plugin is broken, or two plugins make the same claim."""

    kind = ErrorKind.PLUGIN


class UnknownPluginError(PluginError):
    """No plugin has this name; the message lists the available plugins."""

    kind = ErrorKind.UNKNOWN_PLUGIN


class PluginNotInstalledError(PluginError):
    """A package is missing; the message is the ``pip install`` command to run."""

    kind = ErrorKind.PLUGIN_NOT_INSTALLED


SEGMENT_ERRORS: Final = (
    CorruptDataError,
    PermissionDeniedError,
    UnsupportedFormatError,
)
"""Errors of one segment or partition, after which the others can still be read."""
