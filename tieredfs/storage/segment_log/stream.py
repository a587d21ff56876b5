"""The batches of a log, fetched a piece at a time: fetch → split.

``LogFetch`` requests the pieces of a log, and ``split_log`` cuts them into batches. How
much has to be fetched depends on where the batches end, so ``split_log`` states in
``LogFetch.needed`` how many bytes the batch lacks that a piece has cut off.
"""

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from tieredfs.errors import CorruptBatchError, CorruptObjectError
from tieredfs.format.batch.reader import claimed_size, may_be_torn, scan_log
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import Buffer
from tieredfs.objects.content import PIECE_BYTES
from tieredfs.storage.segment_log.source import LogSource

__all__ = [
    "LogFetch",
    "grown",
    "read_batches",
    "read_log",
    "read_torn_batches",
    "request_end",
    "split_log",
]

_SIZE_FROM, _SIZE_END = 8, 12
"""Where the size field in a batch header begins and ends."""

_LOOKAHEAD_BYTES = 64 << 10
"""Bytes of the first request past ``until``; each further request doubles them."""

_GROWTH = 8
"""How much more each request asks for than the last, where the first asks for few."""

_NOTHING = memoryview(b"")


def grown(size: int, most: int) -> int:
    """Return the bytes of the request that follows one of ``size`` bytes."""
    return min(size * _GROWTH, most)


def request_end(
    start: int,
    until: int,
    size: int,
    fetch_size: int,
    lookahead: int = _LOOKAHEAD_BYTES,
) -> int:
    """Return where a request for a log ends.

    Args:
        start: Its first byte.
        until: Position up to which the log is wanted.
        size: Bytes of the log.
        fetch_size: Maximum bytes of a request.
        lookahead: Minimum bytes of one that would end at ``until``, or begins there.
    """
    length = fetch_size
    if until < size:
        length = min(length, max(until - start, lookahead))
    return min(size, start + length)


class LogFetch:
    """Fetch a log piece by piece, as it is iterated over.

    Attributes:
        size: Bytes of the log.
        start: Position of the first byte of the first piece.
        needed: Minimum number of bytes of the next piece, unless the log ends before.
        is_begun: Whether the first piece was fetched before, with other requests.
    """

    def __init__(  # noqa: PLR0913 - its options, by keyword
        self,
        fetch: Callable[[int, int], memoryview],
        size: int,
        *,
        fetch_size: int,
        start: int = 0,
        until: int | None = None,
        held: memoryview = _NOTHING,
        first_size: int | None = None,
    ) -> None:
        """Prepare the requests, without sending one.

        Args:
            fetch: Returns the bytes ``[start, end)`` of the log, and may return more;
                or less, but some of them, if it fetches ahead.
            size: Bytes of the log.
            fetch_size: Bytes of each request.
            start: Position of the first byte to fetch.
            until: Position up to which the first requests reach; later bytes are
                fetched only if the caller continues.
            held: Bytes from ``start`` on that are already fetched: the first piece.
            first_size: Bytes of the first request, from which the others grow up to
                ``fetch_size``; None for that.
        """
        self.size = size
        self.start = start
        self.needed = 0
        self.is_begun = bool(held)
        self._fetch = fetch
        self._until = size if until is None else until
        self._fetch_size = fetch_size
        self._first_size = first_size or fetch_size
        self._piece, self._position = held[: size - start], start

    def __iter__(self) -> Iterator[memoryview]:
        """Yield the pieces, each of which begins where the one before ended.

        Raises:
            CorruptObjectError: A fetch returned nothing.
        """
        end, beyond = self.start + len(self._piece), _LOOKAHEAD_BYTES
        length = self._first_size
        if self._piece:
            yield self._piece
        while end < self.size:
            planned = request_end(end, self._until, self.size, length, beyond)
            length = grown(length, self._fetch_size)
            beyond *= 2 if end >= self._until else 1
            start, end = end, max(planned, min(self.size, end + self.needed))
            self._piece, self._position = _NOTHING, start  # do not hold two pieces
            self._piece = self._fetch(start, end)[: self.size - start]
            if not self._piece:
                msg = f"the log ends at byte {start}, and is listed with {self.size}"
                raise CorruptObjectError(msg)
            end = start + len(self._piece)
            yield self._piece

    def rest(self, position: int) -> memoryview:
        """Return the bytes of the last piece from a position on."""
        if position < self._position:
            return _NOTHING
        return self._piece[position - self._position :]


