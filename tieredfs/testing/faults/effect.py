"""What happens to a request that fails."""

from enum import StrEnum
from typing import Final, Literal, Self

from tieredfs.errors import (
    DeadlineExceededError,
    PermissionDeniedError,
    StorageUnavailableError,
)

__all__ = ["CRASHES", "FAILURES", "STORE_ERRORS", "CrashError", "Effect"]


class CrashError(BaseException):
    """The process has died: a plugin that survives it sends no further request.

    It is not an Exception, so that no handler takes it for an error of the store.
    """


class Effect(StrEnum):
    """What happens to a request.

    A new one is a line here: its name, how much of the request is executed, and what
    the request raises. Half of a listing are its first entries, half of a deletion are
    its first keys or one that the fault names, and half of any other request is
    nothing.

    Attributes:
        executed: How much of the request is executed.
        raised: What it raises; None if it is only late.
    """

    ERROR = "error", "nothing", StorageUnavailableError
    DENIED = "denied", "nothing", PermissionDeniedError
    CUT = "cut", "half", StorageUnavailableError
    DELAY = "delay", "all", None
    LOST_REPLY = "lost_reply", "all", StorageUnavailableError
    CRASH = "crash", "nothing", CrashError
    CRASH_AFTER = "crash_after", "all", CrashError
    LATE = "late", "nothing", DeadlineExceededError

    executed: Literal["nothing", "half", "all"]
    raised: type[BaseException] | None

    def __new__(
        cls,
        name: str,
        executed: Literal["nothing", "half", "all"],
        raised: type[BaseException] | None,
    ) -> Self:
        """Take a line of the table."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.executed = executed
        made.raised = raised
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


CRASHES: Final = tuple(one for one in Effect if one.raised is CrashError)
"""Effects after which the process is dead."""

FAILURES: Final = tuple(one for one in Effect if one.raised and one not in CRASHES)
"""Effects after which the process lives, and has no answer."""

STORE_ERRORS: Final = tuple({one.raised for one in FAILURES if one.raised})
"""What these raise."""
