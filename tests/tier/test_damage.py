"""A wrong byte or a cut in any file of a log is an error, or changes no answer."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.stores import files_of, fill
from tieredfs import ObjectStore, Tier, TieredFSError, Topic, open_storage


@dataclass(frozen=True)
class Log:
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
            found = read(open_log(self.store, self.plugin), self.times)
        except TieredFSError as error:
            named = str(error)
            assert self.store.url in named
            assert key.rpartition("/")[0].partition("-0")[0] in named
        else:
            assert found == self.answers
        finally:
            self.store.put(key, self.files[key], overwrite=True)


def open_log(store: ObjectStore, plugin: str) -> Topic:
    tier = Tier(open_storage(store, plugin))
    return tier.topic(tier.topics()[0])


def read(topic: Topic, times: tuple[int, ...]) -> tuple[Any, ...]:
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


def make_log(name: str, kind: str, plugin: str, keep: Callable[[str], bool]) -> Log:
    files = {k: v for k, v in files_of(KAFKA / name / kind).items() if keep(k)}
    store = ObjectStore(f"memory://{uuid.uuid4().hex}")
    fill(store, files)
    topic = open_log(store, plugin)
    stamps = topic.scan().to_table()["timestamp"].cast(pa.int64()).to_pylist()
    near = {stamp + step for stamp in stamps[::25] for step in (0, 1)}
    times = (0, *sorted(near), max(stamps), max(stamps) + 1)
    return Log(store, plugin, files, times, read(topic, times))


@pytest.fixture(scope="module")
def one_batch() -> Log:
    """A segment of one batch that a broker tiered."""
    return make_log(
        "plain", REMOTE, "kafka-local", lambda key: "/00000000000000000298" in key
    )


@pytest.fixture(scope="module")
def tiered() -> Log:
    """Two segments that a broker tiered, 20 KB."""
    starts = ("/00000000000000000541", "/00000000000000000577")
    return make_log(
        "plain", REMOTE, "kafka-local", lambda key: any(s in key for s in starts)
    )


@pytest.fixture(scope="module")
def on_disk() -> Log:
    """A closed and an active segment of a broker's log directory, 60 KB."""
    starts = ("/00000000000000000400", "/00000000000000000500", "/leader", "/partition")
    return make_log(
        "epochs", LOCAL, "kafka-log", lambda key: any(s in key for s in starts)
    )


@pytest.mark.parametrize(
    "suffix", ["log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"]
)
def test_every_bit_of_a_small_segment(one_batch: Log, suffix: str) -> None:
    (key,) = [key for key in one_batch.files if key.endswith(f".{suffix}")]
    content = one_batch.files[key]
    for at in range(len(content)):
        one_batch.check(key, content[:at])
        for bit in range(8):
            wrong = bytearray(content)
            wrong[at] ^= 1 << bit
            one_batch.check(key, bytes(wrong))
    one_batch.check(key, content + b"\0")


@st.composite
def _damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Draw a cut, or another value for one byte, anywhere in a file."""
    share = draw(st.floats(0, 1, exclude_max=True))
    # The header of the first batch, and an index's first entry, are where it matters.
    near = draw(st.none() | st.integers(0, 70))
    other = draw(st.none() | st.integers(1, 255))

    def damage(content: bytes) -> bytes:
        if not content:
            return b"\0"
        at = int(share * len(content)) if near is None else min(near, len(content) - 1)
        if other is None:
            return content[:at]
        return content[:at] + bytes([content[at] ^ other]) + content[at + 1 :]

    return damage


@given(data=st.data(), damage=_damages())
def test_any_byte_of_what_a_broker_tiered(
    tiered: Log, data: st.DataObject, damage: Callable[[bytes], bytes]
) -> None:
    key = data.draw(st.sampled_from(sorted(tiered.files)))
    tiered.check(key, damage(tiered.files[key]))


@given(data=st.data(), damage=_damages())
def test_any_byte_of_a_closed_segment_on_disk(
    on_disk: Log, data: st.DataObject, damage: Callable[[bytes], bytes]
) -> None:
    closed = [key for key in on_disk.files if "00400" in key]
    key = data.draw(st.sampled_from(sorted(closed)))
    on_disk.check(key, damage(on_disk.files[key]))
