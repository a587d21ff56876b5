"""How fast Arrow becomes record batches, beside aiokafka's builder and a copy.

aiokafka's builder gets Python objects that are there already; making them from Arrow
is not counted. Neither writer compresses.
"""

from functools import partial
from itertools import islice

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.measuring import (
    FULL,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    copying,
    measure,
)
from benchmarks.segments import KIB, MIB, Record, Shape, records, segment
from tieredfs.format.records.schema import SCHEMA
from tieredfs.format.records.writer import encode_batch

_OURS = "tieredfs"
_AIOKAFKA = "aiokafka's builder"
_COPY = "memcpy"
_SHAPES = [Shape(value, batch) for value in (100, KIB) for batch in (16 * KIB, MIB)]
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def bench_encode(scale: Scale) -> Report:
    """Measure both writers on the same records."""
    report = Report(
        "Arrow → uncompressed batches",
        Unit.MEGABYTES,
        (_AIOKAFKA, _COPY),
        scale.repetitions,
    )
    for shape in _SHAPES:
        log = segment(shape, scale.size)
        source = records(shape.value_size)
        rows = [list(islice(source, batch.count)) for batch in log.batches]
        arrow = [arrow_batch(batch) for batch in rows]
        works = [
            Work(_OURS, log.size, partial(encode, arrow)),
            Work(_AIOKAFKA, log.size, partial(build, rows, shape.batch_size)),
            Work(_COPY, log.size, copying(log.data)),
        ]
        promises = [Promise(_OURS, 5, _AIOKAFKA)]
        if shape.value_size == KIB:
            promises.append(Promise(_OURS, 1e9))
        report.comparisons.append(measure(str(shape), works, scale, promises))
    return report


def encode(batches: list[pa.RecordBatch]) -> int:
    """Write Arrow as batches by tieredfs; return how many bytes they have."""
    return sum(len(encode_batch(batch)) for batch in batches)


def build(batches: list[list[Record]], size: int) -> int:
    """Write objects as batches by aiokafka; return how many bytes they have."""
    written = 0
    for batch in batches:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 2 * size)
        base = batch[0][0]
        for offset, stamp, key, value, headers in batch:
            builder.append(offset - base, stamp, key, value, headers)
        written += len(builder.build())
    return written


def arrow_batch(rows: list[Record]) -> pa.RecordBatch:
    """Return records as Arrow."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[-1] = [headers or None for headers in columns[-1]]
    fields = [SCHEMA.field(name) for name in _COLUMNS]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def test_encoding() -> None:
    report = bench_encode(FULL)
    report.show()
    assert not report.disagreements()
