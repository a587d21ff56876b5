"""Intercept every call of a storage that may send a request."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Final, TypeVar

from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage.contract.user import RemoteStorageManager
from tieredfs.storage.wrapper import StorageWrapper

__all__ = ["REMOTE_CALLS", "CallWrapper", "StorageCall"]

_T = TypeVar("_T")

REMOTE_CALLS: Final = (
    "list_partitions",
    "list_segments",
    "list_segments_lazily",
    "fetch_log_segment",
    "fetch_log_ahead",
    "plan_fetch",
    "fetch_index",
    "fetch_indexes",
    "fetch_all_indexes",
    "seek",
    "survey",
    "fetch_producers_before",
    "stream_log",
    "is_current",
    "describe",
    "stored_sizes",
    "is_compacted",
    "check_key",
    "copy_log_segment",
    "copy_with_indexes",
    "copy_open_log",
    "replace_log_segment",
    "append_log_segment",
    "cancel_copying",
    "scrub",
    "leftover_partitions",
    "delete_log_segment",
    "delete_partition",
)
"""The methods of the contract that may send a request."""


@dataclass(frozen=True, slots=True)
class StorageCall:
    """One call, as the caller made it.

    Attributes:
        method: The method's name.
        arguments: Those given by position.
        options: Those given by name.
    """

    method: str
    arguments: tuple[object, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)


class CallWrapper(StorageWrapper):
    """A storage that intercepts the `REMOTE_CALLS` of the wrapped one.

    An iterator is intercepted when it is created, not while it is read.
    """

    @abstractmethod
    def around(self, call: StorageCall, answer: Callable[[], _T]) -> _T:
        """Make one call, or not, and return its result.

        Args:
            call: The call.
            answer: Calls the wrapped storage.
        """


def _list_lazily(
    wrapper: CallWrapper, partition: TopicIdPartition
) -> Sequence[SegmentMetadata]:
    """List as the wrapped storage does, unless a subclass lists other segments."""
    if type(wrapper).list_segments is not CallWrapper.list_segments:
        return RemoteStorageManager.list_segments_lazily(wrapper, partition)
    return wrapper.inner.list_segments_lazily(partition)


def _seen(method: str) -> Callable[..., object]:
    passed_on: Callable[..., object] = _PASSED_ON.get(
        method, getattr(StorageWrapper, method)
    )

    @wraps(passed_on)
    def seen(self: CallWrapper, *arguments: object, **options: object) -> object:
        call = StorageCall(method, arguments, options)
        return self.around(call, partial(passed_on, self, *arguments, **options))

    return seen


_PASSED_ON: Final[Mapping[str, Callable[..., object]]] = {
    "list_segments_lazily": _list_lazily
}

for _method in REMOTE_CALLS:
    setattr(CallWrapper, _method, _seen(_method))
