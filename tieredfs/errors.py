"""Every error tieredfs raises, as one tree, grouped by what a handler would do.

::

    TieredFSError
    ├── NotFoundError              (also FileNotFoundError)  ask for something else
    │   └── OffsetOutOfRangeError                            ask for another offset
    ├── AlreadyExistsError         (also FileExistsError)    somebody was first
    ├── PermissionDeniedError      (also PermissionError)    fix the credentials
    ├── InvalidArgumentError       (also ValueError)         fix the call
    ├── CorruptDataError                                     the bytes are wrong
    │   ├── CorruptIndexError
    │   ├── CorruptBatchError
    │   └── CorruptObjectError
    ├── UnsupportedFormatError                               a newer reader is needed
    ├── UnsupportedOperationError                            ask another layout or store
    ├── StorageUnavailableError                              try again: retryable
    ├── StorageFullError                                     make room
    ├── DeadlineExceededError      (also TimeoutError)       it took too long
    ├── ClosedError                                          open it again
    ├── InvalidTransitionError                               a bug in the caller
    └── PluginError                                          fix the installation
        ├── UnknownPluginError
        └── PluginNotInstalledError

Every class has a stable ``kind`` and says by ``retryable`` whether the same call may
succeed later. Messages name the store, the key and the range, never a secret. Errors
can be pickled, so that they cross processes with their type.
"""

from enum import StrEnum
from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "ClosedError",
    "CorruptBatchError",
    "CorruptDataError",
    "CorruptIndexError",
    "CorruptObjectError",
    "DeadlineExceededError",
    "ErrorKind",
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
    CLOSED = "closed"
    INVALID_TRANSITION = "invalid_transition"
    PLUGIN = "plugin"
    UNKNOWN_PLUGIN = "unknown_plugin"
    PLUGIN_NOT_INSTALLED = "plugin_not_installed"


class TieredFSError(Exception):
    """The root: catch this to catch everything tieredfs raises on purpose."""

    kind: ClassVar[ErrorKind] = ErrorKind.ERROR
    retryable: ClassVar[bool] = False
    keys: tuple[str, ...] = ()
    """What a call about several keys has left undone; empty for any other."""


class TieredFSWarning(UserWarning):
    """Something was decided for the user that they may want to decide themselves."""


class NotFoundError(TieredFSError, FileNotFoundError):
    """An object, topic, partition or index is not there."""

    kind = ErrorKind.NOT_FOUND


class OffsetOutOfRangeError(NotFoundError):
    """An offset lies outside what the log holds."""

    kind = ErrorKind.OFFSET_OUT_OF_RANGE


class AlreadyExistsError(TieredFSError, FileExistsError):
    """What was to be created exclusively is already there."""

    kind = ErrorKind.ALREADY_EXISTS


class PermissionDeniedError(TieredFSError, PermissionError):
    """The store refused the credentials, or there are none."""

    kind = ErrorKind.PERMISSION_DENIED


class InvalidArgumentError(TieredFSError, ValueError):
    """An argument can never be right, whatever the store holds."""

    kind = ErrorKind.INVALID_ARGUMENT


class CorruptDataError(TieredFSError):
    """Bytes are not what their format, their checksum or their neighbours say."""

    kind = ErrorKind.CORRUPT_DATA


class CorruptIndexError(CorruptDataError):
    """An index, snapshot or checkpoint is malformed or untrue to its log."""

    kind = ErrorKind.CORRUPT_INDEX


class CorruptBatchError(CorruptDataError):
    """A record batch is malformed, fails its checksum or is out of place."""

    kind = ErrorKind.CORRUPT_BATCH


class CorruptObjectError(CorruptDataError):
    """A stored object is shorter or longer than it says, or fails its checksum."""

    kind = ErrorKind.CORRUPT_OBJECT


class UnsupportedFormatError(TieredFSError):
    """The bytes are of a version or kind that this release does not read."""

    kind = ErrorKind.UNSUPPORTED_FORMAT


class UnsupportedOperationError(TieredFSError):
    """The layout or the store cannot do this, now or later."""

    kind = ErrorKind.UNSUPPORTED_OPERATION


class StorageUnavailableError(TieredFSError):
    """The store was throttled, failing or unreachable: the same call may succeed."""

    kind = ErrorKind.STORAGE_UNAVAILABLE
    retryable = True


class StorageFullError(TieredFSError):
    """The store has no room for what is written, or a quota is used up."""

    kind = ErrorKind.STORAGE_FULL


class DeadlineExceededError(TieredFSError, TimeoutError):
    """The deadline of a call passed before it was done."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class ClosedError(TieredFSError):
    """The object was closed before this call."""

    kind = ErrorKind.CLOSED


class InvalidTransitionError(TieredFSError):
    """A segment cannot go from its state to the one that was asked for."""

    kind = ErrorKind.INVALID_TRANSITION


class PluginError(TieredFSError):
    """A plugin is broken, or two of them claim the same thing."""

    kind = ErrorKind.PLUGIN


class UnknownPluginError(PluginError):
    """No plugin has this name; the message lists those that exist."""

    kind = ErrorKind.UNKNOWN_PLUGIN


class PluginNotInstalledError(PluginError):
    """A package is missing; the message is the exact ``pip install``."""

    kind = ErrorKind.PLUGIN_NOT_INSTALLED
