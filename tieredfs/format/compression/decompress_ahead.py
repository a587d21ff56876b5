"""Open the next batches in a helper thread while the caller is busy with these.

To open a batch is to decompress it. Decompressors let other threads run meanwhile, so
that two cores share the work.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["MIN_WORK", "decompress_ahead"]

_HAND_OVER = 256 << 10
"""Bytes to decompress for which it pays to wake another thread."""

MIN_WORK = 20 << 10
"""Bytes of a batch below which it is open before two threads have taken turns."""

_AHEAD = 4 << 20
"""Opened bytes of a group from which on the rest of it is left to the caller."""

_WINDOW = 2
"""Groups in hand: the helper has one, and the caller opens the other if it waits."""


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


Batch = TypeVar("Batch")
Piece = TypeVar("Piece", bound=_Sized)


def decompress_ahead(
    batches: Iterable[Batch],
    open_one: Callable[[Batch], Piece],
    work: Callable[[Batch], int],
) -> Iterator[Piece]:
    """Yield what ``open_one`` makes of each batch, in order.

    The first batch is opened before another is taken. From then on batches are taken
    and opened ahead in groups of 256 KiB of work: two groups, each of no more than 4
    MiB and one batch when it is open. A batch without work, and any batch where there
    is one core only, is opened when its turn comes. The helper thread lives from the
    first group until the iterator ends or is closed, which waits for the group that the
    thread has.

    Args:
        batches: Taken in the caller's thread.
        open_one: Opens a batch, in either thread.
        work: Returns how many bytes of a batch there are to decompress.

    Raises:
        Exception: What ``open_one`` or ``batches`` raised, when all that lies before it
            has come out.
    """
    errors: list[Exception] = []
    source = _until_error(batches, errors)
    yield from map(open_one, islice(source, 1 if _cores() > 1 else None))
    with ExitStack() as stack:
        helper = ThreadPoolExecutor(1, "tieredfs-open")  # no thread until it has work
        stack.callback(helper.shutdown, cancel_futures=True)
        window: deque[_Job[Batch, Piece]] = deque()
        for group, total in _groups(source, work):
            if total >= _HAND_OVER:
                future = helper.submit(_open_group, group, open_one)
                window.append(_Job(group, future))
                if len(window) == _WINDOW:
                    yield from _take(window, open_one)
                continue
            while window:
                yield from _take(window, open_one)
            yield from map(open_one, group)
        while window:
            yield from _take(window, open_one)
    if errors:
        raise errors[0]


class _Result(NamedTuple, Generic[Piece]):
    """What became of a group: pieces, and the error that ended them."""

    pieces: list[Piece]
    error: Exception | None = None


@dataclass
class _Job(Generic[Batch, Piece]):
    """A group that is opened ahead."""

    group: list[Batch]
    future: Future[_Result[Piece]]


def _take(
    window: "deque[_Job[Batch, Piece]]", open_one: Callable[[Batch], Piece]
) -> Iterator[Piece]:
    """Take the first group out of the window, and yield what is in it."""
    job = window.popleft()
    done: list[Piece] = []
    if not job.future.cancel():
        for later in window:  # do not wait while there is something to do
            if not job.future.done() and later.future.cancel():
                later.future = Future()
                later.future.set_result(_open_group(later.group, open_one))
        done, error = job.future.result()
        yield from done
        if error is not None:
            raise error
    yield from map(open_one, job.group[len(done) :])


def _open_group(
    group: list[Batch], open_one: Callable[[Batch], Piece]
) -> _Result[Piece]:
    """Open batches up to an error, or until they are enough for once."""
    pieces: list[Piece] = []
    size = 0
    for batch in group:
        try:
            piece = open_one(batch)
        except Exception as error:  # noqa: BLE001 - the caller raises it in its place
            return _Result(pieces, error)
        pieces.append(piece)
        size += piece.size
        if size >= _AHEAD:
            break
    return _Result(pieces)


def _groups(
    batches: Iterable[Batch], work: Callable[[Batch], int]
) -> Iterator[tuple[list[Batch], int]]:
    """Gather batches until there is enough to do; one without work stays alone."""
    group: list[Batch] = []
    total = 0
    for batch in batches:
        size = work(batch)
        size = 0 if size < MIN_WORK else size
        if group and not size:
            yield group, total
            group, total = [], 0
        group.append(batch)
        total += size
        if not size or total >= _HAND_OVER:
            yield group, total
            group, total = [], 0
    if group:
        yield group, total


def _until_error(batches: Iterable[Batch], errors: list[Exception]) -> Iterator[Batch]:
    """Yield batches until there is none, or an error to be kept for later."""
    try:
        yield from batches
    except Exception as error:  # noqa: BLE001 - raised in its place
        errors.append(error)


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS or Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
