"""The tail of a segment object, the names of keys, and indexes beside their log."""

import json
import struct
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import google_crc32c

from fuzzing.mutations import INT64S, choice, mutated, number
from fuzzing.target import Target, check_name
from support.golden import header_of, log_batches
from support.kafka_data import KAFKA
from tieredfs.errors import (
    CorruptIndexError,
    CorruptObjectError,
    UnsupportedFormatError,
)
from tieredfs.format.batch.control import ControlRecord, parse_control_record
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.check import IndexCheck
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.format.segment.tail import (
    Chunks,
    LogPart,
    Manifest,
    SegmentFacts,
    build_tail,
    parse_manifest,
    parse_tail,
)
from tieredfs.model import EpochEntry, IndexType

__all__ = ["OBJECT_TARGETS"]

_KEYS: Final = NativeKeys()
_MIB: Final = 1 << 20
_LARGEST: Final = 12_000
_TRAILER: Final = 32
_LOG: Final = 100
_FLAGS: Final = 1
_SUFFIXES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.PRODUCER_SNAPSHOT: ".snapshot",
    IndexType.LEADER_EPOCH: ".leader_epoch_checkpoint",
    IndexType.TRANSACTION: ".txnindex",
}


class _Segment(NamedTuple):
    """A segment that a broker tiered: its batches, with markers, and its indexes."""

    batches: tuple[tuple[BatchHeader, ControlRecord | None], ...]
    base: int
    end: int
    size: int
    indexes: Mapping[IndexType, bytes]


@cache
def _segments() -> tuple[_Segment, ...]:
    """Return the small segments of the sample data."""
    return tuple(
        _segment(path)
        for path in sorted(KAFKA.glob("*/kafka-tiered-storage/*/*.log"))
        if path.stat().st_size < _LARGEST
    )


def _segment(path: Path) -> _Segment:
    data = path.read_bytes()
    batches = tuple((header_of(b), _marker(b)) for b in log_batches(data))
    beside = {kind: path.with_suffix(suffix) for kind, suffix in _SUFFIXES.items()}
    return _Segment(
        batches,
        int(path.name.split("-")[0]),
        batches[-1][0].last_offset,
        len(data),
        {kind: p.read_bytes() for kind, p in beside.items() if p.exists()},
    )


def _marker(batch: LogBatches) -> ControlRecord | None:
    if not header_of(batch).is_control:
        return None
    (rows,) = RecordDecoder("t", 0, ("key", "value")).decode([batch])
    row = rows.to_pylist()[0]
    return parse_control_record(row["key"], row["value"])


# --- indexes beside their log: which segment, which index, its bytes -----------------


def _beside(rng: Random) -> bytes:
    which = number(rng, len(_segments()))
    kinds = list(IndexType)
    kind = number(rng, len(kinds))
    data = _segments()[which].indexes.get(kinds[kind], b"")
    others = [s.indexes.get(kinds[kind], b"") for s in _segments()]
    return bytes((which, kind)) + mutated(rng, data, others)


def _read_beside(data: bytes, _: Random) -> bool:
    """No other index is called untrue, and a true one leads where it should."""
    segment, kind = _segments()[data[0]], list(IndexType)[data[1]]
    indexes = {**segment.indexes, kind: data[2:]}
    truth = IndexCheck(indexes, segment.base, segment.end, segment.size)
    for header, marker in segment.batches:
        truth.add(header, marker)
    untrue = truth.finish()
    assert set(untrue) <= {kind}, untrue
    if data[2:] == segment.indexes.get(kind):
        assert not untrue
    if not untrue and kind is IndexType.OFFSET:
        index = OffsetIndex.parse(data[2:], segment.base)
        starts = {header.position for header, _ in segment.batches}
        for header, _marker in segment.batches:
            for offset in (header.base_offset, header.last_offset):
                place = index.lookup(offset).position
                assert place in starts, place
                assert place <= header.position, (offset, place)
    return not untrue


# --- tails ----------------------------------------------------------------------------


@cache
def _tails() -> tuple[bytes, ...]:
    found = []
    for at, segment in enumerate(_segments()[::3]):
        facts = SegmentFacts(
            *("t", "A" * 22, 0, "dao62lTOQsGBPyjJLrpQKw", segment.base, segment.end),
            *(10, 5, 14, -1),
            (EpochEntry(0, 0), EpochEntry(4, 7)),
        )
        chunks = Chunks(64, "zstd", (40, 60)) if at % 2 else None
        log = LogPart(_LOG, _LOG + at, 7, chunks)
        found.append(build_tail(facts, log, segment.indexes, _FLAGS))
    return tuple(found)


def _tail(rng: Random) -> bytes:
    tail = choice(rng, _tails())
    if rng.random() < 0.25:
        return mutated(rng, tail, _tails())
    (length,) = struct.unpack_from(">I", tail, len(tail) - 24)
    start = len(tail) - _TRAILER - length
    indexes, manifest = tail[:start], tail[start : start + length]
    if rng.random() < 0.2:
        indexes = mutated(rng, indexes)
    if rng.random() < 0.5:
        manifest = mutated(rng, manifest)
    else:
        told = json.loads(manifest)
        for _ in range(1 + number(rng, 2)):
            _retell(rng, told)
        manifest = json.dumps(told).encode()
    version = 1 if rng.random() < 0.95 else number(rng, 3)
    lead = struct.pack(">QI", _LOG + len(indexes), len(manifest))
    size = len(indexes) + len(manifest) + _TRAILER
    rest = struct.pack(">IHH8s", size, version, _FLAGS, b"TIEREDFS")
    crc = google_crc32c.value(manifest + lead + rest)
    return indexes + manifest + lead + struct.pack(">I", crc) + rest


