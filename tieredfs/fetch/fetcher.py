"""Download the logs of segments in order, ahead of their reader.

What is downloaded when is up to the ``DownloadWindow``; here are the threads, the
clock and the storage. The storage is asked for one attempt each time: an attempt that
fails gives its place to another piece while it waits.
"""

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from tieredfs.errors import DeadlineExceededError, TieredFSError
from tieredfs.fetch.attempts import Attempts
from tieredfs.fetch.window import (
    DownloadWindow,
    FetchLimits,
    LogRange,
    Piece,
    PieceState,
)
from tieredfs.model import SegmentMetadata
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.storage import RemoteStorageManager

__all__ = ["FetchedLog", "RemoteLogFetcher"]

_PIECES: Final = 8
"""Number of pieces that are held by default, beside the one that is being read."""

_HEAD_START_SECONDS: Final = 0.02
"""How long the reader alone has the processor when the first few bytes are there: to
begin all other requests takes longer than to decode them.
"""


@dataclass(frozen=True, slots=True)
class FetchedLog:
    """A part of a log that is being downloaded.

    Attributes:
        wanted: Which part.
    """

    wanted: LogRange
    _round: "_Round"
    _number: int

    def read(self, start: int, end: int) -> memoryview:
        """Return the next bytes of the log: those of one request.

        It waits for those that are being downloaded, and fetches by itself those that
        are not, or whose download has failed. Bytes before ``start`` are released.

        Args:
            start: First byte.
            end: Byte after the last one to fetch if they are not being downloaded.

        Returns:
            At least one byte, from ``start`` on.

        Raises:
            NotFoundError: The segment is gone.
            CorruptDataError: The log is not what was stored.
            StorageUnavailableError: The store failed in all attempts.
            DeadlineExceededError: The store did not answer in time.
        """
        return self._round.read(self._number, self.wanted.segment, start, end)


