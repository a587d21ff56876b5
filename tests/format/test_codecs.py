"""Compressed records: what each codec may and may not be."""

import struct
import subprocess
import sys
import textwrap
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, get_args

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from support.wire import CODECS, encode_batch, encode_varint, frame, xerial
from tieredfs.errors import CorruptBatchError
from tieredfs.format.compression.codec import Codec, CodecName
from tieredfs.format.compression.compress import MAX_DECOMPRESSED, compress, decompress
from tieredfs.format.compression.registry import PACKAGES

pytestmark = pytest.mark.usefixtures("each_kernel")

_COMPRESSED = sorted(set(CODECS) - {"none"})
_MIB = 1 << 20


class Way(NamedTuple):
    """A framing, and a package that reads it."""

    written: str
    package: str

    @property
    def codec(self) -> Codec:
        """The codec of the framing."""
        return Codec(CODECS[self.written].number)

    def compress(self, data: bytes) -> bytes:
        """Write it with code that is not ours."""
        stored: bytes = CODECS[self.written].compress(data)
        return stored

    def decompress(
        self, stored: bytes, *, limit: int = MAX_DECOMPRESSED, name: str = "batch"
    ) -> memoryview:
        """Read it with the package, installed or not."""
        return decompress(
            self.codec, stored, limit=limit, name=name, package=self.package
        )

    def __str__(self) -> str:
        """Name it in the list of tests."""
        return f"{self.written} by {self.package}"


_WAYS = [
    Way(codec, package)
    for codec in _COMPRESSED
    for package in PACKAGES[Codec(CODECS[codec].number)]
]
_ALL_WAYS = pytest.mark.parametrize("way", _WAYS, ids=str)


@given(st.sampled_from(_WAYS), st.binary(max_size=300))
def test_what_was_compressed_comes_out_again(way: Way, data: bytes) -> None:
    assert way.decompress(way.compress(data)) == data


@given(st.sampled_from(_WAYS), st.binary(max_size=300))
def test_what_is_written_compressed_is_read_back(way: Way, data: bytes) -> None:
    assert way.decompress(compress(way.codec, data)) == data


