"""A small log that a test damages, file by file."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from support.kafka_data import KAFKA
from support.stores import files_of, fill
from tieredfs import ObjectStore, Tier, TieredFSError, Topic, open_storage

__all__ = ["DamagedLog", "make_log"]


@dataclass(frozen=True)
class DamagedLog:
    """A log of few segments, in memory.

    Attributes:
        store: Where it is.
        plugin: Its layout.
        files: Its files as a broker wrote them.
        times: What is looked up in it, ms.
        answers: What is read of it as it was written.
    """

    store: ObjectStore
    plugin: str
    files: Mapping[str, bytes]
    times: tuple[int, ...]
    answers: tuple[Any, ...]

    def check(self, key: str, content: bytes) -> None:
        """Damage one file, and see that no answer changes without an error."""
        self.store.put(key, content, overwrite=True)
        try:
            found = _read(_open_log(self.store, self.plugin), self.times)
        except TieredFSError as error:
            named = str(error)
            assert self.store.url in named
            assert key.rpartition("/")[0].partition("-0")[0] in named
        else:
            assert found == self.answers
        finally:
            self.store.put(key, self.files[key], overwrite=True)


def _open_log(store: ObjectStore, plugin: str) -> Topic:
    tier = Tier(open_storage(store, plugin))
    return tier.topic(tier.topics()[0])


def _read(topic: Topic, times: tuple[int, ...]) -> tuple[Any, ...]:
    """Ask everything that can be asked of a log."""
    ((_, start),) = topic.beginning_offsets().items()
    ((_, end),) = topic.end_offsets().items()
    middle = (start + end) // 2
    return (
        start,
        end,
        topic.scan().to_table(),
        topic.scan(start=middle, end=middle + 3).to_table(),
        topic.read(0, middle, 1),
        [topic.offsets_for_times({0: time}) for time in times],
    )


def make_log(
    name: str, kind: str, plugin: str, keep: Callable[[str], bool]
) -> DamagedLog:
    """Return some files of a log that a broker wrote, and what is read of them.

    Args:
        name: The log's folder in ``tests/data/kafka``.
        kind: ``LOCAL`` or ``REMOTE``.
        plugin: Its layout.
        keep: Whether a file, by its path, is one of them.
    """
    files = {k: v for k, v in files_of(KAFKA / name / kind).items() if keep(k)}
    store = ObjectStore(f"memory://{uuid.uuid4().hex}")
    fill(store, files)
    topic = _open_log(store, plugin)
    stamps = topic.scan().to_table()["timestamp"].cast(pa.int64()).to_pylist()
    near = {stamp + step for stamp in stamps[::25] for step in (0, 1)}
    times = (0, *sorted(near), max(stamps), max(stamps) + 1)
    return DamagedLog(store, plugin, files, times, _read(topic, times))
