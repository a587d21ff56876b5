"""A topic's records from its tier, and then from its brokers, each once."""

import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

import pyarrow as pa

from tieredfs.format.records.schema import COLUMNS, project
from tieredfs.log.follow.begin import begin
from tieredfs.log.follow.followed import Followed
from tieredfs.log.follow.handover import Handover
from tieredfs.log.follow.live_log import LiveLog
from tieredfs.log.follow.reading import Reading

__all__ = ["Follow"]


class Follow:
    """The records of a topic as they come, first from its tier, then from its brokers.

    Iterating gives ``pyarrow.RecordBatch``, with the columns of a scan, of one
    partition each: every record once, in offset order within its partition. It does not
    end: it waits for the next records until ``close`` is called, also by another
    thread.

    After an error, ``positions`` is where another call of ``Topic.follow`` goes on.
    """

    def __init__(
        self,
        followed: Followed,
        connect: Callable[[], LiveLog],
        now: Callable[[], float],
    ) -> None:
        """Begin nothing yet; called by ``Topic.follow``.

        Args:
            followed: What is followed.
            connect: Connects to the brokers.
            now: Returns a time in seconds that only grows.
        """
        self._followed = followed
        self._connect = connect
        self._now = now
        self._handovers = dict[int, Handover]()
        self._is_closed = threading.Event()
        self._batches = self._run()

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return project(self._followed.columns)

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition, after the batches so far.

        It is empty before the first batch was asked for.
        """
        return {number: one.position for number, one in self._handovers.items()}

    def __iter__(self) -> Self:
        """Return itself: records come once."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next records; wait for them.

        Raises:
            OffsetOutOfRangeError: Neither the tier nor the broker holds the next offset
                of a partition.
            NotFoundError: The brokers do not have the topic or a partition, or the
                topic's id is not that of the tier: it was deleted and created again.
            PermissionDeniedError: The store or the brokers refuse the credentials.
            CorruptDataError: The stored data is corrupt, or what a broker sent.
            UnsupportedFormatError: The name of a header is not UTF-8, of a record that
                the tier does not have yet: the client for brokers cannot read it.
            InvalidArgumentError: A setting of the client is unknown or invalid.
            StorageUnavailableError: The store failed in all attempts of its policy, or
                no broker answered within its deadline.
            DeadlineExceededError: The store did not answer in time.
        """
        try:
            return next(self._batches)
        except ValueError:
            if self._is_closed.is_set():  # by another thread, just now
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the reading; calling it again does nothing.

        Where another thread waits for the next records, it waits no longer.
        """
        self._is_closed.set()
        with suppress(ValueError):  # it is running, and will see that it is closed
            self._batches.close()

    def __enter__(self) -> Self:
        """Close it at the end of a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the with block."""
        self.close()

    def __repr__(self) -> str:
        """Show the topic and the brokers."""
        return f"Follow({self._followed.topic!r}, bootstrap={self._followed.broker!r})"

    def _run(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the records of both places until it is closed."""
        wanted = list(self._followed.columns or COLUMNS)
        with closing(self._connect()) as live:
            self._handovers = begin(
                self._followed, live, self._now, is_over=self._is_closed.is_set
            )
            with closing(
                Reading(self._followed, live, self._handovers, self._now)
            ) as reading:
                while not self._is_closed.is_set():
                    for new in reading.turn():
                        yield new.records.select(wanted)
                        if self._is_closed.is_set():
                            return
