"""Every sample reads equal to what the plugin itself answered."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.samples import DATA, Sample, digest, listed, samples
from tieredfs import (
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    NotFoundError,
    SegmentId,
)

SAMPLES = [pytest.param(one, id=str(one)) for one in samples()]
every_sample = pytest.mark.parametrize("one", SAMPLES)


def test_the_samples_have_every_way_to_store_a_segment() -> None:
    texts = [one.objects["rsm-manifest"].decode() for one in samples()]
    assert len(texts) >= 46
    for part in (
        '"type":"fixed"',
        '"type":"variable"',
        '"encryption":',
        '"transaction":null',
        '"txnIdxEmpty"',
    ):
        assert any(part in text for text in texts)
    assert any("txnIdxEmpty" not in text for text in texts)


@every_sample
def test_a_segment_is_listed_and_described_as_the_broker_gave_it(one: Sample) -> None:
    storage = one.open()
    told = one.expected["metadata"]
    assert one.metadata.partition in storage.list_partitions()
    segment = storage.describe(listed(storage, one))
    assert segment.start_offset == told["startOffset"]
    assert segment.end_offset == told["endOffset"]
    assert segment.max_timestamp_ms == told["maxTimestampMs"]
    assert segment.size == told["segmentSizeInBytes"]
    assert segment.leader_epochs is not None
    epochs = {entry.epoch: entry.start_offset for entry in segment.leader_epochs}
    for epoch, first in told["segmentLeaderEpochs"].items():
        assert epochs[int(epoch)] <= first


@every_sample
def test_the_whole_log_is_the_file_that_was_tiered(one: Sample) -> None:
    storage = one.open()
    expected = one.expected["fetchLogSegment"]["full"]
    assert digest(storage.fetch_log_segment(one.metadata)) == expected
    assert digest(b"".join(storage.stream_log(one.metadata))) == expected


@every_sample
def test_a_range_is_that_of_the_file_with_the_layout_and_without(one: Sample) -> None:
    storage = one.open()
    size = one.expected["metadata"]["segmentSizeInBytes"]
    layout = storage.fetch_all_indexes(one.metadata).layout
    for wanted in one.expected["fetchLogSegment"]["ranges"]:
        start = wanted["start"]
        end = min(wanted["end_inclusive"] + 1, size)  # the plugin cuts it off there
        expected = {"length": wanted["length"], "sha256": wanted["sha256"]}
        for known in (b"", layout):
            found = storage.fetch_log_segment(one.metadata, start, end, layout=known)
            assert digest(found) == expected
            assert found.readonly


@every_sample
def test_every_index_is_the_file_that_was_tiered(one: Sample) -> None:
    storage = one.open()
    together = storage.fetch_all_indexes(one.metadata)
    for name, expected in one.expected["fetchIndex"].items():
        kind = IndexType(name)
        if "throws" in expected:
            assert kind not in together
            with pytest.raises(NotFoundError, match=name):
                storage.fetch_index(one.metadata, kind)
        else:
            assert digest(together[kind]) == expected
            assert digest(storage.fetch_index(one.metadata, kind)) == expected
            assert together[kind].readonly


@every_sample
def test_what_cannot_be_met_is_a_typed_error(one: Sample) -> None:
    storage = one.open()
    segment, size = one.metadata, one.expected["metadata"]["segmentSizeInBytes"]
    gone = SegmentId.from_bytes(bytes(16))
    missing = type(segment)(segment.partition, gone, segment.start_offset)
    with pytest.raises(NotFoundError, match=gone):
        storage.fetch_log_segment(missing)
    with pytest.raises(NotFoundError, match=gone):
        storage.fetch_index(missing, IndexType.OFFSET)
    with pytest.raises(CorruptObjectError, match=segment.id):
        storage.fetch_log_segment(segment, size + 10, size + 20)
    with pytest.raises(CorruptObjectError, match=segment.id):
        storage.fetch_log_segment(segment, 0, size + 1)
    with pytest.raises(InvalidArgumentError, match=segment.id):
        storage.fetch_log_segment(segment, -1, 5)
    with pytest.raises(InvalidArgumentError, match=segment.id):
        storage.fetch_log_segment(segment, 5, 4)
    # Nothing is asked for: Kafka's own local storage gives that as well.
    assert len(storage.fetch_log_segment(segment, size)) == 0


def test_one_storage_serves_many_threads() -> None:
    some = [one for one in samples() if one.folder == DATA / "zstd-encrypted"]
    storage = some[0].open()

    def read(one: Sample) -> bool:
        found = storage.fetch_log_segment(one.metadata)
        expected = one.expected["fetchLogSegment"]["full"]
        indexes = storage.fetch_all_indexes(one.metadata)
        return digest(found) == expected and len(indexes) >= len(IndexType) - 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, some * 4))