class RemoteLogFetcher:
    """Fetch parts of logs, one after the other, through a sliding window.

    While one is read, the next ones are downloaded, within ``FetchLimits``. They are
    yielded in their order, and the bytes of each in theirs, whichever arrives first. A
    download that fails is made again where its bytes are needed, before its error is
    raised there.

    Everything is held in memory: a large log is downloaded in pieces, of which no more
    are held than ``FetchLimits.max_bytes``.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        piece_bytes: int,
        limits: FetchLimits | None = None,
        *,
        attempts: Attempts | None = None,
    ) -> None:
        """Create a fetcher, without sending a request or starting a thread.

        Args:
            storage: Where the segments are.
            piece_bytes: Bytes of each request.
            limits: How much is downloaded ahead; None for four segments, of which at
                most eight pieces are held.
            attempts: How often an attempt is repeated, and when; None for what the
                policy of the storage's store says.
        """
        self._piece_bytes = piece_bytes
        self._limits = limits or FetchLimits(max_bytes=_PIECES * piece_bytes)
        self._attempts = attempts or Attempts.of(storage)
        self._round: _Round | None = None

    def fetch(self, wanted: Iterable[LogRange]) -> Iterator[FetchedLog]:
        """Fetch parts of logs, in their order.

        It ends an earlier call: what that has downloaded is dropped, and its iterator
        stops.

        Args:
            wanted: The parts; each is taken when the window has room for it.

        Yields:
            Each part, to be read before the next one is taken.
        """
        self.close()
        self._round = _Round(
            self._attempts, DownloadWindow(self._limits, self._piece_bytes), wanted
        )
        return self._round.logs()

    def close(self) -> None:
        """End all downloads; what is being downloaded is dropped when it arrives.

        It does not wait: a request has a deadline of its own. Closing again does
        nothing.
        """
        if self._round is not None:
            self._round.end()

    def __enter__(self) -> Self:
        """Use the fetcher in a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class _Round:
    """What one call of ``RemoteLogFetcher.fetch`` downloads.

    Every change of the window is made under one lock, and its readers wait for it.
    """

    def __init__(
        self, attempts: Attempts, window: DownloadWindow, wanted: Iterable[LogRange]
    ) -> None:
        self._attempts = attempts
        self._window = window
        self._wanted = iter(wanted)
        self._added: deque[tuple[int, LogRange]] = deque()
        self._lock = make_lock()
        self._changed = threading.Condition(self._lock)
        self._process = os.getpid()
        self._pool = DaemonExecutor(window.max_requests, "tieredfs-fetch")
        self._is_ended = False

    def logs(self) -> Iterator[FetchedLog]:
        """Yield the logs, in order."""
        while True:
            with self._lock:
                if self._is_ended:
                    return
                self._window.begin_next()
                self._advance()
                if not self._added:
                    return
                number, wanted = self._added.popleft()
            yield FetchedLog(wanted, self, number)

    def end(self) -> None:
        """Drop everything, and begin nothing more."""
        with self._lock:
            self._is_ended = True
            self._window.clear()
            self._changed.notify_all()

    def read(
        self, number: int, segment: SegmentMetadata, start: int, end: int
    ) -> memoryview:
        """Return bytes of a log from ``start`` on, once they are there.

        What has failed is fetched again in what is left of the deadline, which begins
        when the bytes are needed.
        """
        begun, failed = self._attempts.clock(), None
        with self._lock:
            while not self._is_ended and not self._is_forked:
                self._window.pass_by(number, start)
                piece = self._window.covering(number, start)
                if piece and piece.is_first and piece.state is PieceState.HELD:
                    return piece.data[start - piece.start :]
                self._advance()
                piece = self._window.covering(number, start)
                if piece is None or piece.is_left_to_reader(self._attempts.clock()):
                    if piece is not None:
                        end, failed = piece.end, piece.error
                    self._window.take_over(number, start, end)
                    break
                if piece.state is PieceState.HELD:
                    return piece.data[start - piece.start :]
                self._changed.wait(SIGNAL_CHECK_SECONDS)
        try:
            if failed is not None:
                if self._attempts.is_only_one or self._attempts.is_late(begun):
                    raise failed
                self._attempts.repeated()
            return self._fetch_now(segment, start, end, begun)
        finally:
            failed = None  # it refers to this frame, if it was raised

    def _fetch_now(
        self, segment: SegmentMetadata, start: int, end: int, begun: float
    ) -> memoryview:
        """Fetch bytes in the thread that needs them."""
        attempts, attempt = self._attempts, 1
        while True:
            try:
                return attempts.make(segment, start, end, begun, attempt)
            except TieredFSError as error:
                delay = attempts.delay(error, begun, attempt)
                if delay is None and isinstance(error, DeadlineExceededError):
                    raise attempts.overdue(segment, start) from error
                if delay is None:
                    raise
            attempts.sleep(delay)
            attempt += 1

    def _advance(self) -> None:
        """Add logs while there is room, and begin what may begin; the lock is held.

        A forked child has none of the threads: it fetches where it reads.
        """
        if self._is_ended:
            return
        while self._window.has_room:
            wanted = next(self._wanted, None)
            if wanted is None:
                break
            self._added.append((self._window.add(wanted), wanted))
        while not self._is_forked:
            piece = self._window.next_request(self._attempts.clock())
            if piece is None:
                return
            try:
                self._pool.submit(self._attempt, piece)
            except RuntimeError:  # there are no more threads
                self._window.failed(piece, None)
                return

    def _attempt(self, piece: Piece) -> None:
        """Make an attempt at a piece, and tell the window what came of it."""
        if self._is_ended:
            return
        attempts, delay = self._attempts, None
        try:
            data = attempts.make(
                piece.segment, piece.start, piece.end, piece.begun, piece.attempt
            )
        except BaseException as error:  # noqa: BLE001 - its reader tries again
            delay = attempts.delay(error, piece.begun, piece.attempt)
            with self._lock:
                due = None if delay is None else attempts.clock() + delay
                self._window.failed(piece, due, error)
                self._go_on()
        else:
            with self._lock:
                self._window.received(piece, data)
                if piece.is_first:
                    self._changed.notify_all()
                else:
                    self._go_on()
            if piece.is_first:
                delay = _HEAD_START_SECONDS
        if delay is not None:
            with suppress(RuntimeError):  # there are no more threads: its reader looks
                attempts.after(delay, self._wake)

    @property
    def _is_forked(self) -> bool:
        return self._process != os.getpid()

    def _wake(self) -> None:
        with self._lock:
            self._go_on()

    def _go_on(self) -> None:
        """Begin what may begin now, and wake the reader; the lock is held."""
        self._advance()
        self._changed.notify_all()
