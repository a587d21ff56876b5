"""Compressed records: what each codec may and may not be."""

import struct
import subprocess
import sys
import textwrap
import tracemalloc
from hashlib import sha256
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch import Codec
from tieredfs.format.codecs import MAX_DECOMPRESSED, compress, decompress
from wire import CODECS, encode_batch, encode_varint, frame, xerial

pytestmark = pytest.mark.usefixtures("each_kernel")

_COMPRESSED = sorted(set(CODECS) - {"none"})
_MIB = 1 << 20


def _number(codec: str) -> Codec:
    return Codec(CODECS[codec].number)


@given(st.sampled_from(sorted(CODECS)), st.binary(max_size=300))
def test_what_was_compressed_comes_out_again(codec: str, data: bytes) -> None:
    assert decompress(_number(codec), CODECS[codec].compress(data)) == data


@given(st.sampled_from(Codec), st.binary(max_size=300))
def test_what_is_written_compressed_is_read_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 32 << 10, 64 << 10, (64 << 10) + 1, 3 * _MIB + 1])
def test_any_size_is_read_back_in_blocks_that_compress_and_that_do_not(
    codec: Codec, size: int
) -> None:
    noise = b"".join(sha256(b"%d" % at).digest() for at in range(size // 32 + 1))
    for data in (bytes(size), noise[:size]):
        assert decompress(codec, compress(codec, data)) == data


@given(st.sampled_from(range(4)), st.binary(max_size=200))
def test_another_reader_of_lz4_reads_what_is_written(times: int, data: bytes) -> None:
    stored = compress(Codec.LZ4, data * 10**times)
    with pa.CompressedInputStream(pa.BufferReader(stored), "lz4") as stream:
        assert stream.read() == data * 10**times


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("size", [0, 1, 32 << 10, (32 << 10) + 1, 3 * _MIB + 1])
def test_any_size_comes_out_again(codec: str, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    assert decompress(_number(codec), CODECS[codec].compress(data)) == data


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_output_up_to_the_limit_is_no_bomb(codec: str) -> None:
    stored = CODECS[codec].compress(bytes(5000))
    assert decompress(_number(codec), stored, limit=5000) == bytes(5000)


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_output_above_the_limit_is_a_bomb(codec: str) -> None:
    stored = CODECS[codec].compress(bytes(5000))
    with pytest.raises(CorruptBatchError, match=r"^b: decompresses to more than 4999 "):
        decompress(_number(codec), stored, limit=4999, name="b")


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(codec: str) -> None:
    stored = CODECS[codec].compress(bytes(64 * _MIB))
    limit = 4 * _MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="decompresses to more than"):
            decompress(_number(codec), stored, limit=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("codec", _COMPRESSED)
@given(data=st.data())
def test_damaged_bytes_end_in_a_corrupt_batch_or_in_bytes(
    codec: str, data: st.DataObject
) -> None:
    stored = bytearray(CODECS[codec].compress(b"some records, some records" * 9))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(stored)))
    try:
        found = decompress(_number(codec), bytes(stored[:cut]), limit=1 << 16)
    except CorruptBatchError:
        return
    assert len(found) <= 1 << 16


@given(st.sampled_from(_COMPRESSED), st.binary(max_size=64))
def test_arbitrary_bytes_end_in_a_corrupt_batch_or_in_bytes(
    codec: str, stored: bytes
) -> None:
    try:
        found = decompress(_number(codec), stored, limit=1 << 16)
    except CorruptBatchError:
        return
    assert len(found) <= 1 << 16


@pytest.mark.parametrize("codec", sorted(set(_COMPRESSED) - {"snappy"}))
def test_a_stream_that_is_cut_off_is_corrupt(codec: str) -> None:
    stored = CODECS[codec].compress(bytes(range(256)) * 40)
    with pytest.raises(CorruptBatchError, match=r"^b: "):
        decompress(_number(codec), stored[: len(stored) // 2], name="b")


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        (b"\0\0", "snappy block is cut off"),
        (b"\0\0\0\x09\1", "snappy block of 9 bytes is cut off"),
        (b"\xff\xff\xff\xff", "snappy block of -1 bytes is cut off"),
        (b"\x7f\xff\xff\xff", "snappy block of 2147483647 bytes is cut off"),
        (b"\0\0\0\0", "snappy preamble is cut off"),
    ],
)
def test_a_xerial_block_that_does_not_fit_is_corrupt(tail: bytes, error: str) -> None:
    with pytest.raises(CorruptBatchError, match=error):
        decompress(Codec.SNAPPY, xerial(b"records") + tail)


def test_the_limit_holds_over_all_xerial_blocks() -> None:
    stored = xerial(bytes(4000), block=1000)
    assert decompress(Codec.SNAPPY, stored, limit=4000) == bytes(4000)
    with pytest.raises(CorruptBatchError, match="decompresses to more than"):
        decompress(Codec.SNAPPY, stored, limit=3999)


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (1 << 20, "cannot hold"),
        ((1 << 28) - 1, "cannot hold"),
        (1 << 31, "decompresses to more than"),
        ((1 << 35) - 1, "decompresses to more than"),
    ],
)
def test_a_snappy_block_that_claims_too_much_is_not_believed(
    size: int, error: str
) -> None:
    claim = bytearray()
    while size > 0x7F:
        claim.append(size & 0x7F | 0x80)
        size >>= 7
    claim.append(size)
    with pytest.raises(CorruptBatchError, match=error):
        decompress(Codec.SNAPPY, bytes(claim) + b"\x00a")


