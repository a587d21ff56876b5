"""Logs in chunks: every range of them, however they are stored."""

import resource
from collections.abc import Mapping
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.samples import KEYS, fill, new_store
from support.written_segments import Written, pack_sizes
from tieredfs import CorruptObjectError, TieredFSError
from tieredfs_aiven import Aiven

CHUNKED = Written(bytes(range(250)) * 4, chunk_size=300, is_compressed=True)


@st.composite
def segments(draw: st.DrawFn) -> Written:
    log = draw(st.binary(max_size=300)) * draw(st.integers(1, 4))
    return Written(
        log,
        chunk_size=draw(st.integers(1, 400)),
        is_compressed=draw(st.booleans()),
        is_encrypted=draw(st.booleans()),
        prefix=draw(st.sampled_from(["", "tiered/", "a/b-"])),
    )


def opened(segment: Written, manifest: Mapping[str, Any] | None = None) -> Aiven:
    store = new_store()
    fill(store, segment.objects(manifest))
    return Aiven(store, key_prefix=segment.prefix, encryption_keys=KEYS)


@given(segments(), st.data())
def test_every_range_is_that_of_the_log(segment: Written, data: st.DataObject) -> None:
    storage = opened(segment)
    size = len(segment.log)
    start, end = sorted([data.draw(st.integers(0, size)) for _ in range(2)])
    found = storage.fetch_log_segment(segment.metadata, start, end)
    assert found == segment.log[start:end]
    assert b"".join(storage.stream_log(segment.metadata)) == segment.log
    for kind, index in storage.fetch_all_indexes(segment.metadata).items():
        assert index == segment.indexes[kind]


@given(segments(), st.data())
def test_one_changed_byte_is_another_log_or_an_error(
    segment: Written, data: st.DataObject
) -> None:
    """Encryption sees every change; otherwise the batches in the log do."""
    objects = segment.objects()
    key = data.draw(st.sampled_from(sorted(objects)))
    if not objects[key]:
        return
    content = bytearray(objects[key])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    store = new_store()
    fill(store, {**objects, key: bytes(content)})
    storage = Aiven(store, key_prefix=segment.prefix, encryption_keys=KEYS)
    try:
        log = storage.fetch_log_segment(segment.metadata)
        indexes = storage.fetch_all_indexes(segment.metadata)
    except TieredFSError:
        return
    assert len(log) == len(segment.log) or key.endswith("rsm-manifest")
    if segment.is_encrypted and not key.endswith("rsm-manifest"):
        assert log == segment.log
        assert all(segment.indexes[kind] == data for kind, data in indexes.items())


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("originalChunkSize", 299),
        ("originalChunkSize", 301),
        ("originalFileSize", 999),
        ("originalFileSize", 1001),
        ("transformedChunks", pack_sizes([50, 60, 70, 80])),
    ],
)
def test_chunks_of_other_sizes_than_the_manifest_says_are_damaged(
    change: str, value: object
) -> None:
    manifest = CHUNKED.manifest()
    manifest["chunkIndex"][change] = value
    with pytest.raises(CorruptObjectError, match=CHUNKED.metadata.id):
        opened(CHUNKED, manifest).fetch_log_segment(CHUNKED.metadata)


def test_an_uncompressed_log_with_a_compressed_one_s_index_is_read() -> None:
    segment = Written(b"abcdefgh", chunk_size=3)
    manifest = segment.manifest()
    manifest["chunkIndex"] = {
        "type": "variable",
        "originalChunkSize": 3,
        "originalFileSize": 8,
        "transformedChunks": pack_sizes([3, 3, 2]),
    }
    storage = opened(segment, manifest)
    assert storage.fetch_log_segment(segment.metadata, 2, 7) == b"cdefg"


def test_a_frame_that_claims_gigabytes_costs_no_memory() -> None:
    frame = zstandard.ZstdCompressor().compress(b"small")
    segment = Written(b"x" * 1000, chunk_size=2_000_000_000, is_compressed=True)
    manifest = segment.manifest()
    manifest["chunkIndex"]["originalFileSize"] = 2_000_000_000
    manifest["chunkIndex"]["transformedChunks"] = pack_sizes([len(frame)])
    storage = opened(segment, manifest)
    fill(storage.store, {f"{segment.stem}.log": frame})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        CorruptObjectError, match="decompressed size is 5, not 2000000000"
    ):
        storage.fetch_log_segment(segment.metadata, 0, 10)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10  # KiB


def test_a_chunk_that_unpacks_to_more_than_it_says_is_stopped() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    segment = Written(b"x" * 1000, chunk_size=100_000_000, is_compressed=True)
    manifest = segment.manifest()
    manifest["chunkIndex"]["originalFileSize"] = 100_000_000
    manifest["chunkIndex"]["transformedChunks"] = pack_sizes([len(bomb)])
    storage = opened(segment, manifest)
    fill(storage.store, {f"{segment.stem}.log": bomb})
    with pytest.raises(CorruptObjectError, match=r"\.log"):
        storage.fetch_log_segment(segment.metadata, 0, 10)


def test_a_log_of_no_bytes_is_empty() -> None:
    for is_compressed in (False, True):
        segment = Written(b"", is_compressed=is_compressed)
        storage = opened(segment)
        assert len(storage.fetch_log_segment(segment.metadata)) == 0
        assert list(storage.stream_log(segment.metadata)) == []
        assert storage.describe(segment.metadata).size == 0
