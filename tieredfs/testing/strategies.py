"""Hypothesis strategies: segments as brokers leave them, and bytes that are damaged.

A drawn segment is valid: every layout stores it, except that one without room for holes
refuses a compacted log. Segments are small, and shrink to one record of one batch at
offset 0 of the first partition.
"""

from typing import Final, get_args

import hypothesis.strategies as st

from tieredfs.format.compression.codec import CodecName
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.model import SegmentId, TopicIdPartition, Uuid
from tieredfs.testing.samples import Sample
from tieredfs.testing.segment_plan import (
    BatchKind,
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)

__all__ = [
    "hostile_bytes",
    "partitions",
    "plans",
    "segment_ids",
    "segments",
    "start_offsets",
    "topic_names",
]

_MAX_START: Final = MAX_INT64 - (1 << 10)
"""The last start offset: a plan's offsets fit after it."""

_NAMES: Final = (
    "a",
    "a-1",
    "a-10",
    "a-1-0",
    "A",
    "_",
    "-",
    "0",
    "...",
    ".log",
    "__consumer_offsets",
    "kafka-tiered-storage",
    "x" * 249,
)
"""Names that a layout may confuse with each other, or with its own folders."""

_INT32S: Final = (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff")
"""Lengths and counts that a parser must not trust."""


def topic_names() -> st.SearchStrategy[str]:
    """Draw names that Kafka accepts, odd ones among them."""
    return st.sampled_from(_NAMES) | st.from_regex(
        r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,8}", fullmatch=True
    )


def partitions() -> st.SearchStrategy[TopicIdPartition]:
    """Draw partitions, each with a topic id."""
    # One choice each: what takes fewer choices would count as the simpler number.
    numbers = st.sampled_from([*range(13), MAX_INT32])
    ids = _sixteen_bytes().map(Uuid.from_bytes)
    return st.builds(TopicIdPartition, topic_names(), numbers, ids)


def segment_ids() -> st.SearchStrategy[SegmentId]:
    """Draw ids of segments."""
    return _sixteen_bytes().map(SegmentId.from_bytes)


def start_offsets() -> st.SearchStrategy[int]:
    """Draw offsets at which a segment begins, up to the last possible ones."""
    return st.sampled_from([0, 1, MAX_INT32, MAX_INT32 + 1, _MAX_START]) | st.integers(
        0, _MAX_START
    )


@st.composite
def plans(draw: st.DrawFn, *, is_compacted: bool = False) -> SegmentPlan:
    """Draw what a segment holds.

    Args:
        draw: Hypothesis gives it.
        is_compacted: Whether the log cleaner may have removed records, batches, and the
            end of the log.
    """
    removed = st.integers(0, 2) if is_compacted else st.just(0)
    first_epoch = draw(st.sampled_from([0, 1, 7, MAX_INT32 - 4]))
    return SegmentPlan(
        tuple(draw(st.lists(_batches(removed), min_size=1, max_size=5))),
        first_epoch,
        draw(st.integers(0, 2)),
        draw(st.sampled_from([(), (3,), (1, 2)])),
        draw(removed),
        draw(st.sampled_from([0, 150, 4096])),
    )


def segments(
    of: st.SearchStrategy[TopicIdPartition] | None = None,
    starts: st.SearchStrategy[int] | None = None,
    *,
    is_compacted: bool = False,
) -> st.SearchStrategy[Sample]:
    """Draw segments with their indexes, as brokers hand them over.

    Args:
        of: Their partitions; None for any.
        starts: Their start offsets; None for any.
        is_compacted: As in ``plans``.
    """
    return st.builds(
        build_segment,
        partitions() if of is None else of,
        segment_ids(),
        start_offsets() if starts is None else starts,
        plans(is_compacted=is_compacted),
    )


@st.composite
def hostile_bytes(draw: st.DrawFn, valid: bytes = b"") -> bytes:
    """Draw bytes that no parser may trust: damaged ones, or any.

    Args:
        draw: Hypothesis gives it.
        valid: What is damaged; if it is empty, any bytes are drawn.
    """
    if not valid:
        return draw(st.binary(max_size=64))
    at = draw(st.integers(0, len(valid) - 1))
    number = draw(st.sampled_from(_INT32S))
    inserted = draw(st.binary(min_size=1, max_size=8))
    harmed = (
        valid[:at],
        valid[:at] + bytes([valid[at] ^ draw(st.integers(1, 255))]) + valid[at + 1 :],
        valid[:at] + number + valid[at + len(number) :],
        valid[:at] + inserted + valid[at:],
        valid + valid[at:],
        valid + bytes(len(inserted)),
    )
    return draw(st.sampled_from(harmed))


def _sixteen_bytes() -> st.SearchStrategy[bytes]:
    """Draw the bytes of an id; Kafka reserves those of 0 and 1."""
    return st.integers(2, (1 << 128) - 1).map(lambda number: number.to_bytes(16))


def _batches(removed: st.SearchStrategy[int]) -> st.SearchStrategy[BatchPlan]:
    return st.builds(
        BatchPlan,
        st.lists(_records(removed), min_size=1, max_size=4).map(tuple),
        st.sampled_from(get_args(BatchKind)),
        st.integers(0, 1),
        st.sampled_from([0, 0, 0, 1, 2]),
        removed,
        st.sampled_from(get_args(CodecName)),
        st.booleans(),
    )


def _records(removed: st.SearchStrategy[int]) -> st.SearchStrategy[PlannedRecord]:
    timestamps = st.sampled_from([0, 1, -1, 1_760_000_000_000, MAX_INT64])
    headers = st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3))
    return st.builds(
        PlannedRecord,
        timestamps | st.integers(-1, MAX_INT64),
        st.none() | st.binary(max_size=4),
        st.none() | st.binary(max_size=4) | st.integers(60, 300).map(bytes),
        st.just(()) | st.lists(headers, max_size=2).map(tuple),
        removed.map(bool),
    )
