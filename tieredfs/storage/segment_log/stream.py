"""The batches of a log, fetched a piece at a time."""

from collections.abc import Callable, Iterator

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.reader import claimed_size, scan_log
from tieredfs.format.batch.table import LogBatch, LogBatches

__all__ = ["FETCH_SIZE", "read_batches", "read_log"]

FETCH_SIZE = 16 << 20
"""Bytes of a request: large enough that its latency does not matter."""

_SIZE_END = 12
"""End of the size field in a batch header."""

_LOOKAHEAD_BYTES = 64 << 10
"""Bytes of the first request past ``until``; each further request doubles them."""

_NOTHING = memoryview(b"")


def read_log(  # noqa: PLR0913 - a log, and how much of it
    fetch: Callable[[int, int], memoryview],
    size: int,
    *,
    name: str,
    start: int = 0,
    until: int | None = None,
    torn_tail: bool = False,
    fetch_size: int = FETCH_SIZE,
    after: int = -1,
    held: memoryview = _NOTHING,
) -> Iterator[LogBatches]:
    """Yield the batches of a log in order, checked, fetching them on demand.

    Memory is bounded by ``fetch_size`` plus one batch, whatever a length field
    contains: a batch larger than the rest of the log is an error.

    Args:
        fetch: Returns the bytes ``[start, end)`` of the log, and may return more.
        size: Bytes of the log.
        name: Log name used in error messages.
        start: Position of the first batch to read.
        until: Position up to which the first requests reach; later bytes are fetched
            only if the caller continues.
        torn_tail: Whether the log may end in an incomplete batch or in zeros, as the
            segment that a broker is writing may.
        fetch_size: Bytes of each request.
        after: Offset that the first batch must be greater than.
        held: Bytes from ``start`` on that are already fetched.

    Raises:
        CorruptBatchError: A batch is malformed, out of order or cut off.
        UnsupportedFormatError: A magic byte or codec is not supported.
    """
    rest, position, fetched = _NOTHING, start, start
    previous = after
    needed, beyond = 0, _LOOKAHEAD_BYTES
    piece, end = held[: size - start], start + len(held)
    while fetched < size:
        if not piece:
            want = fetch_size
            if until is not None:
                want = min(want, max(until - fetched, beyond))
                beyond *= 2 if fetched >= until else 1
            end = min(size, fetched + max(want, needed))
            piece = fetch(fetched, end)[: size - fetched]
        fetched = max(end, fetched + len(piece))
        for part in _stitched(rest, piece):
            data = memoryview(b"".join((rest, part))) if rest else part
            done = 0
            found = scan_log(data, offset=position, after=previous, name=name)
            while (
                batches := _next(found, data, done, torn_tail=torn_tail)
            ) is not None:
                yield batches
                previous = int(batches["last_offset"][-1])
                done = int(batches["end"][-1])
            rest = data[done:]
            position += done
        piece = _NOTHING
        if torn_tail and not any(rest[:fetch_size]):
            return
        claimed = claimed_size(rest, 0, name=f"{name} from {position}")
        if claimed is not None and claimed > size - position:
            if torn_tail:
                return
            msg = (
                f"{name}: batch at position {position}: {size - position} bytes are "
                f"left of a batch of {claimed}"
            )
            raise CorruptBatchError(msg)
        needed = 0 if claimed is None else claimed - len(rest)
    if len(rest) and not torn_tail:
        msg = f"{name}: {len(rest)} bytes at position {position} are not a batch"
        raise CorruptBatchError(msg)


def _stitched(rest: memoryview, piece: memoryview) -> tuple[memoryview, ...]:
    """Cut a piece after the batch that begins in ``rest``, to copy only that batch.

    The piece is returned whole if the batch's size is not known.
    """
    if not rest:
        return (piece,)
    try:
        size = claimed_size(b"".join((rest, piece[:_SIZE_END])), 0)
    except CorruptBatchError:
        return (piece,)
    if size is None or not len(rest) < size < len(rest) + len(piece):
        return (piece,)
    return piece[: size - len(rest)], piece[size - len(rest) :]


def read_batches(
    fetch: Callable[[int, int], memoryview],
    size: int,
    *,
    name: str,
    start: int = 0,
    torn_tail: bool = False,
) -> Iterator[LogBatch]:
    """Yield the batches of a log one by one: see ``read_log``."""
    for batches in read_log(fetch, size, name=name, start=start, torn_tail=torn_tail):
        yield from batches


def _next(
    found: Iterator[LogBatches], data: memoryview, done: int, *, torn_tail: bool
) -> LogBatches | None:
    """Return the next batches; None at the end or at trailing zeros."""
    try:
        return next(found, None)
    except CorruptBatchError:
        if torn_tail and not any(data[done:]):
            return None
        raise
