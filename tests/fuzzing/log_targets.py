"""Batches, records and message sets: both kernels against the model."""

import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final, NamedTuple

import pyarrow as pa

from fuzzing import corpus, log_model
from fuzzing.decompression import decompressed
from fuzzing.mutations import INT32S, INT64S, choice, mutated, number
from fuzzing.target import Target, check_name
from support.golden import headers_of
from support.wire import CODECS, encode_varint, seal, seal_message
from tieredfs.errors import CorruptBatchError, UnsupportedFormatError
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.batch.reader import claimed_size, read_header, scan_log
from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel, chosen_kernel
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import SCHEMA

__all__ = ["LOG_TARGETS"]

_HEADER: Final = 61
_ALL: Final = frozenset({0, 1, 2})
_NEW: Final = frozenset({2})
_OLD: Final = frozenset({0, 1})
_NUMBERED: Final = {codec.number: codec for codec in CODECS.values()}
# Where the fields of a header lie, and how wide they are.
_FIELDS: Final = (
    *((0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8)),
    *((35, 8), (43, 8), (51, 2), (53, 4), (57, 4)),
)
_MIB: Final = 1 << 20


def _kernels() -> list[Kernel]:
    try:
        from tieredfs.format.kernel import _kernel  # noqa: F401, PLC0415 - may not be there
    except ImportError:
        return [Kernel.PYTHON]
    return [Kernel.COMPILED, Kernel.PYTHON]


_KERNELS: Final = _kernels()


@contextmanager
def _by(kernel: Kernel) -> Iterator[None]:
    before = os.environ.get(KERNEL_SETTING)
    os.environ[KERNEL_SETTING] = kernel
    chosen_kernel.cache_clear()
    try:
        yield
    finally:
        del os.environ[KERNEL_SETTING]
        if before is not None:
            os.environ[KERNEL_SETTING] = before
        chosen_kernel.cache_clear()


# --- inputs ---------------------------------------------------------------------------


@cache
def _small_logs() -> Sequence[bytes]:
    return corpus.logs()


@cache
def _payloads() -> Sequence[bytes]:
    """Return the records of all batches as they were before compression."""
    found = set()
    for batch in corpus.batches(_NEW):
        packed, codec = batch[_HEADER:], batch[22] & 7
        found.add(decompressed(codec, 2, packed) if codec else packed)
    return tuple(sorted(payload for payload in found if len(payload) < 3000))


def _stored_log(rng: Random) -> bytes:
    """Damage a log as a disk or a network does: no checksum is made right."""
    log = choice(rng, _small_logs())
    return mutated(rng, log, _small_logs())