def test_what_is_not_compressed_is_not_copied() -> None:
    data = b"records"
    assert decompress(Codec.NONE, data).obj is data


_MEASURED = """
    import resource, sys
    sys.path[:0] = {path!r}
    from golden import log_batches
    from tieredfs.errors import CorruptBatchError
    from tieredfs.format.records import RecordDecoder

    log = open({log!r}, "rb").read()
    rows, unit = 0, 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for piece in RecordDecoder("t", 0).decode(log_batches(log)):
            rows += piece.num_rows
        print(rows, "records")
    except CorruptBatchError as error:
        print(error)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""


def _peak(log: bytes, folder: Path) -> tuple[str, int]:
    """Decode a log in a process of its own: what it says, and its peak memory."""
    path = folder / "log"
    path.write_bytes(log)
    code = textwrap.dedent(_MEASURED.format(path=sys.path, log=str(path)))
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    said, peak = done.stdout.splitlines()
    return said, int(peak)


def test_a_zstd_bomb_past_the_real_limit_ends_in_an_error_not_in_memory(
    tmp_path: Path,
) -> None:
    payload = CODECS["zstd"].compress(bytes(MAX_DECOMPRESSED + _MIB))
    assert len(payload) < 1 << 16
    said, peak = _peak(encode_batch(codec="zstd", payload=payload, count=1), tmp_path)
    assert said.endswith(f"decompresses to more than {MAX_DECOMPRESSED} bytes")
    assert peak < 2 * MAX_DECOMPRESSED


@pytest.mark.parametrize("count", [8 * _MIB, 4 * _MIB, (1 << 31) - 1])
def test_a_batch_of_zeros_ends_in_an_error_not_in_memory(
    count: int, tmp_path: Path
) -> None:
    size = 8 * _MIB
    payload = CODECS["zstd"].compress(bytes(size))  # reads as records of no bytes
    batch = encode_batch(
        codec="zstd", payload=payload, count=count, last_offset=count - 1
    )
    said, peak = _peak(batch, tmp_path)
    assert said.startswith("log: batch at position 0: ")
    assert said.endswith(f" bytes cannot hold {count} records")
    assert peak < 4 * size


def test_records_of_the_least_size_take_memory_of_a_few_pieces(tmp_path: Path) -> None:
    count = 1 << 20
    body = b"".join(frame(b"\0\0" + encode_varint(i) + b"\1\1\0") for i in range(count))
    batch = encode_batch(
        codec="zstd",
        payload=CODECS["zstd"].compress(body),
        count=count,
        last_offset=count - 1,
    )
    said, peak = _peak(batch, tmp_path)
    assert said == f"{count} records"
    assert peak < 2 * len(body) + 8 * (8 * _MIB)


def test_records_that_go_wrong_late_end_in_an_error_not_in_memory(
    tmp_path: Path,
) -> None:
    count = 4 << 20
    record = frame(b"\0\0" + encode_varint(0) + b"\1\1\0")  # always the first offset
    batch = encode_batch(
        codec="zstd",
        payload=CODECS["zstd"].compress(record * count),
        count=count,
        last_offset=count - 1,
    )
    said, peak = _peak(batch, tmp_path)
    assert said == "log: batch at position 0: offsets do not rise"
    assert peak < 4 * len(record) * count


def test_a_record_of_millions_of_headers_ends_in_an_error_not_in_memory(
    tmp_path: Path,
) -> None:
    count = 100 << 20
    body = b"\0\0\0\1\1" + encode_varint(count) + bytes(2 * count)
    batch = encode_batch(
        codec="zstd", payload=CODECS["zstd"].compress(frame(body)), count=1
    )
    assert len(batch) < 1 << 16
    said, peak = _peak(batch, tmp_path)
    assert said.startswith("log: batch at position 0: a record has more headers than")
    assert peak < 2 * MAX_DECOMPRESSED


def test_the_claimed_size_of_a_xerial_block_is_signed() -> None:
    stored = xerial(b"x")[:16] + struct.pack(">i", -(1 << 31)) + b"\1\0x"
    with pytest.raises(CorruptBatchError, match="of -2147483648 bytes"):
        decompress(Codec.SNAPPY, stored)
