"""How fast a compressed log becomes Arrow, beside its codec alone.

A codec alone gets the payloads of the batches cut out, and each is decompressed whole.
It is not told how large the output will be, as no reader of a log is; the row that is
told shows what that costs. pyarrow's codecs are what tieredfs has by default; those of
its extra ``fast`` are measured where they are installed, and then promised against.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa

from benchmarks.decoders import (
    AIOKAFKA,
    count,
    count_by_loop,
    count_objects,
    kernel_in_use,
)
from benchmarks.measuring import (
    FULL,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    one_core,
)
from benchmarks.segments import KIB, MIB, Segment, Shape, segment
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.compression.codec import Codec

__all__ = ["bench_codecs", "codecs_alone", "payloads"]

_OURS: Final = "tieredfs"
_AIOKAFKA: Final = "aiokafka"
_PYARROW: Final = "pyarrow's codec alone"
_SIZE_KNOWN: Final = "… size known"
_MIN: Final = 0.7
_SHAPES: Final = [
    Shape(KIB, batch, codec)
    for codec in Codec
    if codec is not Codec.NONE
    for batch in (16 * KIB, MIB)
]
_FAST: Final = {
    Codec.GZIP: "isal",
    Codec.SNAPPY: "cramjam",
    Codec.LZ4: "cramjam",
    Codec.ZSTD: "zstandard",
}
_XERIAL_HEADER: Final = 16
_LENGTH: Final = struct.Struct(">i")
_MORE: Final = 0x80

_Payload = tuple[bytes, int]  # compressed, and its size without compression
_Decompress = Callable[[_Payload], Any]


def bench_codecs(scale: Scale) -> Report:
    """Measure tieredfs, aiokafka and the codecs alone on compressed logs."""
    title = f"Compressed log → Arrow (kernel: {kernel_in_use()})"
    report = Report(title, Unit.MEGABYTES, (_AIOKAFKA, _PYARROW), scale.repetitions)
    for shape in _SHAPES:
        log = segment(shape, scale.size)
        size, data, cut = log.size, log.data, payloads(log, shape.codec)
        codecs = codecs_alone(shape.codec)
        works = [
            Work(_OURS, size, partial(count, data)),
            Work(_AIOKAFKA, size, partial(count_objects, AIOKAFKA, data)),
            Work("aiokafka → Arrow", size, partial(count_by_loop, data)),
            *(
                Work(name, size, partial(_decompress, decompress, cut))
                for name, decompress in codecs.items()
            ),
        ]
        promised = [name for name in codecs if name != _SIZE_KNOWN][-1]
        promises = [Promise(_OURS, _MIN, promised)]
        report.comparisons.append(measure(str(shape), works, scale, promises))
    return report


def codecs_alone(codec: Codec) -> dict[str, _Decompress]:
    """Return what can decompress a payload, by the names of their rows."""
    name = codec.name.lower()
    told = pa.Codec(name)

    def one_shot(payload: _Payload) -> Any:  # noqa: ANN401 - pyarrow has no types
        return told.decompress(payload[0], decompressed_size=payload[1])

    def stream(payload: _Payload) -> Any:  # noqa: ANN401 - pyarrow has no types
        source = pa.BufferReader(payload[0])
        with pa.CompressedInputStream(source, name) as opened:
            return opened.read()

    if codec is Codec.SNAPPY:  # its blocks say their size themselves
        found: dict[str, _Decompress] = {_PYARROW: one_shot}
    else:
        found = {_PYARROW: stream, _SIZE_KNOWN: one_shot}
    if find_spec(_FAST[codec]):
        found[f"{_FAST[codec]} alone"] = _fast(codec)
    return found


def payloads(log: Segment, codec: Codec) -> list[_Payload]:
    """Cut out what a codec gets: the records of each batch, of snappy each block."""
    whole = [(batch.payload, batch.size - HEADER_SIZE) for batch in log.batches]
    if codec is not Codec.SNAPPY:
        return whole
    return [block for payload, _ in whole for block in _blocks(payload)]


def _decompress(decompress: _Decompress, cut: list[_Payload]) -> None:
    for payload in cut:
        decompress(payload)


def _fast(codec: Codec) -> _Decompress:
    if codec is Codec.GZIP:
        isal: Any = import_module("isal.isal_zlib")
        return lambda payload: isal.decompress(payload[0], 31)
    if codec is Codec.ZSTD:
        zstandard: Any = import_module("zstandard")
        opened = zstandard.ZstdDecompressor()
        return lambda payload: opened.decompressobj().decompress(payload[0])
    cramjam: Any = import_module("cramjam")
    if codec is Codec.SNAPPY:
        return lambda payload: cramjam.snappy.decompress_raw(payload[0])
    return lambda payload: cramjam.lz4.decompress(payload[0])


def _blocks(payload: bytes) -> Iterator[_Payload]:
    """Cut up the frame that Java's snappy writes, and aiokafka."""
    position = _XERIAL_HEADER
    while position < len(payload):
        (length,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        block = payload[position : position + length]
        position += length
        size = 0
        for index, byte in enumerate(block):
            size |= (byte & ~_MORE) << (7 * index)
            if byte < _MORE:
                break
        yield block, size


def test_decoding_compressed_logs() -> None:
    with one_core():
        report = bench_codecs(FULL)
    report.show()
    assert not report.disagreements()
