"""What to download next, and what is held: a sliding window over several logs.

Nothing is downloaded here, and no clock is read: who does that tells the window what
came of each request. A log is cut into pieces, and a piece is in one of these states:

| state | may become | when |
|---|---|---|
| running | held | its bytes have arrived |
| | waiting | the attempt failed, and another one may help |
| | failed | the attempt failed, and no other one is made |
| waiting | running | its time has come, and a request is free |
| held, failed | | its reader takes it from here; so it does one that waits too long |

A piece that is running counts against the limits of requests; one that is waiting does
not. Bytes count from the first attempt until the reader has passed them.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tieredfs.integers import to_integer
from tieredfs.model import SegmentMetadata
from tieredfs.storage.segment_log.stream import grown, request_end

__all__ = ["DownloadWindow", "FetchLimits", "LogRange", "Piece", "PieceState"]

_NOTHING: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is downloaded ahead.

    Attributes:
        prefetch_segments: Maximum number of segments, after the one that is being read,
            of which something is downloaded and not yet read.
        download_threads: Maximum number of segments that are downloaded concurrently.
        connections: Maximum number of concurrent requests for one segment.
        max_bytes: Maximum bytes that are downloaded, or being downloaded, and not yet
            read. A single piece may have more, and each answer the rest of a chunk.
    """

    prefetch_segments: int = 4
    download_threads: int = 3
    connections: int = 4
    max_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing.

        Raises:
            InvalidArgumentError: A limit is not an integer, or below 1.
        """
        for name in self.__slots__:
            to_integer(getattr(self, name), name, minimum=1)


@dataclass(frozen=True, slots=True)
class LogRange:
    """A part of a segment's log.

    Attributes:
        segment: The segment, whose size is known.
        start: First byte.
        until: Byte after the last.
        first_bytes: Bytes of the first request, from which the others grow; None for as
            many as each other has.
    """

    segment: SegmentMetadata
    start: int
    until: int
    first_bytes: int | None = None

    def piece_end(self, start: int, piece_bytes: int) -> int:
        """Return where the piece that begins at ``start`` ends."""
        size = self.segment.size or 0
        return request_end(start, self.until, size, piece_bytes)


class PieceState(StrEnum):
    """What became of a piece."""

    RUNNING = "running"
    WAITING = "waiting"
    HELD = "held"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class Piece:
    """A part of a log that is downloaded by one request.

    Attributes:
        number: The number of its log, from 0.
        segment: The segment.
        start: First byte.
        end: Byte after the last one that is requested.
        begun: When its first attempt began.
        is_first: Whether it is the few bytes with which everything begins.
        attempt: The number of its last attempt, from 1.
        state: What became of it.
        due: When the next attempt may begin, if it waits for one.
        data: Its bytes, perhaps more than requested, once they are held.
        error: Why its last attempt failed, if it did.
    """

    number: int
    segment: SegmentMetadata
    start: int
    end: int
    begun: float
    is_first: bool = False
    attempt: int = 1
    state: PieceState = PieceState.RUNNING
    due: float = 0.0
    data: memoryview = _NOTHING
    error: BaseException | None = None

    @property
    def reach(self) -> int:
        """Byte after the last one that it covers."""
        return max(self.end, self.start + len(self.data))

    def is_left_to_reader(self, now: float) -> bool:
        """Return whether its reader has to fetch it: it failed, or no request is free.

        Args:
            now: The time, in seconds.
        """
        is_waiting = self.state is PieceState.WAITING and self.due <= now
        return is_waiting or self.state is PieceState.FAILED

    @property
    def size(self) -> int:
        """The bytes that it counts for."""
        return self.reach - self.start


@dataclass(slots=True, eq=False)
class _Log:
    """A log in the window.

    Attributes:
        number: Its number, from 0.
        wanted: What is wanted of it.
        cut: Up to which byte pieces have been cut.
        next_bytes: Bytes of the next piece.
        is_exact: Whether its layout returns exactly what is requested; None as long as
            nothing has arrived. Only then are several pieces requested concurrently:
            the others begin where the one before has really ended.
        pieces: Those that the reader has not passed.
    """

    number: int
    wanted: LogRange
    cut: int
    next_bytes: int
    is_exact: bool | None = None
    pieces: deque[Piece] = field(default_factory=deque)

    def running(self) -> int:
        """Return the number of its requests."""
        return sum(piece.state is PieceState.RUNNING for piece in self.pieces)


class DownloadWindow:
    """Decide which piece of which log is requested next.

    Logs are requested in their order, earlier ones first.

    Attributes:
        held_bytes: Bytes that are downloaded, or being downloaded, and not yet read.
    """

    def __init__(self, limits: FetchLimits, piece_bytes: int) -> None:
        """Create an empty window.

        Args:
            limits: How much is downloaded ahead.
            piece_bytes: Bytes of a piece.
        """
        self.held_bytes = 0
        self._limits = limits
        self._piece_bytes = piece_bytes
        self._logs: deque[_Log] = deque()
        self._added = 0
        self._is_reading = False

    @property
    def max_requests(self) -> int:
        """Maximum number of concurrent requests."""
        return self._limits.download_threads * self._limits.connections

    @property
    def has_room(self) -> bool:
        """Whether another log may be added."""
        return len(self._logs) <= self._limits.prefetch_segments

    def add(self, wanted: LogRange) -> int:
        """Add the next log, and return its number."""
        number, self._added = self._added, self._added + 1
        first = wanted.first_bytes or self._piece_bytes
        self._logs.append(_Log(number, wanted, wanted.start, first))
        return number

    def next_request(self, now: float) -> Piece | None:
        """Begin an attempt of the next piece; None if none may be requested now.

        Args:
            now: The time, in seconds.
        """
        downloading = sum(log.running() > 0 for log in self._logs)
        for log in self._logs:
            running = log.running()
            if not running and downloading >= self._limits.download_threads:
                continue
            if running >= (self._limits.connections if log.is_exact else 1):
                if log.is_exact is None and log.wanted.first_bytes:
                    return None  # the reader waits for these few bytes
                continue
            for piece in log.pieces:
                if piece.state is PieceState.WAITING and piece.due <= now:
                    piece.state, piece.attempt = PieceState.RUNNING, piece.attempt + 1
                    return piece
            if log.cut >= log.wanted.until or not (log.is_exact or _is_settled(log)):
                continue
            end = log.wanted.piece_end(log.cut, log.next_bytes)
            size = end - log.cut
            if self.held_bytes and self.held_bytes + size > self._limits.max_bytes:
                return None
            is_first = bool(log.wanted.first_bytes) and log.cut == log.wanted.start
            piece = Piece(log.number, log.wanted.segment, log.cut, end, now, is_first)
            log.pieces.append(piece)
            log.cut, log.next_bytes = end, grown(log.next_bytes, self._piece_bytes)
            self.held_bytes += size
            return piece
        return None

    def received(self, piece: Piece, data: memoryview) -> None:
        """Note that a running piece has arrived.

        Args:
            piece: The piece.
            data: At least the bytes that were requested.
        """
        log = self._log(piece.number)
        piece.state, piece.error = PieceState.HELD, None
        if log is None or piece not in log.pieces:  # its reader has gone
            return
        self.held_bytes -= piece.size
        piece.data = data
        self.held_bytes += piece.size
        if piece.reach > piece.end:
            log.is_exact, log.cut = False, max(log.cut, piece.reach)
        elif log.is_exact is None:
            log.is_exact = True

    def failed(
        self, piece: Piece, due: float | None, error: BaseException | None = None
    ) -> None:
        """Note that an attempt of a running piece has failed.

        Args:
            piece: The piece.
            error: Why.
            due: When to try again; None to give it up.
        """
        piece.state = PieceState.FAILED if due is None else PieceState.WAITING
        piece.due = 0.0 if due is None else due
        piece.error = error

    def covering(self, number: int, position: int) -> Piece | None:
        """Return the piece of a log that contains a byte, if there is one."""
        log = self._log(number)
        for piece in log.pieces if log else ():
            if piece.start <= position < piece.reach:
                return piece
        return None

    def pass_by(self, number: int, position: int) -> None:
        """Release what a log's reader has passed.

        Args:
            number: The log's number.
            position: The byte that its reader needs next.
        """
        log = self._log(number)
        while log and log.pieces and log.pieces[0].reach <= position:
            self.held_bytes -= log.pieces.popleft().size

    def begin_next(self) -> None:
        """Release the log that is being read, if any, and go on with the next one."""
        if self._is_reading and self._logs:
            self._release(self._logs.popleft())
        self._is_reading = True

    def take_over(self, number: int, start: int, end: int) -> None:
        """Leave the next bytes of a log to its reader, who fetches them itself.

        Args:
            number: The log's number.
            start: First byte; a piece that contains it has failed.
            end: Byte after the last.
        """
        log, failed = self._log(number), self.covering(number, start)
        if log and failed:
            log.pieces.remove(failed)
            self.held_bytes -= failed.size
        if log:
            log.cut = max(log.cut, end)

    def clear(self) -> None:
        """Remove every log."""
        self._logs.clear()
        self.held_bytes, self._is_reading = 0, False

    def _release(self, log: _Log) -> None:
        self.held_bytes -= sum(piece.size for piece in log.pieces)

    def _log(self, number: int) -> _Log | None:
        """Return a log, unless its reader has passed it."""
        return next((log for log in self._logs if log.number == number), None)


def _is_settled(log: _Log) -> bool:
    """Return whether every piece of a log has arrived, or there is none yet."""
    return all(piece.state is PieceState.HELD for piece in log.pieces)