@_ALL_WAYS
@pytest.mark.parametrize("size", [0, 32 << 10, 64 << 10, (64 << 10) + 1, 3 * _MIB + 1])
def test_any_size_is_read_back_in_blocks_that_compress_and_that_do_not(
    way: Way, size: int
) -> None:
    noise = b"".join(sha256(b"%d" % at).digest() for at in range(size // 32 + 1))
    for data in (bytes(size), noise[:size]):
        assert way.decompress(compress(way.codec, data)) == data


def test_what_is_not_compressed_is_written_and_read_as_it_is() -> None:
    assert decompress(Codec.NONE, compress(Codec.NONE, b"records")) == b"records"


@given(st.sampled_from(range(4)), st.binary(max_size=200))
def test_another_reader_of_lz4_reads_what_is_written(times: int, data: bytes) -> None:
    stored = compress(Codec.LZ4, data * 10**times)
    with pa.CompressedInputStream(pa.BufferReader(stored), "lz4") as stream:
        assert stream.read() == data * 10**times


@_ALL_WAYS
@pytest.mark.parametrize("size", [0, 1, 32 << 10, (32 << 10) + 1, 3 * _MIB + 1])
def test_any_size_comes_out_again(way: Way, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    assert way.decompress(way.compress(data)) == data


@_ALL_WAYS
def test_output_up_to_the_limit_is_not_a_bomb(way: Way) -> None:
    assert way.decompress(way.compress(bytes(5000)), limit=5000) == bytes(5000)


@_ALL_WAYS
@pytest.mark.parametrize("size", [1, 5000, 3 * _MIB])
def test_output_above_the_limit_is_a_bomb(way: Way, size: int) -> None:
    limit = size - 1
    error = rf"^b: decompresses to more than {limit} bytes$"
    with pytest.raises(CorruptBatchError, match=error):
        way.decompress(way.compress(bytes(size)), limit=limit, name="b")


@_ALL_WAYS
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(
    way: Way, tmp_path: Path
) -> None:
    stored, limit = way.compress(bytes(96 * _MIB)), 16 * _MIB
    call = f"decompress(Codec({way.codec:d}), stored, limit={limit}, package={{}})"
    output, peak = _measured(stored, tmp_path, call.format(repr(way.package)))
    assert output == f"batch: decompresses to more than {limit} bytes"
    assert peak < limit + 8 * _MIB


@_ALL_WAYS
@given(data=st.data())
def test_damaged_bytes_end_in_a_corrupt_batch_or_in_bytes(
    way: Way, data: st.DataObject
) -> None:
    stored = bytearray(way.compress(b"some records, some records" * 9))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(stored)))
    try:
        found = way.decompress(bytes(stored[:cut]), limit=1 << 16)
    except CorruptBatchError:
        return
    assert len(found) <= 1 << 16


@given(st.sampled_from(_WAYS), st.binary(max_size=64))
def test_arbitrary_bytes_end_in_a_corrupt_batch_or_in_bytes(
    way: Way, stored: bytes
) -> None:
    try:
        found = way.decompress(stored, limit=1 << 16)
    except CorruptBatchError:
        return
    assert len(found) <= 1 << 16


_STREAMS = [way for way in _WAYS if way.codec is not Codec.SNAPPY]
_ALL_STREAMS = pytest.mark.parametrize("way", _STREAMS, ids=str)


@_ALL_STREAMS
@pytest.mark.parametrize("left", [1, 3, 4, 10, -1])
def test_a_stream_that_is_cut_off_is_corrupt(way: Way, left: int) -> None:
    stored = way.compress(bytes(range(256)) * 40)
    with pytest.raises(CorruptBatchError, match=r"^b: "):
        way.decompress(stored[:left], name="b")


@_ALL_STREAMS
def test_frames_behind_one_another_come_out_as_one(way: Way) -> None:
    first, second = bytes(100_000), b"records" * 20_000
    stored = way.compress(first) + way.compress(b"") + way.compress(second)
    assert way.decompress(stored, limit=240_000) == first + second
    with pytest.raises(CorruptBatchError, match="to more than 239999 bytes"):
        way.decompress(stored, limit=239_999)


@_ALL_STREAMS
@pytest.mark.parametrize("rest", [b"\0", bytes(8), b"x", b"rest of the block"])
def test_bytes_that_are_not_a_frame_after_a_frame_are_corrupt(
    way: Way, rest: bytes
) -> None:
    with pytest.raises(CorruptBatchError, match=f"^b: invalid {way.written} data: "):
        way.decompress(way.compress(b"records") + rest, name="b")


@_ALL_STREAMS
def test_no_bytes_are_no_records(way: Way) -> None:
    assert way.decompress(b"") == b""


@pytest.mark.parametrize(
    "way", [way for way in _WAYS if way.written in {"lz4", "zstd"}], ids=str
)
def test_a_frame_to_be_skipped_is_skipped(way: Way) -> None:
    skipped = bytes.fromhex("502a4d1803000000") + b"any"
    stored = skipped + way.compress(b"records") + skipped
    assert way.decompress(stored) == b"records"
    assert way.decompress(skipped) == b""
    with pytest.raises(CorruptBatchError, match=r"^batch: invalid "):
        way.decompress(skipped[:-1])


_BY_ALL = pytest.mark.parametrize("package", PACKAGES[Codec.SNAPPY])


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        (b"\0\0", "block is cut off"),
        (b"\0\0\0\x09\1", "block of 9 bytes is cut off"),
        (b"\xff\xff\xff\xff", "block of -1 bytes is cut off"),
        (b"\x7f\xff\xff\xff", "block of 2147483647 bytes is cut off"),
        (b"\0\0\0\0", "preamble is cut off"),
    ],
)
@_BY_ALL
def test_a_xerial_block_that_does_not_fit_is_corrupt(
    package: str, tail: bytes, error: str
) -> None:
    with pytest.raises(
        CorruptBatchError, match=f"^batch: invalid snappy data: {error}"
    ):
        decompress(Codec.SNAPPY, xerial(b"records") + tail, package=package)


@_BY_ALL
def test_a_xerial_header_that_is_cut_off_is_corrupt(package: str) -> None:
    whole = xerial(b"")
    assert decompress(Codec.SNAPPY, whole, package=package) == b""
    with pytest.raises(
        CorruptBatchError, match="invalid snappy data: header is cut off"
    ):
        decompress(Codec.SNAPPY, whole[:-1], package=package)


@pytest.mark.parametrize("package", PACKAGES[Codec.ZSTD])
@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("00 58", None),  # a window of 2 MiB, no content size
        ("00 88", None),  # 128 MiB
        ("00 89", "window of 150994944 bytes"),
        ("a0 00000004", "content size 67108864 exceeds the 1 bytes"),
        ("a0 01000000", None),  # the content is the window
        ("a0 02000000", "content size 2 exceeds the 1 bytes"),
        ("08 58", ""),  # a reserved bit
        ("03 58 01000000", ""),  # a dictionary
    ],
)
def test_what_the_header_of_a_zstd_frame_claims_must_be_possible(
    package: str, header: str, error: str | None
) -> None:
    stored = bytes.fromhex("28b52ffd" + header + "090000" + "61")  # one raw byte
    if error is None:
        assert decompress(Codec.ZSTD, stored, package=package) == b"a"
        return
    with pytest.raises(CorruptBatchError, match=f"^b: invalid zstd data: {error}"):
        decompress(Codec.ZSTD, stored, name="b", package=package)


@_BY_ALL
def test_a_short_literal_with_a_long_length_is_read(package: str) -> None:
    stored = b"\1\xf0\0a"
    assert decompress(Codec.SNAPPY, stored, package=package) == b"a"


