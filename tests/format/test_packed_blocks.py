"""Small batches opened together: what comes out is what each gives alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import hypothesis.strategies as st
import pytest
import zstandard
from aiokafka.codec import lz4_encode
from hypothesis import given, settings

from support.golden import header_of, log_batches
from support.kafka_data import KAFKA
from support.wire import CODECS, WireRecord, encode_batch, encode_record
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.blocks import decompress_blocks
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.compression.bounded_output import plausible_size
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import compress as tieredfs_compress
from tieredfs.format.compression.compress import decompress
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.format.records.decode import RecordDecoder

pytestmark = pytest.mark.skipif(
    chosen_kernel() is not Kernel.COMPILED, reason="without the kernel each is alone"
)

_PACKED = sorted(set(CODECS) - {"none"})


def _zstd(**options: Any) -> Callable[[bytes], bytes]:  # noqa: ANN401 - zstd's
    parameters = zstandard.ZstdCompressionParameters(**options)
    return zstandard.ZstdCompressor(compression_params=parameters).compress


_WAYS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    **{name: (name, CODECS[name].compress) for name in _PACKED},
    "lz4": ("lz4", partial(tieredfs_compress, Codec.LZ4)),  # no blocks are linked
    "lz4 with checksums": ("lz4", lz4_encode),
    "zstd with its size": ("zstd", _zstd(write_content_size=True, write_checksum=True)),
    "zstd with a window": ("zstd", _zstd(write_content_size=False, window_log=20)),
}
"""How others write what is opened together: the codec, and what compresses."""


def _records(sizes: list[int]) -> list[WireRecord]:
    return [
        WireRecord(at, at, b"%d" % at, b"some value" * size)
        for at, size in enumerate(sizes)
    ]


def _plain(records: list[WireRecord]) -> bytes:
    first = records[0]
    parts = (encode_record(each, first.offset, first.timestamp) for each in records)
    return b"".join(parts)


def _run(log: bytes) -> LogBatches:
    (found,) = scan_log(log, name="log")
    return found


def _opened(run: LogBatches) -> list[bytes]:
    """Return the records of each batch that is opened together with the first."""
    found = decompress_blocks(run, 0)
    if found is None:
        return []
    places = zip(found["start"].tolist(), found["end"].tolist(), strict=True)
    return [bytes(found.buffer[start:end]) for start, end in places]


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("sizes", [[1], [3, 0, 99], [1700] * 9, [0] * 500], ids=len)
def test_usual_batches_are_opened_together(way: str, sizes: list[int]) -> None:
    codec, compress = _WAYS[way]
    records = _records(sizes)
    plain = _plain(records)
    moved = ([replace(r, offset=at + r.offset) for r in records] for at in (0, 999))
    payload = compress(plain)
    log = b"".join(encode_batch(some, codec=codec, payload=payload) for some in moved)
    assert _opened(_run(log)) == [plain] * 2


@pytest.mark.parametrize("codec", [each for each in Codec if each is not Codec.NONE])
def test_what_kafkas_clients_wrote_is_opened(codec: Codec) -> None:
    opened = 0
    for path in KAFKA.glob("codecs-*/**/*.log"):
        for batch in log_batches(path.read_bytes()):
            if header_of(batch).codec is codec:
                start, end = int(batch["start"][0]), int(batch["end"][0])
                stored = batch.buffer[start:end]
                assert _opened(batch) == [bytes(decompress(codec, stored))]
                opened += 1
    assert opened


@given(st.data(), st.sampled_from(sorted(_WAYS)))
@settings(max_examples=500)
def test_damage_is_refused_or_gives_what_the_codec_alone_gives(
    data: st.DataObject, way: str
) -> None:
    name, compress = _WAYS[way]
    records = _records(data.draw(st.sampled_from([[1], [200], [30] * 9])))
    stored = bytearray(compress(_plain(records)))
    for _ in range(data.draw(st.integers(0, 2))):
        near = min(len(stored), data.draw(st.sampled_from([24, 1 << 20])))
        at = data.draw(st.integers(0, near))
        stored[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2)
        )
    if data.draw(st.booleans()):
        del stored[data.draw(st.integers(0, len(stored))) :]
    stored += data.draw(st.sampled_from([b"", b"", b"\0", bytes(9), bytes(stored)]))
    log = encode_batch(records, codec=name, payload=bytes(stored))
    opened = _opened(_run(log))
    if opened:
        assert opened == [bytes(decompress(Codec(CODECS[name].number), bytes(stored)))]
        assert len(opened[0]) <= plausible_size(1 << 40, len(stored))


@given(st.data(), st.sampled_from(_PACKED), st.integers(0, 8))
@settings(max_examples=100)
def test_batches_before_one_that_is_damaged_come_out(
    data: st.DataObject, codec: str, bad: int
) -> None:
    batches = []
    for number in range(9):
        records = [WireRecord(number, 1, b"k", b"value" * 99)]
        payload = CODECS[codec].compress(_plain(records))
        if number == bad:
            payload = payload[: data.draw(st.integers(0, len(payload) - 1))]
        batches.append(encode_batch(records, codec=codec, payload=payload))
    log = b"".join(batches)
    found: list[int] = []
    # Not the offsets alone, for which nothing is decompressed.
    pieces = RecordDecoder("t", 0, ("offset", "value")).decode(
        scan_log(log, name="log")
    )
    try:
        for piece in pieces:
            found += piece["offset"].to_pylist()
    except CorruptBatchError as error:
        found.append(-1)
        assert str(error).startswith("log: batch at position")  # noqa: PT017
    assert found == [*range(bad), -1]


def test_a_batch_of_more_records_than_its_bytes_can_hold_is_not_opened() -> None:
    many = encode_batch(
        [WireRecord(0, 0), WireRecord(9999, 0)],
        codec="zstd",
        payload=_zstd(write_content_size=False)(bytes(70)),
        count=11,
    )
    assert _opened(_run(many)) == []


@pytest.mark.parametrize("codec", _PACKED)
def test_a_batch_whose_checksum_is_wrong_is_not_opened(codec: str) -> None:
    log = bytearray(encode_batch(_records([9]), codec=codec))
    log[-1] ^= 1
    assert _opened(_run(bytes(log))) == []
