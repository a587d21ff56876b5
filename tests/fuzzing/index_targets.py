"""Indexes, snapshots and checkpoints against their models, lookups among them."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Final, TypeVar

import google_crc32c

from fuzzing import corpus, index_model
from fuzzing.log_model import Refused, Unknown
from fuzzing.mutations import INT64S, choice, mutated, number
from fuzzing.target import Target, check_name
from tieredfs.errors import (
    CorruptBatchError,
    CorruptIndexError,
    UnsupportedFormatError,
)
from tieredfs.format.batch.control import parse_control_record
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex

__all__ = ["INDEX_TARGETS", "agreed"]

_T = TypeVar("_T")
_MAX: Final = (1 << 63) - 1
_BASES: Final = (0, 0, 1, 100, 1 << 40, _MAX - 1000, _MAX)
_MIB: Final = 1 << 20


def agreed(
    parse: Callable[[], _T],
    model: Callable[[], object],
    shown: Callable[[_T], object],
    refusal: type[Exception] = CorruptIndexError,
) -> _T | None:
    """Return what is parsed if the model reads the same; None if both refuse it."""
    expected: object = None
    fault: type[Exception] | None = None
    try:
        expected = model()
    except Refused:
        fault = refusal
    except Unknown:
        fault = UnsupportedFormatError
    try:
        found = parse()
    except (CorruptIndexError, CorruptBatchError, UnsupportedFormatError) as error:
        check_name(error)
        refused: type[Exception] | None = type(error)
    else:
        refused = None
    assert refused is fault, (refused, fault)
    if refused:
        return None
    assert shown(found) == expected, (found, expected)
    return found


@dataclass(frozen=True, slots=True)
class _Mutated:
    """Makes a file of a broker with a few edits, often of a whole entry."""

    pattern: str
    entry: int

    def __call__(self, rng: Random) -> bytes:
        seeds = corpus.files(self.pattern)
        data = choice(rng, seeds)
        used = bytes(data).rstrip(b"\0")  # a broker's index may be mostly padding
        if len(used) < len(data) and rng.random() < 0.8:
            data = data[: len(used) + self.entry]
        if rng.random() < 0.4:
            return _nudged(rng, data, self.entry)
        out = mutated(rng, data, seeds)
        if self.entry > 1 and rng.random() < 0.7:
            out = out[: len(out) // self.entry * self.entry]
        return out


def _nudged(rng: Random, data: bytes, entry: int) -> bytes:
    """Lose an entry, or change a byte a little: what is left often still rises."""
    out = bytearray(data)
    at = number(rng, len(out))
    if rng.random() < 0.3:
        del out[at // entry * entry : (at // entry + 1) * entry]
    elif out:
        out[at] = min(out[at] + number(rng, 3), 255)
    return bytes(out)


def _near(rng: Random, values: list[int]) -> int:
    """Draw a value at which a lookup may turn."""
    if values and rng.random() < 0.8:
        return choice(rng, values) + choice(rng, (-1, 0, 1))
    return choice(rng, INT64S)


def _bound(rng: Random, base: int) -> int | None:
    return None if rng.random() < 0.5 else min(base + number(rng, 1000), _MAX)


def _read_offsets(data: bytes, rng: Random) -> bool:
    base = choice(rng, _BASES)
    end, size = _bound(rng, base), _bound(rng, 0)
    index = agreed(
        lambda: OffsetIndex.parse(data, base, end_offset=end, log_size=size, name="x"),
        lambda: index_model.offsets(data, base, end, size),
        lambda index: [tuple(index.entry(at)) for at in range(len(index))],
    )
    if index is None:
        return False
    offsets, positions = index.offsets.tolist(), index.positions.tolist()
    for _ in range(3):
        offset = min(max(_near(rng, offsets), -_MAX), _MAX)
        at = index_model.last_at(offsets, offset)
        found = (offsets[at], positions[at]) if at >= 0 else (base, 0)
        assert tuple(index.lookup(offset)) == found, offset
        at = sum(held < offset - 1 for held in offsets) + 1
        expected = positions[at] if at < len(positions) else None
        assert index.end_position(offset) == expected, offset
        position = min(max(_near(rng, positions), -_MAX), _MAX)
        above = [p for p in positions if p >= position]
        bound = index.upper_bound(position)
        assert (bound and bound.position) == (above[0] if above else None), position
    return True


def _read_times(data: bytes, rng: Random) -> bool:
    base = choice(rng, _BASES)
    end = _bound(rng, base)
    index = agreed(
        lambda: TimeIndex.parse(data, base, end_offset=end, name="x"),
        lambda: index_model.times(data, base, end),
        lambda index: [tuple(index.entry(at)) for at in range(len(index))],
    )
    if index is None:
        return False
    stamps, offsets = index.timestamps.tolist(), index.offsets.tolist()
    for _ in range(3):
        stamp = min(max(_near(rng, stamps), -_MAX), _MAX)
        at = index_model.last_at(stamps, stamp)
        found = (stamps[at], offsets[at]) if at >= 0 else (-1, base)
        assert tuple(index.lookup(stamp)) == found, stamp
    return True


def _read_aborts(data: bytes, rng: Random) -> bool:
    base = choice(rng, (0, 0, 0, 100, _MAX))
    index = agreed(
        lambda: TransactionIndex.parse(data, base, name="x"),
        lambda: index_model.aborts(data, base),
        lambda index: [tuple(entry) for entry in index.entries],
    )
    if index is None:
        return False
    assert index.encode() == data
    start = _near(rng, [entry.first_offset for entry in index.entries])
    end = _near(rng, [entry.last_offset for entry in index.entries])
    touched = [e for e in index.entries if e.last_offset >= start]
    touched = [e for e in touched if e.first_offset < end]
    found = index.collect(start, end)
    assert list(found.aborted) == touched[: len(found.aborted)], (start, end)
    if not found.is_complete:
        assert len(found.aborted) == len(touched), (start, end)
    return True


def _snapshot(rng: Random) -> bytes:
    data = bytearray(_Mutated("*.snapshot", 1)(rng))
    if rng.random() < 0.7 and len(data) >= 10:
        if rng.random() < 0.6:
            data = data[: 10 + (len(data) - 10) // 46 * 46]
            data[6:10] = struct.pack(">i", (len(data) - 10) // 46)
        data[:2] = b"\0\1" if rng.random() < 0.9 else data[:2]
        data[2:6] = struct.pack(">I", google_crc32c.value(bytes(data[6:])))
    return bytes(data)


def _read_producers(data: bytes, _: Random) -> bool:
    checksum = google_crc32c.value(data[6:])
    snapshot = agreed(
        lambda: ProducerSnapshot.parse(data, name="x"),
        lambda: index_model.producers(data, checksum),
        lambda snapshot: [tuple(producer) for producer in snapshot.producers],
    )
    if snapshot is None:
        return False
    assert snapshot.encode() == data
    return True


def _checkpoint(rng: Random) -> bytes:
    text = _Mutated("*leader?epoch?checkpoint", 1)(rng)
    if rng.random() < 0.5:  # an entry more or less, and the count made right
        lines = text.split(b"\n")
        at = number(rng, len(lines))
        lines[at : at + number(rng, 2)] = [
            b"%d %d" % (number(rng, 50), choice(rng, INT64S))
        ]
        lines[1:2] = [b"%d" % len([line for line in lines[2:] if line])]
        text = b"\n".join(lines)
    return text


def _read_epochs(data: bytes, rng: Random) -> bool:
    try:
        epochs = parse_leader_epochs(data, name="x")
    except (CorruptIndexError, UnsupportedFormatError) as error:
        check_name(error)
        return False
    entries = epochs.entries
    # What it says is there, in this order, and nothing else is.
    told = [int(word) for word in data.split()]
    written = [value for entry in entries for value in entry]
    assert told == ([0, len(entries), *written] if told else [])
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(entries))
    assert parse_leader_epochs(format_leader_epochs(epochs)) == epochs
    starts = [entry.start_offset for entry in entries]
    offset = _near(rng, starts)
    at = index_model.last_at(starts, offset)
    assert epochs.epoch_at(offset) == (entries[at].epoch if at >= 0 else -1)
    return True


_MARKERS: Final = tuple(
    struct.pack(">Bhh", 4, 0, kind) + value
    for kind in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 300)
    for value in (b"", struct.pack(">hi", 0, 7), struct.pack(">hiq", 1, -1, 9))
)


def _marker(rng: Random) -> bytes:
    """Make the length of a key, the key, and the value."""
    return mutated(rng, choice(rng, _MARKERS), _MARKERS) or b"\0"


def _read_control(data: bytes, rng: Random) -> bool:
    key, value = data[1 : 1 + data[0]], data[1 + data[0] :]
    told = None if not value and rng.random() < 0.5 else value
    found = agreed(
        lambda: parse_control_record(key, told, name="x"),
        lambda: index_model.control(key, told),
        lambda record: (int(record.type), record.coordinator_epoch),
        CorruptBatchError,
    )
    return found is not None


def _padded(rng: Random) -> bytes:
    data = choice(rng, corpus.files("*.index") + corpus.files("*.timeindex"))
    data = bytes(data).rstrip(b"\0") + bytes(number(rng, 40))
    return mutated(rng, data)


def _read_padded(data: bytes, rng: Random) -> bool:
    size = choice(rng, (8, 12, 34))
    found = bytes(without_padding(data, size))
    assert found == index_model.unpadded(data, size)
    return found != data


INDEX_TARGETS: Final = (
    Target("offset-index", _Mutated("*.index", 8), _read_offsets, 500_000, _MIB // 4),
    Target("time-index", _Mutated("*.timeindex", 12), _read_times, 500_000, _MIB // 4),
    Target(
        "transaction-index",
        _Mutated("*.txnindex", 34),
        _read_aborts,
        500_000,
        _MIB // 4,
    ),
    Target("producer-snapshot", _snapshot, _read_producers, 400_000, _MIB // 4),
    Target("leader-epochs", _checkpoint, _read_epochs, 250_000, _MIB // 4),
    Target("control-record", _marker, _read_control, 100_000, _MIB // 4),
    Target("padding", _padded, _read_padded, 50_000, _MIB // 4),
)