def split_log(
    pieces: LogFetch,
    *,
    name: str,
    after: int = -1,
    torn_tail: bool = False,
    at_border: Callable[[], object] = lambda: None,
    is_continued: bool = False,
) -> Iterator[LogBatches]:
    """Yield the whole batches in the pieces of a log in order, their headers checked.

    Memory is bounded by one piece plus one batch, whatever a length field contains: a
    batch larger than the rest of the log is an error.

    Args:
        pieces: The log.
        name: Log name used in error messages.
        after: Offset that the first batch must be greater than.
        torn_tail: Whether the log may end in an incomplete batch or in zeros, as the
            segment that a broker is writing may.
        at_border: Is called when a further piece begins with a batch: elsewhere a batch
            that two pieces share shows that they are of the same log.
        is_continued: Whether the first piece is a further one, too.

    Raises:
        CorruptBatchError: A batch is malformed, out of order or cut off.
        UnsupportedFormatError: A magic byte or codec is not supported.
    """
    rest, position, previous = _NOTHING, pieces.start, after
    for piece in pieces:
        if not rest and (is_continued or position > pieces.start):
            at_border()
        for part in _stitched(rest, piece):
            data = memoryview(b"".join((rest, part))) if rest else part
            done = 0
            try:
                for found in scan_log(data, offset=position, after=previous, name=name):
                    yield found
                    previous, done = (
                        int(found["last_offset"][-1]),
                        int(found["end"][-1]),
                    )
            except CorruptBatchError:
                if not torn_tail or not _are_zeros(data[done:]):
                    raise
            rest = data[done:]
            position += done
        # Fewer zeros may be the offset of a batch that the next piece continues.
        if torn_tail and len(rest) >= _SIZE_END and _are_zeros(rest):
            return
        claimed = claimed_size(rest, 0, offset=position, name=name)
        if claimed is not None and claimed > pieces.size - position:
            _check_torn(claimed, pieces.size, position, name=name, torn_tail=torn_tail)
            return
        pieces.needed = 0 if claimed is None else claimed - len(rest)
    if len(rest) and not torn_tail:
        msg = f"{name}: {len(rest)} bytes at position {position} are not a batch"
        raise CorruptBatchError(msg)


def _check_torn(
    claimed: int, size: int, position: int, *, name: str, torn_tail: bool
) -> None:
    """Refuse a batch that a log cuts off, unless the log may end so.

    Args:
        claimed: Bytes that the batch claims.
        size: Bytes of the log.
        position: Position of the batch.
        name: Log name used in error messages.
        torn_tail: Whether the log may end in an incomplete batch.
    """
    if not torn_tail:
        msg = (
            f"{name}: batch at position {position}: {size - position} bytes are left "
            f"of a batch of {claimed}"
        )
        raise CorruptBatchError(msg)


def read_log(log: LogSource) -> Iterator[LogBatches]:
    """Yield the batches of an open log, of which a few MiB are read at a time.

    Raises:
        CorruptBatchError: As in ``split_log``.
        UnsupportedFormatError: As in ``split_log``.
    """
    pieces = LogFetch(log.fetch, log.size, fetch_size=PIECE_BYTES)
    return split_log(pieces, name=log.name)


def read_batches(log: LogSource) -> Iterator[LogBatch]:
    """Yield the batches of an open log one by one, their checksums checked."""
    return chain.from_iterable(read_log(log))


def read_torn_batches(
    fetch: Callable[[int, int], memoryview],
    size: int,
    *,
    fetch_size: int,
    name: str,
    start: int = 0,
) -> Iterator[LogBatch]:
    """Fetch a log that a broker is writing, and yield its whole batches one by one.

    The incomplete batch at its end is left out, as by ``split_log``; it may have zeros
    behind it, as in a file that a broker has preallocated. A log that ends so is read
    to its end, for the zeros. Checksums are checked.

    Args:
        fetch: Returns the bytes ``[start, end)`` of the log, and may return more.
        size: Bytes of the log.
        fetch_size: Bytes of each request.
        name: Log name used in error messages.
        start: Position of the first batch.

    Raises:
        CorruptBatchError: A batch is malformed, or out of order.
        UnsupportedFormatError: A magic byte or codec is not supported.
    """
    position, after, failed_at = start, -1, -1
    while True:
        pieces = LogFetch(fetch, size, fetch_size=fetch_size, start=position)
        found = split_log(pieces, name=name, after=after, torn_tail=True)
        try:
            for batches in found:
                for batch in batches:
                    yield batch
                    position, after = batch.header.end, batch.header.last_offset
        except CorruptBatchError:
            if _ends_torn(fetch, size, position, fetch_size):
                return
            # A broker may have written the rest of the batch meanwhile, and more.
            if position == failed_at:
                raise
            failed_at = position
        else:
            return


def _ends_torn(
    fetch: Callable[[int, int], memoryview], size: int, position: int, fetch_size: int
) -> bool:
    """Return whether a log ends in the first part of a batch, and zeros behind it.

    Args:
        fetch: As ``read_torn_batches`` takes it.
        size: Bytes of the log.
        position: Position of the batch.
        fetch_size: Bytes of each request.
    """
    try:
        claimed = claimed_size(fetch(position, min(position + _SIZE_END, size)), 0)
    except CorruptBatchError:
        end = position + _SIZE_FROM  # the size is not written yet
    else:
        end = size if claimed is None else position + claimed
        if end >= size or not may_be_torn(fetch(position, end)[: end - position]):
            return False
    pieces = LogFetch(fetch, size, fetch_size=fetch_size, start=end)
    return all(map(_are_zeros, pieces))


def _are_zeros(data: Buffer) -> bool:
    return not np.count_nonzero(np.frombuffer(data, np.uint8))


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
