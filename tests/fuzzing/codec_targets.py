"""Decompression: bounded, repeatable, and what other code makes of the same bytes."""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from fuzzing import corpus
from fuzzing.decompression import gunzipped, unlz4d, unsnapped
from fuzzing.log_model import Refused
from fuzzing.mutations import choice, mutated, number
from fuzzing.target import Target, check_name
from support.wire import CODECS
from tieredfs.errors import CorruptBatchError
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import compress, decompress
from tieredfs.format.compression.lz4_frames import repair_lz4_header

__all__ = ["CODEC_TARGETS"]

_LIMITS: Final = (1, 100, 1000, 4096, 1 << 16, 1 << 20)
_MIB: Final = 1 << 20


@cache
def _originals(codec: Codec) -> Mapping[bytes, bytes]:
    """Return stored bytes of a codec, real and made, and what they hold."""
    held: dict[bytes, bytes] = {}
    plain: set[bytes] = {b"", b"x", bytes(5000), bytes(range(256)) * 20}
    for batch in corpus.batches(frozenset({2})):
        stored, number_of_codec = batch[61:], batch[22] & 7
        if number_of_codec == codec:
            held[stored] = bytes(decompress(codec, stored))
        elif not number_of_codec:
            plain.add(stored)
    for data in sorted(plain)[::8]:
        held[compress(codec, data)] = data
        for made in CODECS.values():
            if made.number == codec:
                held[made.compress(data)] = data
    return held


@cache
def _seeds(codec: Codec) -> tuple[bytes, ...]:
    return tuple(sorted(_originals(codec)))


@dataclass(frozen=True, slots=True)
class _Make:
    """Makes compressed bytes with a few edits, or two of them in a row."""

    codec: Codec

    def __call__(self, rng: Random) -> bytes:
        seeds = _seeds(self.codec)
        data = choice(rng, seeds)
        if rng.random() < 0.05:
            data += choice(rng, seeds)
        data = mutated(rng, data, seeds)
        return _gzip_sealed(data) if self.codec is Codec.GZIP else data


def _gzip_sealed(data: bytes) -> bytes:
    """Make the checksum and the size at the end right, if what they are of inflates."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflate.decompress(data[10:], _LIMITS[-1])
    except zlib.error:
        return data
    if not inflate.eof:
        return data
    end = len(data) - len(inflate.unused_data)
    check = struct.pack("<II", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
    return data[:end] + check + data[end + len(check) :]


@dataclass(frozen=True, slots=True)
class _Check:
    """Judges what is decompressed.

    Attributes:
        codec: What is decompressed.
        model: Does the same, if there is one.
        refuses: Whether the model refuses all that is wrong.
    """

    codec: Codec
    model: Callable[[bytes, int], bytes] | None = None
    refuses: bool = False

    def __call__(self, data: bytes, rng: Random) -> bool:
        limit = choice(rng, _LIMITS)
        if self.codec is Codec.LZ4:
            repair_lz4_header(data)
        try:
            found = bytes(decompress(self.codec, data, limit=limit, name="x"))
        except CorruptBatchError as error:
            check_name(error)
            return self._refused(data, limit)
        assert len(found) <= limit
        # What was never written would not be the same again.
        assert decompress(self.codec, data, limit=limit) == found
        if self.model:
            assert self._modelled(data, limit) == found
        if data in _seeds(self.codec):
            assert found == _originals(self.codec)[data]
        return True

    def _refused(self, data: bytes, limit: int) -> bool:
        assert not self.refuses or self._modelled(data, limit) is None
        return False

    def _modelled(self, data: bytes, limit: int) -> bytes | None:
        try:
            return self.model(data, limit) if self.model else None
        except Refused:
            return None


def _broken_header(rng: Random) -> bytes:
    """Make an lz4 frame whose header has the checksum of Kafka's old clients."""
    data = bytearray(_Make(Codec.LZ4)(rng))
    if len(data) > 6:
        data[4] = choice(rng, (0x60, 0x64, 0x68, 0x69, 0x40, number(rng, 256)))
    return bytes(data)


def _read_broken_header(data: bytes, _: Random) -> bool:
    """Only the one byte of the checksum is changed, and it is changed once."""
    mended = repair_lz4_header(data)
    assert len(mended) == len(data)
    changed = [at for at, byte in enumerate(data) if mended[at] != byte]
    flags = data[4] if len(data) > 4 else 0
    assert changed in ([], [6 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)])
    assert repair_lz4_header(mended) == mended
    assert struct.unpack("<I", data[:4].ljust(4))[0] == 0x184D2204 or mended == data
    return bool(changed)


CODEC_TARGETS: Final = (
    Target(
        "gzip",
        _Make(Codec.GZIP),
        _Check(Codec.GZIP, gunzipped, refuses=True),
        500_000,
        4 * _MIB,
    ),
    Target(
        "snappy",
        _Make(Codec.SNAPPY),
        _Check(Codec.SNAPPY, unsnapped, refuses=True),
        1_000_000,
        4 * _MIB,
    ),
    Target("lz4", _Make(Codec.LZ4), _Check(Codec.LZ4, unlz4d), 900_000, 4 * _MIB),
    Target("zstd", _Make(Codec.ZSTD), _Check(Codec.ZSTD), 500_000, 4 * _MIB),
    Target("lz4-header", _broken_header, _read_broken_header, 100_000, _MIB // 4),
)
