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

An object that an earlier copy has left is adopted if it has the same bytes: it counts
as stored. But it may be so old that ``scrub`` deletes it while this copy is under way.
So it is written again, which makes it young. A scrub may have looked at it just before,
and delete it afterwards. So when all objects are stored, it is looked up once more, and
is put again if it is gone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
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

_YOUNG_MS: Final = 3_600_000
"""Up to this age an adopted object stays as it is. So the age from which on a scrub
deletes has to be longer than a copy takes by as much.
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


@dataclass(frozen=True, slots=True)
class _Put:
    """An object that was put.

    Attributes:
        copied: The object.
        outcome: What became of it.
        error: The error that its put raised.
        is_old: Whether it is there, as an earlier copy may have left it.
        is_adopted: Whether it was there so, and was written again.
    """

    copied: CopiedObject
    outcome: _Outcome
    error: TieredFSError | None = None
    is_old: bool = False
    is_adopted: bool = False


_PutOne = Callable[[ObjectStore, CopiedObject], _Put]


def copy_objects(
    store: ObjectStore,
    name: str,
    objects: Sequence[CopiedObject],
    mark: CopiedObject | None = None,
    *,
    recheck: bool = False,
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
        recheck: Whether an earlier copy had left objects under these keys, which a
            scrub may be deleting: all are looked up when they are stored, and put
            again if they are gone. An object that was adopted always is.

    Raises:
        AlreadyExistsError: An object with other bytes has one of the keys, and is not
            to be replaced.
        TieredFSError: The error of an object that was not stored; the message says
            which, and what is known of the others.
    """
    store.check_thread()
    marks = [] if mark is None else [mark]
    adopted = _put_all(store, name, objects, after=marks)
    adopted += _put_all(store, name, marks, before=objects)
    stored = [*objects, *marks]
    doubtful = stored if recheck else adopted
    _put_all(store, name, doubtful, before=stored, put=_put_if_gone)


def _put_all(
    store: ObjectStore,
    name: str,
    objects: Sequence[CopiedObject],
    *,
    before: Sequence[CopiedObject] = (),
    after: Sequence[CopiedObject] = (),
    put: _PutOne | None = None,
) -> list[CopiedObject]:
    """Store objects, and determine the outcome of those whose put failed.

    Args:
        store: Where they are stored.
        name: Name of the segment.
        objects: The objects.
        before: Those that are stored already.
        after: Those that are stored afterwards.
        put: Stores one of them; None for ``_put``.

    Returns:
        Those that were adopted from an earlier copy.
    """
    puts = _puts(store, objects, put or _put)
    failed = [one.error for one in puts if one.error and one.outcome.is_failure]
    if failed:
        outcomes = {one.key: _Outcome.STORED for one in before}
        outcomes |= {one.key: _Outcome.NOT_SENT for one in (*objects, *after)}
        outcomes |= {one.copied.key: one.outcome for one in puts}
        raise _failure(name, failed, outcomes)
    return [one.copied for one in puts if one.is_adopted]


def _puts(
    store: ObjectStore,
    objects: Sequence[CopiedObject],
    put: _PutOne,
) -> list[_Put]:
    """Put objects; on this machine one after the other, up to the first failure."""
    if store.is_local or len(objects) < 2:  # noqa: PLR2004 - no thread for one
        puts: list[_Put] = []
        for one in objects:
            puts.append(put(store, one))
            if puts[-1].outcome.is_failure:
                break
        return puts
    pool = DaemonExecutor(len(objects), "tieredfs-copy")
    sent = [pool.submit(put, store, one) for one in objects]
    # Each has a deadline of its own. No put is left to go on after this call, except by
    # Ctrl-C: what it stores could become visible later.
    return [result_of(one, inf) for one in sent]


def _put(store: ObjectStore, one: CopiedObject) -> _Put:
    """Put an object, or adopt the one that is there and has its bytes."""
    put = _try_put(store, one)
    if not put.is_old:
        return put
    again = _try_put(store, replace(one, overwrite=True))
    # If this failed as well, and the object is still old, a scrub may yet delete it.
    outcome = _Outcome.UNKNOWN if again.is_old else again.outcome
    return replace(again, copied=one, outcome=outcome, is_adopted=True)


def _put_if_gone(store: ObjectStore, one: CopiedObject) -> _Put:
    """Put an object again if it was deleted since it was written."""
    try:
        store.head(one.key)
    except NotFoundError:
        return _put(store, one)
    except TieredFSError as error:
        return _Put(one, _Outcome.UNKNOWN, error)
    return _Put(one, _Outcome.STORED)


def _try_put(store: ObjectStore, one: CopiedObject) -> _Put:
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
        return _look(asked, one, error)
    return _Put(one, _Outcome.STORED)


def _look(store: ObjectStore, one: CopiedObject, error: TieredFSError) -> _Put:
    """Return whether an object whose put raised an error is there, byte for byte."""
    content = one.content
    content = BufferContent(content) if isinstance(content, bytes) else content
    size = content.size
    try:
        found = store.head(one.key)
        if found.size != size:
            return _Put(one, _Outcome.FAILED, error)
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            if store.get_range(one.key, start, end) != content.read(start, end):
                return _Put(one, _Outcome.FAILED, error)
    except (NotFoundError, CorruptDataError):
        return _Put(one, _Outcome.FAILED, error)
    except TieredFSError:
        return _Put(one, _Outcome.UNKNOWN, error)
    return _Put(one, _Outcome.STORED, error, is_old=not _is_young(found.modified))


def _is_young(modified: int | None) -> bool:
    """Return whether an object was written within an hour of now.

    By this machine's clock: object stores refuse the requests of one that is further
    from theirs. Where a clock may be wrong, a time that is to come is not young either.
    """
    return modified is not None and abs(time.time() * 1000 - modified) < _YOUNG_MS


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