@_BY_ALL
def test_the_limit_holds_over_all_xerial_blocks(package: str) -> None:
    stored = xerial(bytes(4000), block=1000)
    found = decompress(Codec.SNAPPY, stored, limit=4000, package=package)
    assert found == bytes(4000)
    with pytest.raises(CorruptBatchError, match="decompresses to more than"):
        decompress(Codec.SNAPPY, stored, limit=3999, package=package)


@pytest.mark.parametrize(
    ("size", "error"),
    [
        (1 << 20, "cannot hold"),
        ((1 << 28) - 1, "cannot hold"),
        (1 << 31, "decompresses to more than"),
        ((1 << 35) - 1, "decompresses to more than"),
    ],
)
@_BY_ALL
def test_a_snappy_block_that_claims_too_much_is_refused(
    package: str, size: int, error: str
) -> None:
    claim = bytearray()
    while size > 0x7F:
        claim.append(size & 0x7F | 0x80)
        size >>= 7
    claim.append(size)
    with pytest.raises(CorruptBatchError, match=error):
        decompress(Codec.SNAPPY, bytes(claim) + b"\x00a", package=package)


def test_what_is_not_compressed_is_not_copied() -> None:
    data = b"records"
    assert decompress(Codec.NONE, data).obj is data


_MEASURED = """
    from tieredfs.errors import CorruptBatchError
    from tieredfs.format.batch.reader import scan_log
    from tieredfs.format.batch.header import Codec
    from tieredfs.format.compression.compress import decompress
    from tieredfs.format.records.decode import RecordDecoder

    def peak():
        status = open("/proc/self/status").read().splitlines()
        (line,) = [line for line in status if line.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    def decode(log):
        batches = RecordDecoder("t", 0).decode(scan_log(log, name="log"))
        return sum(piece.num_rows for piece in batches)

    stored = open({file!r}, "rb").read()
    before = peak()
    try:
        print({call}, "records")
    except CorruptBatchError as error:
        print(error)
    print(peak() - before)
"""


def _measured(stored: bytes, folder: Path, call: str) -> tuple[str, int]:
    """Make a call in its own process; return its output and its peak memory."""
    path = folder / "stored"
    path.write_bytes(stored)
    code = textwrap.dedent(_MEASURED).format(file=str(path), call=call)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    output, peak = done.stdout.splitlines()
    return output, int(peak)


def _peak(log: bytes, folder: Path) -> tuple[str, int]:
    """Decode a log in a process of its own."""
    return _measured(log, folder, "decode(stored)")


def test_a_zstd_bomb_past_the_real_limit_ends_in_an_error_not_in_memory(
    tmp_path: Path,
) -> None:
    payload = CODECS["zstd"].compress(bytes(MAX_DECOMPRESSED + _MIB))
    assert len(payload) < 1 << 16
    output, peak = _peak(encode_batch(codec="zstd", payload=payload, count=1), tmp_path)
    assert output.endswith(f"decompresses to more than {MAX_DECOMPRESSED} bytes")
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
    output, peak = _peak(batch, tmp_path)
    assert output.startswith("log: batch at position 0: ")
    assert output.endswith(f" bytes cannot hold {count} records")
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
    output, peak = _peak(batch, tmp_path)
    assert output == f"{count} records"
    assert peak < 2 * len(body) + 12 * (8 * _MIB)


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
    output, peak = _peak(batch, tmp_path)
    assert output == "log: batch at position 0: offsets do not increase"
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
    output, peak = _peak(batch, tmp_path)
    assert output.startswith("log: batch at position 0: a record has more headers than")
    assert peak < 2 * MAX_DECOMPRESSED


def test_the_claimed_size_of_a_xerial_block_is_signed() -> None:
    stored = xerial(b"x")[:16] + struct.pack(">i", -(1 << 31)) + b"\1\0x"
    with pytest.raises(CorruptBatchError, match="of -2147483648 bytes"):
        decompress(Codec.SNAPPY, stored)


@pytest.mark.parametrize("package", ["pyarrow", None])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_refused_batch_leaves_nothing_behind_in_memory(
    codec: Codec, package: str | None
) -> None:
    stored = compress(codec, bytes(range(256)) * 20)[:-9]

    def refuse(times: int) -> int:
        for _ in range(times):
            with pytest.raises(CorruptBatchError):
                decompress(codec, stored, package=package)
        held, _ = tracemalloc.get_traced_memory()
        return held + int(pa.total_allocated_bytes())

    tracemalloc.start()
    try:
        before = refuse(2)
        assert refuse(20) < before + _MIB
    finally:
        tracemalloc.stop()


def test_every_codec_has_a_name_that_a_type_checker_knows() -> None:
    assert get_args(CodecName) == tuple(codec.name.lower() for codec in Codec)


def test_a_lack_of_memory_is_not_taken_for_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lack(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 9 failed")

    monkeypatch.setattr(pa, "CompressedInputStream", lack)
    with pytest.raises(MemoryError):
        decompress(Codec.LZ4, compress(Codec.LZ4, b"x"))
