"""Damaged objects: what the plugin's own reader answers, and what this one does."""

from collections.abc import Mapping
from typing import Final

import pytest

from support.damage import damaged
from support.samples import fault_cases, fill, sample
from tieredfs import (
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    Tier,
    TieredFSError,
    UnsupportedFormatError,
)

VARIANTS = ("plain", "zstd", "encrypted")
ASKED: Final[Mapping[str, IndexType | None]] = {
    "fetchLogSegment read all": None,
    "fetchIndex OFFSET": IndexType.OFFSET,
    "fetchIndex LEADER_EPOCH": IndexType.LEADER_EPOCH,
    "fetchIndex TRANSACTION": IndexType.TRANSACTION,
}

STRICTER = {("plain", ".log cut by 100 bytes", "fetchLogSegment read all")}
"""Where the plugin answers with less than there was, and this one does not."""

ERRORS: Mapping[str, type[TieredFSError]] = {
    "no .log object": NotFoundError,
    "no .indexes object": NotFoundError,
    "no .rsm-manifest object": NotFoundError,
    ".log truncated to half": CorruptObjectError,
    ".log cut by 100 bytes": CorruptObjectError,
    ".log empty": CorruptObjectError,
    ".log one byte flipped in the first chunk": CorruptObjectError,
    ".indexes truncated to half": CorruptObjectError,
    ".indexes one byte flipped at 20": CorruptIndexError,
    "manifest empty": CorruptObjectError,
    "manifest cut": CorruptObjectError,
    "manifest: extra top-level field": UnsupportedFormatError,
    "manifest: extra field inside segmentIndexes": UnsupportedFormatError,
    "manifest: extra field inside chunkIndex": UnsupportedFormatError,
    "manifest: no transaction key": CorruptObjectError,
    "manifest: transaction null": NotFoundError,
    "manifest: no compression key": CorruptObjectError,
    "manifest: version 2": UnsupportedFormatError,
    "manifest: no version": CorruptObjectError,
    "manifest: chunkIndex type unknown": UnsupportedFormatError,
    "manifest: unknown key id": PermissionDeniedError,
    "manifest: data key damaged": PermissionDeniedError,
    "manifest: dataKey without key id": CorruptObjectError,
    "manifest: aad damaged": CorruptDataError,
}

CASES = [
    pytest.param(variant, case, id=f"{variant}, {case}")
    for variant in VARIANTS
    for case in fault_cases(variant)
]


@pytest.mark.parametrize(("variant", "case"), CASES)
def test_damage_is_answered_as_the_plugin_does_or_more_strictly(
    variant: str, case: str, memory: ObjectStore
) -> None:
    one = sample(variant, "txn")
    objects = damaged(case, one.objects)
    fill(memory, {f"{one.stem}.{suffix}": data for suffix, data in objects.items()})
    storage, segment = one.open(memory), one.metadata

    def read(kind: IndexType | None) -> memoryview:
        if kind is None:
            return storage.fetch_log_segment(segment)
        return storage.fetch_index(segment, kind)

    for asked, kind in ASKED.items():
        answer = fault_cases(variant)[case][asked]
        if isinstance(answer, str) and (variant, case, asked) not in STRICTER:
            assert f"returned {len(read(kind))} bytes" == answer
        else:
            with pytest.raises(ERRORS[case], match=segment.id) as caught:
                read(kind)
            assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(("variant", "case"), CASES)
def test_all_indexes_are_right_or_an_error(
    variant: str, case: str, memory: ObjectStore
) -> None:
    one = sample(variant, "txn")
    objects = damaged(case, one.objects)
    fill(memory, {f"{one.stem}.{suffix}": data for suffix, data in objects.items()})
    answers = fault_cases(variant)[case]
    throws = [
        kind
        for asked, kind in ASKED.items()
        if kind is not None and not isinstance(answers[asked], str)
    ]
    if throws and case != "manifest: transaction null":
        with pytest.raises(ERRORS[case], match=one.metadata.id):
            one.open(memory).fetch_all_indexes(one.metadata)
        return
    found = one.open(memory).fetch_all_indexes(one.metadata)
    assert found.keys() == set(IndexType) - set(throws)
    assert found.layout == objects["rsm-manifest"]


def test_a_manifest_that_does_not_say_where_its_segment_ends_is_damaged(
    memory: ObjectStore,
) -> None:
    one = sample("plain", "txn")
    objects = damaged("manifest: no remoteLogSegmentMetadata", one.objects)
    fill(memory, {f"{one.stem}.{suffix}": data for suffix, data in objects.items()})
    with pytest.raises(CorruptObjectError, match=r"rsm-manifest.*no end offset"):
        one.open(memory).describe(one.metadata)


def test_chunks_that_were_exchanged_are_seen_by_the_batches_in_them(
    memory: ObjectStore,
) -> None:
    one = sample("encrypted", "txn")
    objects = damaged("encrypted chunks 0 and 1 exchanged", one.objects)
    fill(memory, {f"{one.stem}.{suffix}": data for suffix, data in objects.items()})
    topic = Tier(one.open(memory)).topic(one.metadata.partition.topic)
    with pytest.raises(CorruptDataError, match=one.metadata.id):
        topic.scan().to_table()
