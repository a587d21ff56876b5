"""Copy a segment that is several objects: all of them concurrently, each to an outcome.

An acknowledged copy then takes the time of its slowest object, and not of all together.
Any of them may be stored without the others, and stay so:

| outcome | what happened |
|---|---|
| stored | its put returned; or it raised an error, and the object is there as given |
| not stored | its put raised an error, and the object is not there, or is another one |
| perhaps stored | neither the put nor the question whether it is there was answered |
| not sent | another one had failed before |

A copy returns only if every object is stored. Otherwise it raises an error
that names the objects which are not, and leaves the others: it is the layout that shows
no segment of which an object is missing, that finds the rest in ``scrub``, and that is
given the same segment again, which completes it.

Where a reader could take the segment for whole although an object is missing, another
one is the mark that it is whole, and is put when all others are stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from tieredfs.errors import (
    CorruptDataError,
    DeadlineExceededError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.objects.content import PIECE_BYTES, BufferContent, Content

__all__ = ["CopiedObject", "copy_objects"]

_LOOK_SHARE: Final = 1 / 4
"""Share of the policy's deadline for each question whether an object is there: they
come after a put that may have taken all of it.
"""

_OUTAGES: Final = (StorageUnavailableError, DeadlineExceededError)


class _Outcome(StrEnum):
    """What became of an object of a copy."""

    FAILED = "not stored"
    UNKNOWN = "perhaps stored"
    NOT_SENT = "not sent"
    STORED = "stored"

    @property
    def is_failure(self) -> bool:
        """Whether the object's put has failed."""
        return self in {_Outcome.FAILED, _Outcome.UNKNOWN}


@dataclass(frozen=True, slots=True)
class _Put:
    """An object that was put, and the error that its put raised."""

    key: str
    outcome: _Outcome
    error: TieredFSError | None = None


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """An object of a segment that is copied.

    Attributes:
        key: Its key.
        content: Its bytes.
        overwrite: Whether to replace an object of this key. False where the key may be
            that of another segment, or of the same one as it was before; an object that
            is there and has the same bytes counts as stored.
    """

    key: str
    content: bytes | Content
    overwrite: bool = True


def copy_objects(
    store: ObjectStore,
    name: str,
    objects: Sequence[CopiedObject],
    mark: CopiedObject | None = None,
) -> None:
    """Store the objects of a segment concurrently.

    When it returns, all of them are stored. When it raises, or the process dies, any of
    them may be, and one whose outcome is unknown may yet be. On this machine they are
    stored in their order, up to the first that fails.

    Args:
        store: Where they are stored.
        name: Name of the segment, used in error messages.
        objects: Those that may be stored in any order.
        mark: The one by which a reader knows that the others are there; it is put when
            they are stored, and not at all if one of them is not.

    Raises:
        AlreadyExistsError: An object with other bytes has one of the keys, and is not
            to be replaced.
        TieredFSError: The error of an object that was not stored; the message says
            which, and what is known of the others.
    """
    store.check_thread()
    marks = [] if mark is None else [mark]
    _put_all(store, name, objects, after=marks)
    _put_all(store, name, marks, before=objects)


def _put_all(
    store: ObjectStore,
    name: str,
    objects: Sequence[CopiedObject],
    *,
    before: Sequence[CopiedObject] = (),
    after: Sequence[CopiedObject] = (),
) -> None:
    """Store objects, and determine the outcome of those whose put failed.

    Args:
        store: Where they are stored.
        name: Name of the segment.
        objects: The objects.
        before: Those that are stored already.
        after: Those that are stored afterwards.
    """
    puts = _puts(store, objects)
    failed = [put.error for put in puts if put.error and put.outcome.is_failure]
    if failed:
        outcomes = {one.key: _Outcome.STORED for one in before}
        outcomes |= {one.key: _Outcome.NOT_SENT for one in (*objects, *after)}
        outcomes |= {put.key: put.outcome for put in puts}
        raise _failure(name, failed, outcomes)


def _puts(store: ObjectStore, objects: Sequence[CopiedObject]) -> list[_Put]:
    """Put objects; on this machine one after the other, up to the first failure."""
    if store.is_local or len(objects) < 2:  # noqa: PLR2004 - no thread for one
        puts: list[_Put] = []
        for one in objects:
            puts.append(_put(store, one))
            if puts[-1].outcome.is_failure:
                break
        return puts
    pool = DaemonExecutor(len(objects), "tieredfs-copy")
    sent = [pool.submit(_put, store, one) for one in objects]
    # Each has a deadline of its own. No put is left to go on after this call, except by
    # Ctrl-C: what it stores could become visible later.
    return [result_of(put, inf) for put in sent]


def _put(store: ObjectStore, one: CopiedObject) -> _Put:
    """Put an object; after an error, look whether it is there."""
    content = one.content
    try:
        if isinstance(content, bytes):
            store.put(one.key, content, overwrite=one.overwrite)
        else:
            store.put_file(one.key, content, overwrite=one.overwrite)
    except TieredFSError as error:
        share = store.policy.deadline * _LOOK_SHARE
        asked = store.with_policy(replace(store.policy, deadline=share))
        return _Put(one.key, _look(asked, one), error)
    return _Put(one.key, _Outcome.STORED)


def _look(store: ObjectStore, one: CopiedObject) -> _Outcome:
    """Return whether an object is there, byte for byte."""
    content = one.content
    content = BufferContent(content) if isinstance(content, bytes) else content
    size = content.size
    try:
        if store.head(one.key).size != size:
            return _Outcome.FAILED
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            if store.get_range(one.key, start, end) != content.read(start, end):
                return _Outcome.FAILED
    except (NotFoundError, CorruptDataError):
        return _Outcome.FAILED
    except TieredFSError:
        return _Outcome.UNKNOWN
    return _Outcome.STORED


def _failure(
    name: str, failed: Sequence[TieredFSError], outcomes: Mapping[str, _Outcome]
) -> TieredFSError:
    """Return the error of a copy: the one that says most of why it failed."""
    error = next((one for one in failed if not isinstance(one, _OUTAGES)), failed[0])
    keys = {
        outcome: ", ".join(key for key, its in outcomes.items() if its is outcome)
        for outcome in _Outcome
    }
    found = "; ".join(f"{outcome}: {those}" for outcome, those in keys.items() if those)
    failure = type(error)(f"{name} is not stored: {error} ({found})")
    failure.__cause__ = error
    return failure
