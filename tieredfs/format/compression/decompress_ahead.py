"""Decompress the next batches in a helper thread while the caller uses the last ones.

Decompressors release the interpreter's lock, so that two cores share the work. To open
a batch is to decompress it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["MIN_WORK_BYTES", "decompress_ahead"]

_MIN_GROUP_BYTES = 256 << 10
"""Compressed bytes of a group for which it pays to wake another thread."""

MIN_WORK_BYTES = 20 << 10
"""Compressed bytes of a batch below which opening it takes less time than handing it to
another thread."""

_MAX_OPENED_BYTES = 4 << 20
"""Decompressed bytes of a group after which the caller opens the rest of it."""

_MAX_GROUPS = 2
"""Groups that are open ahead: the helper has one, a waiting caller opens the other."""


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
    """Yield the result of ``open_one`` for each batch, in order.

    The first batch is opened before another is taken from ``batches``. From then on
    batches are taken and opened ahead in groups of 256 KiB of work: two groups, each of
    at most 4 MiB plus one batch when open. A batch without work is opened when its turn
    comes, and so is every batch on a machine with a single core. The helper thread
    lives from the first group until the iterator ends or is closed; closing waits for
    the group that the thread is opening. A process forked meanwhile has no such thread,
    and opens the rest itself.

    Args:
        batches: The batches; iterated in the caller's thread.
        open_one: Opens a batch; called in either thread.
        work: Returns the number of bytes to decompress in a batch.

    Raises:
        Exception: The error of ``open_one`` or ``batches``, after all results before it
            have been yielded.
    """
    errors: list[Exception] = []
    source = _until_error(batches, errors)
    process = os.getpid()
    yield from map(open_one, islice(source, 1 if _cores() > 1 else None))
    with ExitStack() as stack:
        helper = ThreadPoolExecutor(1, "tieredfs-open")  # no thread until it has work
        stack.callback(_shut_down, helper, process)
        window: deque[_Job[Batch, Piece]] = deque()
        for group, total in _groups(source, work):
            if total >= _MIN_GROUP_BYTES and os.getpid() == process:
                future = helper.submit(_open_group, group, open_one)
                window.append(_Job(group, future, process))
                if len(window) == _MAX_GROUPS:
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
    """The result of opening a group: its pieces, and the error that ended it."""

    pieces: list[Piece]
    error: Exception | None = None


@dataclass
class _Job(Generic[Batch, Piece]):
    """A group that is opened ahead, by a thread of one process."""

    group: list[Batch]
    future: Future[_Result[Piece]]
    process: int


def _take(
    window: "deque[_Job[Batch, Piece]]", open_one: Callable[[Batch], Piece]
) -> Iterator[Piece]:
    """Remove the first group from the window, and yield its pieces."""
    job = window.popleft()
    done: list[Piece] = []
    if os.getpid() != job.process:
        pass  # the thread does not exist here, and may have held the future's lock
    elif not job.future.cancel():
        for later in window:  # open later groups rather than wait
            if not job.future.done() and later.future.cancel():
                later.future = Future()
                later.future.set_result(_open_group(later.group, open_one))
        done, error = job.future.result()
        yield from done
        if error is not None:
            raise error
    yield from map(open_one, job.group[len(done) :])


def _shut_down(helper: ThreadPoolExecutor, process: int) -> None:
    """End the helper thread, unless it is that of another process."""
    if os.getpid() == process:
        helper.shutdown(cancel_futures=True)


def _open_group(
    group: list[Batch], open_one: Callable[[Batch], Piece]
) -> _Result[Piece]:
    """Open batches up to an error or to the maximum size of a group."""
    pieces: list[Piece] = []
    size = 0
    for batch in group:
        try:
            piece = open_one(batch)
        except Exception as error:  # noqa: BLE001 - the caller raises it in its place
            return _Result(pieces, error)
        pieces.append(piece)
        size += piece.size
        if size >= _MAX_OPENED_BYTES:
            break
    return _Result(pieces)


def _groups(
    batches: Iterable[Batch], work: Callable[[Batch], int]
) -> Iterator[tuple[list[Batch], int]]:
    """Group batches up to the minimum work; a batch without work is its own group."""
    group: list[Batch] = []
    total = 0
    for batch in batches:
        size = work(batch)
        size = 0 if size < MIN_WORK_BYTES else size
        if group and not size:
            yield group, total
            group, total = [], 0
        group.append(batch)
        total += size
        if not size or total >= _MIN_GROUP_BYTES:
            yield group, total
            group, total = [], 0
    if group:
        yield group, total


def _until_error(batches: Iterable[Batch], errors: list[Exception]) -> Iterator[Batch]:
    """Yield batches until they end or raise an error, which is kept for later."""
    try:
        yield from batches
    except Exception as error:  # noqa: BLE001 - raised in its place
        errors.append(error)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS or Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
