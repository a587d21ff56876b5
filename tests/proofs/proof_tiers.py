"""A real tier with one damaged file: what is read is the same, or a typed error."""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import tieredfs
from support.damage import damaged
from support.golden import rows_of
from support.kafka_data import KAFKA

_TIERS = ["plain", "txn", "two-partitions", "epochs"]
_INDEXES = (".index", ".timeindex", "leader_epoch_checkpoint")


@cache
def _files(name: str) -> Mapping[str, bytes]:
    root = KAFKA / name / "kafka-tiered-storage"
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@contextlib.contextmanager
def _stored(files: Mapping[str, bytes]) -> Iterator[tieredfs.Topic]:
    """Put files into a store in memory, and open the topic they are of."""
    fs, root = fsspec.filesystem("memory"), f"/proof-{uuid.uuid4().hex}"
    fs.pipe({f"{root}/{path}": data for path, data in files.items()})
    try:
        tier = tieredfs.open_tier(f"memory:/{root}", plugin="kafka-local")
        yield tier.topic(tier.topics()[0])
    finally:
        fs.rm(root, recursive=True)


@cache
def _true_records(name: str, partition: int) -> list[dict[str, Any]]:
    with _stored(_files(name)) as topic:
        return rows_of(topic.scan([partition]).to_table())


@cache
def _true_times(name: str, partition: int) -> tuple[int, ...]:
    with _stored(_files(name)) as topic:
        stamps = topic.scan([partition]).to_table()["timestamp"]
    return tuple(sorted(set(stamps.cast(pa.int64()).to_pylist())))


@cache
def _true_answer(name: str, partition: int, stamp: int) -> object:
    with _stored(_files(name)) as topic:
        return topic.offsets_for_times({partition: stamp})[partition]


class _Damage(NamedTuple):
    """A tier with one file damaged, and the partition that it is of."""

    tier: str
    partition: int
    path: str
    data: bytes

    def files(self) -> Mapping[str, bytes]:
        return dict(_files(self.tier)) | {self.path: self.data}


@st.composite
def damages(draw: st.DrawFn, suffixes: tuple[str, ...]) -> _Damage:
    """Draw a tier, and what becomes of one of its files."""
    name = draw(st.sampled_from(_TIERS))
    files = _files(name)
    path = draw(st.sampled_from([p for p in files if p.endswith(suffixes)]))
    partition = int(Path(path).parts[0].removeprefix(f"{name}-").split("-")[0])
    return _Damage(name, partition, path, draw(damaged(files[path])))


@pytest.mark.parametrize("suffixes", [(".log",), _INDEXES], ids=["log", "index"])
@given(data=st.data())
def test_records_read_from_any_offset_are_the_same_or_a_typed_error(
    suffixes: tuple[str, ...], data: st.DataObject
) -> None:
    damage = data.draw(damages(suffixes))
    name, partition = damage.tier, damage.partition
    true = _true_records(name, partition)
    back = data.draw(st.integers(1, len(true)))
    with contextlib.suppress(tieredfs.TieredFSError), _stored(damage.files()) as topic:
        scan = topic.scan([partition], start={partition: true[-back]["offset"]})
        assert rows_of(scan.to_table()) == true[-back:]


@pytest.mark.parametrize("suffixes", [(".log",), _INDEXES], ids=["log", "index"])
@given(data=st.data())
def test_times_are_found_where_they_were_or_a_typed_error(
    suffixes: tuple[str, ...], data: st.DataObject
) -> None:
    damage = data.draw(damages(suffixes))
    name, partition = damage.tier, damage.partition
    near = data.draw(st.integers(-1, 1))
    stamp = data.draw(st.sampled_from(_true_times(name, partition))) + near
    true = _true_answer(name, partition, stamp)
    with contextlib.suppress(tieredfs.TieredFSError), _stored(damage.files()) as topic:
        assert topic.offsets_for_times({partition: stamp})[partition] == true