_ODD: Final[tuple[object, ...]] = (
    *(None, True, False, 1.0, 1e300, float("nan"), "", "7", "x" * 99, "\ud800", "é"),
    *([], {}, [1], [[]], {"0": 0}, {"-1": 5}, {"0": 0, "00": 1}, {"a": 1}, 10**30),
)


def _retell(rng: Random, told: Any) -> None:  # noqa: ANN401 - JSON
    """Change a member somewhere in a document."""
    while isinstance(told, dict | list) and told:
        name = choice(rng, list(told) if isinstance(told, dict) else range(len(told)))
        inner = told[name]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.1:
            match number(rng, 6):
                case 0 | 1 if isinstance(told, dict):  # members of a newer writer
                    told[choice(rng, ("newer", "", "\ud800"))] = deepcopy(
                        choice(rng, _ODD)
                    )
                case 0:
                    del told[name]
                case 2:
                    told[name] = deepcopy(choice(rng, _ODD))
                case 3:
                    told[name] = choice(rng, INT64S)
                case _ if isinstance(inner, int):
                    told[name] = inner + choice(rng, (-1, 1, 8))
                case _:
                    told[name] = [inner]
            return
        told = inner


def _read_tail(data: bytes, _: Random) -> bool:
    """What is read covers the tail without a gap, and is written as it was read."""
    try:
        tail = parse_tail(data, _LOG, _FLAGS, name="x")
    except (CorruptObjectError, CorruptIndexError, UnsupportedFormatError) as error:
        check_name(error)
        return False
    assert parse_manifest(data, _LOG, _FLAGS, name="x") == tail.manifest
    position = 0
    for kind, part in sorted(tail.manifest.indexes.items(), key=lambda item: item[1]):
        assert part.position == _LOG + position
        stored = data[position : position + part.length]
        assert google_crc32c.value(stored) == part.crc32c
        if kind in IndexType.__members__:
            assert tail.indexes[IndexType(kind)] == stored
        position += part.length
    end = len(data) - _TRAILER
    assert data[position:end] == tail.manifest_bytes
    assert Manifest.parse(tail.manifest.encode()) == tail.manifest
    return True


# --- keys -----------------------------------------------------------------------------

_STEMS: Final = tuple(
    f"{end:020d}-{start:020d}-{stamp:020d}-{epoch:010d}-{log:013d}-{tail:010d}-"
    f"{flags:04x}-{name}".encode()
    for end, start, stamp, epoch, log, tail, flags, name in (
        (9, 0, 1_700_000_000_009, 3, 700, 432, 0, "dao62lTOQsGBPyjJLrpQKw"),
        ((1 << 63) - 2, (1 << 63) - 2, -1, -1, 0, 0, 3, "-" * 21 + "w"),
        (1 << 40, 5, -(1 << 63), (1 << 31) - 1, 10**13 - 1, 10**10 - 1, 1, "A" * 22),
    )
)
_FOLDERS: Final = (
    b"topic/AAAAAAAAAAAAAAAAAAAAAA/0",
    b"con=/dao62lTOQsGBPyjJLrpQKw/2147483647",
    b"a.b_c-d.=/dao62lTOQsGBPyjJLrpQKw/10",
)
_DIGITS: Final = "０١²".encode()


def _stem(rng: Random) -> bytes:
    stem = choice(rng, _STEMS)
    if rng.random() < 0.5:
        return mutated(rng, stem, (*_STEMS, _DIGITS))
    data = bytearray(stem)  # of the right length, and of digits
    for _ in range(1 + number(rng, 3)):
        data[number(rng, len(data))] = choice(rng, b"0123456789-af")
    return bytes(data)


def _read_stem(data: bytes, _: Random) -> bool:
    """What is read is what would be written."""
    stem = data.decode("utf-8", "surrogateescape")
    try:
        key = _KEYS.parse_stem(stem)
    except UnsupportedFormatError:
        return False
    if key is None:
        return False
    assert _KEYS.stem(key) == stem
    assert 0 <= key.start_offset <= key.end_offset < (1 << 63) - 1
    return True


def _folders(rng: Random) -> bytes:
    return mutated(rng, choice(rng, _FOLDERS), (*_FOLDERS, _DIGITS))


def _read_folders(data: bytes, _: Random) -> bool:
    """What is read is what would be written."""
    text = data.decode("utf-8", "surrogateescape")
    parts = [*text.split("/"), "", ""][:3]
    partition = _KEYS.parse_partition(parts)
    if partition is None:
        return False
    assert _KEYS.partition_prefix(partition) == "/".join(parts) + "/"
    return True


OBJECT_TARGETS: Final = (
    Target("index-truth", _beside, _read_beside, 200_000, _MIB // 4),
    Target("segment-tail", _tail, _read_tail, 300_000, _MIB),
    Target("segment-key", _stem, _read_stem, 100_000, _MIB // 4),
    Target("partition-folders", _folders, _read_folders, 50_000, _MIB // 4),
)