def _sealed_log(rng: Random) -> bytes:
    """Damage the fields of one batch, and make its checksum right."""
    log = choice(rng, _small_logs())
    headers = list(headers_of(log))
    header = choice(rng, headers)
    batch = bytearray(log[header.position : header.end])
    for _ in range(1 + number(rng, 3)):
        at, width = choice(rng, _FIELDS)
        value = choice(rng, INT64S if width == 8 else INT32S)
        batch[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    if rng.random() < 0.3:
        batch[16:] = mutated(rng, bytes(batch[16:]))
    if rng.random() < 0.6:
        batch[8:12] = struct.pack(">i", len(batch) - 12)
    return log[: header.position] + _sealed(batch) + log[header.end :]


def _sealed(batch: bytearray) -> bytes:
    if len(batch) <= 21:
        return bytes(batch)
    return seal(batch) if batch[16] >= 2 else seal_message(batch)


@dataclass(frozen=True, slots=True)
class _Make:
    """Makes a batch whose records are damaged before or after compression."""

    codec: int | None

    def __call__(self, rng: Random) -> bytes:
        seed = choice(rng, corpus.batches(_NEW))
        header, stored = bytearray(seed[:_HEADER]), seed[_HEADER:]
        codec = header[22] & 7
        payload = decompressed(codec, 2, stored) if codec else stored
        if rng.random() < 0.2:
            payload = choice(rng, _payloads())
        if not self.codec or rng.random() < 0.7:
            payload = _damaged_records(rng, payload)
        if self.codec:
            names = [n for n, c in CODECS.items() if c.number == self.codec]
            payload = CODECS[choice(rng, names)].compress(payload)
            if rng.random() < 0.3:
                payload = mutated(rng, payload)
        header[22] = header[22] & ~7 | (self.codec or 0)
        if rng.random() < 0.1:
            count = struct.unpack_from(">i", header, 57)[0] + choice(rng, (-1, 1, 2))
            header[57:61] = struct.pack(">i", max(count, 0))
        if rng.random() < 0.1:
            header[57:61] = struct.pack(">i", choice(rng, INT32S) & 0x7FFFFFFF)
        if rng.random() < 0.1:
            header[23:27] = struct.pack(">i", choice(rng, INT32S) & 0x7FFFFFFF)
        batch = header + payload
        batch[8:12] = struct.pack(">i", len(batch) - 12)
        return seal(batch)


def _damaged_records(rng: Random, payload: bytes) -> bytes:
    if rng.random() < 0.5:
        return mutated(rng, payload, _payloads())
    # One record, its length made right again: what lies inside is then judged.
    cuts = [0]
    while cuts[-1] < len(payload) and len(cuts) < 64:
        size, at = log_model.varint(payload, cuts[-1], 5)
        cuts.append(at + size)
    which = number(rng, len(cuts) - 1)
    if len(cuts) < 2 or cuts[which + 1] > len(payload):
        return mutated(rng, payload)
    start, end = cuts[which], cuts[which + 1]
    _, at = log_model.varint(payload, start, 5)
    record = mutated(rng, payload[at:end])
    return payload[:start] + encode_varint(len(record)) + record + payload[end:]


def _messages(rng: Random) -> bytes:
    """Damage a message, or those that it wraps, all checksums right."""
    seed = choice(rng, corpus.batches(_OLD))
    codec = seed[17] & 7
    if not codec or rng.random() < 0.3:
        return _sealed_message(mutated(rng, seed, start=8), seed, rng)
    start = 18 + 8 * seed[16]
    value = seed[start + 8 :]  # a wrapper has no key
    inside = decompressed(codec, seed[16], value)
    messages = _cut_messages(inside)
    for _ in range(1 + number(rng, 2)):
        at = number(rng, len(messages))
        damage = mutated(rng, messages[at], messages)
        messages[at] = _sealed_message(damage, messages[at], rng)
    if rng.random() < 0.1:
        messages.insert(number(rng, len(messages)), choice(rng, messages))
    packed = _NUMBERED[codec].compress(b"".join(messages))
    body = seed[: start + 4] + struct.pack(">i", len(packed)) + packed
    return _sealed_message(body, seed, rng)


def _sealed_message(damaged: bytes, seed: bytes, rng: Random) -> bytes:
    """Make size and checksum right, mostly; version and codec too."""
    message = bytearray(damaged)
    if rng.random() < 0.7:
        message[16:18] = seed[16:18]
    if rng.random() < 0.9:
        message[8:12] = struct.pack(">i", len(message) - 12)
    return seal_message(message) if len(message) > 16 else bytes(message)


def _cut_messages(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + 12 + struct.unpack_from(">i", data, at + 8)[0]
        found.append(data[at:end])
        at = end
    return found


# --- judges ---------------------------------------------------------------------------


@cache
def _true_bodies() -> frozenset[bytes]:
    """Return what the checksums of the corpus cover."""
    found = set()
    for log in _small_logs():
        for header in headers_of(log):
            start = 21 if header.magic == 2 else 16
            found.add(log[header.position + start : header.end])
    return frozenset(found)


def _read_stored(data: bytes, _: Random) -> bool:
    """What no checksum was made right for is true, as far as one covers it."""
    headers = _scanned(data)
    for header in headers.found:
        start = 21 if header.magic == 2 else 16
        assert data[header.position + start : header.end] in _true_bodies(), header
    return headers.error is None


def _read_sealed(data: bytes, _: Random) -> bool:
    return _scanned(data).error is None


class _Headers(NamedTuple):
    found: list[BatchHeader]
    error: "_Fault | None"


class _Fault(NamedTuple):
    """An error without what it holds on to: the frames it passed, and their buffers."""

    kind: type[Exception]
    said: str


def _scanned(data: bytes) -> _Headers:
    """Scan by both kernels and by the model, which are to agree."""
    expected: list[log_model.Batch] = []
    fault: type[Exception] | None = None
    try:
        expected.extend(log_model.scan(data, decompressed))
    except log_model.Refused:
        fault = CorruptBatchError
    except log_model.Unknown:
        fault = UnsupportedFormatError
    answers = []
    for kernel in _KERNELS:
        with _by(kernel):
            answers.append(_scan(data))
    answer = answers[0]
    assert answer.found == expected  # as tuples
    assert (answer.error and answer.error.kind) is fault, answer.error
    for other in answers[1:]:
        assert other.found == answer.found
        assert other.error == answer.error
    return answer


def _scan(data: bytes) -> _Headers:
    found: list[BatchHeader] = []
    try:
        for header in headers_of(data, name="x"):
            found.append(header)
            assert read_header(data, header.position, name="x") == header
        end = found[-1].end if found else 0
        size = claimed_size(data, end, name="x")
        assert size is None or size > len(data) - end
    except (CorruptBatchError, UnsupportedFormatError) as error:
        check_name(error)
        return _Headers(found, _Fault(type(error), str(error)))
    return _Headers(found, None)


def _decode(data: bytes, kernel: Kernel) -> tuple[pa.Table, _Fault | None]:
    decoder = RecordDecoder("t", 0)
    found: list[pa.RecordBatch] = []
    error: _Fault | None = None
    with _by(kernel):
        try:
            for batch in decoder.decode(scan_log(data, name="log")):
                batch.validate(full=True)
                found.append(batch)
        except (CorruptBatchError, UnsupportedFormatError) as refused:
            error = _Fault(type(refused), str(refused))
    return pa.Table.from_batches(found, SCHEMA).combine_chunks(), error


_PLACE = re.compile(r"(position \d+).*", re.DOTALL)


def _place(error: _Fault | None) -> str | None:
    """Say where an error is; both kernels may find another one first."""
    return error and _PLACE.sub(r"\1", error.said)


def _read_records(data: bytes, _: Random) -> bool:
    """Both kernels give the rows of the model, and stop where it stops."""
    rows: list[log_model.Row] = []
    fault: type[Exception] | None = None
    try:
        for batch in log_model.scan(data, decompressed):
            rows += log_model.records(data, batch, decompressed)
    except log_model.Refused:
        fault = CorruptBatchError
    except log_model.Unknown:
        fault = UnsupportedFormatError
    expected = _table(rows)
    places = set()
    for kernel in _KERNELS:
        table, error = _decode(data, kernel)
        assert (error and error.kind) is fault, (kernel, error)
        assert table.equals(expected), (kernel, table.to_pydict(), rows)
        assert error is None or error.said.startswith("log: "), error
        places.add(_place(error))
    assert len(places) == 1, places
    return fault is None


def _table(rows: Sequence[log_model.Row]) -> pa.Table:
    keys, values, offsets, stamps, kinds, headers = (
        zip(*rows, strict=True) if rows else ((),) * 6
    )
    named = [
        None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers
    ]
    columns = (
        *(keys, values, ["t"] * len(rows), [0] * len(rows)),
        *(offsets, stamps, kinds, named),
    )
    return pa.Table.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )


LOG_TARGETS: Final = (
    Target("log", _stored_log, _read_stored, 1_000_000, 4 * _MIB),
    Target("batch-header", _sealed_log, _read_sealed, 1_000_000, 4 * _MIB),
    Target("records", _Make(None), _read_records, 1_000_000, _MIB),
    Target("records-gzip", _Make(1), _read_records, 150_000, 32 * _MIB),
    Target("records-snappy", _Make(2), _read_records, 250_000, 32 * _MIB),
    Target("records-lz4", _Make(3), _read_records, 150_000, 32 * _MIB),
    Target("records-zstd", _Make(4), _read_records, 100_000, 32 * _MIB),
    Target("messages", _messages, _read_records, 400_000, 32 * _MIB),
)
