"""The journal of a partition in the store: numbered entries, each written once.

An entry is created exclusively under the next number. So of two managers that change a
partition, one is refused: it has not seen the other's entry, reads it, and finds that
it is not in charge any more. Nothing but the journal is needed for that, no clock and
no lock. On a store that cannot create exclusively the caller has to be the only
writer.

The last entries are kept, as a history of what was done, and older ones are deleted.
So a manager that has stood still for many entries, or until the whole journal was
deleted, may create one that was there before. It lists the journal after it has written
to it, and finds that.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    FencedError,
    NotFoundError,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from tieredfs.format.segment.key_scheme import JOURNAL_FOLDER
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.log.journal.entry import JournalEntry, encode_entry, parse_entry
from tieredfs.log.journal.state import PartitionState
from tieredfs.model import UNKNOWN_TOPIC_ID, TopicIdPartition
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager

__all__ = [
    "PartitionJournal",
    "first_copied_offset",
    "journalled_partitions",
    "read_state",
]

_SUFFIX: Final = ".json"
_DIGITS: Final = 20
_MIN_HISTORY: Final = 16
"""The entries that are kept; twice as many, before some are deleted. By it ``append``
finds that an entry was deleted, so a release may lower it and not raise it."""

_ATTEMPTS: Final = 5
"""Listings until the last entry of one is not deleted before it is read."""

_keys = NativeKeys()


def journalled_partitions(
    store: ObjectStore, topic: str | None = None
) -> list[TopicIdPartition]:
    """List the partitions that have a journal, sorted.

    Args:
        store: The store of a tier.
        topic: Only those of this topic; None for all.

    Raises:
        NotFoundError: The container of the store does not exist.
    """
    prefix = (
        JOURNAL_FOLDER if topic is None else JOURNAL_FOLDER + _keys.topic_prefix(topic)
    )
    folders = {entry.key.rpartition("/")[0] for entry in store.list(prefix)}
    found = (
        _keys.parse_partition(folder.removeprefix(JOURNAL_FOLDER).split("/"))
        for folder in folders
    )
    return sorted(one for one in found if one is not None)


def read_state(store: ObjectStore, partition: TopicIdPartition) -> PartitionState:
    """Return what the journal of a partition says; of one without, that of a new one.

    Raises:
        CorruptObjectError: The last entry is malformed.
        UnsupportedFormatError: A newer release has written it.
    """
    entry = PartitionJournal(store, partition, writer="").read()
    return PartitionState(partition) if entry is None else entry.state


def first_copied_offset(
    target: RemoteStorageManager, partition: TopicIdPartition
) -> int:
    """Return the earliest offset whose segments are copied to a partition.

    Args:
        target: Where they are copied to.
        partition: The partition, with its topic id also where the target keeps none.

    Raises:
        FencedError: The partition is being deleted, so that nothing is copied to it.
        CorruptObjectError: As ``read_state``.
        UnsupportedFormatError: As ``read_state``.
    """
    if not target.keeps_topic_ids:
        partition = replace(partition, topic_id=UNKNOWN_TOPIC_ID)
    state = read_state(target.store, partition)
    if state.deletion is not None:
        raise FencedError(
            f"{partition} is being deleted in {target.store.url}: nothing is copied to "
            "it until that has ended"
        )
    return state.log_start


@dataclass(frozen=True, slots=True)
class PartitionJournal:
    """The journal of one partition.

    Attributes:
        store: The store of the tier.
        partition: The partition.
        writer: The unique name of the manager that writes with it.
        is_only_writer: Whether the caller vouches that nothing else writes, so that a
            store which cannot create objects exclusively will do.
    """

    store: ObjectStore
    partition: TopicIdPartition
    writer: str
    is_only_writer: bool = False

    def read(self) -> JournalEntry | None:
        """Return the last entry; None if there is none.

        Raises:
            CorruptObjectError: It is malformed.
            UnsupportedFormatError: A newer release has written it.
            StorageUnavailableError: Each entry that was listed as the last one was gone
                when it was read.
        """
        for _ in range(_ATTEMPTS):
            numbers = list(self._numbers())
            if not numbers:
                return None
            key = self._key(max(numbers))
            with suppress(NotFoundError):  # deleted with the partition, or as too old
                name = f"{self.store.url}/{key}"
                entry = parse_entry(self.store.get(key), self.partition, name)
                if entry.number != max(numbers):
                    raise CorruptObjectError(
                        f"{name}: it is entry {entry.number} of a journal"
                    )
                return entry
        raise StorageUnavailableError(
            f"{self.store.url}/{self._folder}: its last entry was deleted each time "
            "before it was read"
        )

    def append(
        self, last: JournalEntry | None, change: str, state: PartitionState
    ) -> JournalEntry:
        """Write the next entry.

        When it returns, every later ``read`` returns this entry or a later one. When it
        raises, it may have been written; ``read`` tells.

        Args:
            last: The entry that ``state`` follows, from ``read`` or ``append``.
            change: What was changed, in a few words.
            state: The state after the change.

        Raises:
            FencedError: Another writer has written an entry after ``last``, or has
                deleted the journal.
            UnsupportedOperationError: The store is read-only, or cannot create objects
                exclusively and the caller is not the only writer.
        """
        number = 1 if last is None else last.number + 1
        entry = JournalEntry(number, change, self.writer, state)
        key, data = self._key(number), encode_entry(entry)
        try:
            self._put(key, data)
        except AlreadyExistsError as error:
            raise self._fenced_error(key) from error
        numbers = set(self._numbers())
        is_cleared = last is not None and last.number not in numbers
        if is_cleared or max(numbers, default=0) >= number + _MIN_HISTORY:
            self.store.delete([key])  # it follows nothing
            raise self._fenced_error(key)
        if number % _MIN_HISTORY == 0:
            old = (one for one in numbers if one <= number - _MIN_HISTORY)
            self.store.delete([self._key(one) for one in old])
        return entry

    def clear(self) -> None:
        """Delete the journal: the partition is as one that was never managed."""
        numbers = sorted(self._numbers())
        # One after the other, so that what a crash leaves has the last entry.
        for some in (numbers[:-1], numbers[-1:]):
            self.store.delete([self._key(one) for one in some])

    def _put(self, key: str, data: bytes) -> None:
        """Create an entry exclusively, or as the only writer."""
        try:
            self.store.put(key, data, overwrite=False)
        except UnsupportedOperationError as error:
            if not self.is_only_writer:
                raise UnsupportedOperationError(
                    f"{error}: two managers could change {self.partition} without "
                    "seeing each other; if there is only one, say so (--single-writer)"
                ) from error
            self.store.put(key, data, overwrite=True)

    def _fenced_error(self, key: str) -> FencedError:
        return FencedError(
            f"{self.partition}: another manager has changed it meanwhile, or its "
            f"journal was deleted: {self.store.url}/{key} does not follow the entry "
            "that this one has read"
        )

    @property
    def _folder(self) -> str:
        return JOURNAL_FOLDER + _keys.partition_prefix(self.partition)

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:0{_DIGITS}d}{_SUFFIX}"

    def _numbers(self) -> Iterator[int]:
        for entry in self.store.list(self._folder):
            name = entry.key.removeprefix(self._folder).removesuffix(_SUFFIX)
            if len(name) == _DIGITS and name.isascii() and name.isdigit():
                yield int(name)
