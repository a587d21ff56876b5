"""Rules for reading a log."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Final

from tieredfs.errors import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
)
from tieredfs.model import IndexType, SegmentId, SegmentMetadata
from tieredfs.objects import RequestCounter
from tieredfs.storage import Capability
from tieredfs.testing.reads import every_read
from tieredfs.testing.requirement import in_words
from tieredfs.testing.rule import (
    Asked,
    Case,
    NotApplicableError,
    expect_error,
    require,
    require_bytes,
    rule,
)
from tieredfs.testing.samples import PARTITIONS, Sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)
from tieredfs.testing.stores import READS, WatchedStore

__all__ = [
    "check_buffers_are_read_only",
    "check_custom_metadata_is_needed_for_all_or_none",
    "check_large_log_is_whole",
    "check_layout_changes_nothing",
    "check_missing_segment_is_not_found",
    "check_plan_is_what_is_fetched",
    "check_range_costs_no_more",
    "check_ranges_are_exact",
    "check_ranges_outside_the_log_are_errors",
    "check_stream_is_the_log",
]


_LARGE_BATCH_BYTES: Final = 1_000_000
_LARGE_BATCHES: Final = 9


@rule()
def check_ranges_are_exact(case: Case) -> None:
    """``fetch_log_segment`` returns exactly the bytes that were asked for.

    ``fetch_log_ahead`` returns those, or more of what follows.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    for listed in case.segments():
        whole = bytes(case.storage.fetch_log_segment(listed))
        size = len(whole)
        said = case.storage.describe(listed).size
        require(
            size == said or case.storage.is_active(listed),
            f"fetch_log_segment of {listed} returned {size} bytes, expected {said}.",
        )
        middle = size // 2
        ranges = {(0, 0), (0, 1), (1, middle), (middle, middle), (size - 1, size)}
        for start, end in sorted({*ranges, (0, size), (size, size)}):
            if 0 <= start <= end <= size:
                found = case.storage.fetch_log_segment(listed, start, end)
                call = f"fetch_log_segment({listed}, {start}, {end})"
                require_bytes(found, whole[start:end], call)
                ahead = bytes(case.storage.fetch_log_ahead(listed, start, end))
                require(
                    len(ahead) >= end - start and whole.startswith(ahead, start),
                    f"fetch_log_ahead({listed}, {start}, {end}) returned {len(ahead)} "
                    f"bytes that are not the log from {start} to at least {end}.",
                )
        rest = case.storage.fetch_log_segment(listed, middle)
        call = f"fetch_log_segment({listed}, {middle})"
        require_bytes(rest, whole[middle:], call)


@rule()
def check_ranges_outside_the_log_are_errors(case: Case) -> None:
    """A range that is not inside the log is an error, never fewer bytes.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    for listed in case.segments():
        size = len(case.storage.fetch_log_segment(listed))
        ranges: list[tuple[int, int | None, type[TieredFSError]]] = [
            (0, size + 1, CorruptDataError),
            (max(size - 1, 0), size + 5, CorruptDataError),
            (size, size + 1, CorruptDataError),
            (2, 1, InvalidArgumentError),
            (-1, size, InvalidArgumentError),
            (-1, None, InvalidArgumentError),
            (size + 1, None, TieredFSError),
        ]
        for start, end, error in ranges:
            said = f"[{start}, {end}) of {listed}, which has {size} bytes,"
            expect_error(
                partial(case.storage.fetch_log_segment, listed, start, end),
                error,
                f"The range {said}",
            )
            if end is not None:
                expect_error(
                    partial(case.storage.fetch_log_ahead, listed, start, end),
                    error,
                    f"Reading ahead, the range {said}",
                )


@rule()
def check_buffers_are_read_only(case: Case) -> None:
    """Logs and indexes are returned as read-only memoryviews.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    for listed in case.segments():
        found: dict[str, object] = {
            "fetch_log_segment": case.storage.fetch_log_segment(listed),
            "an empty fetch_log_segment": case.storage.fetch_log_segment(listed, 0, 0),
        }
        indexes = case.storage.fetch_all_indexes(listed)
        for kind in indexes:
            found[f"fetch_all_indexes, {kind},"] = indexes[kind]
            one = case.storage.fetch_index(listed, kind)
            found[f"fetch_index of {kind}"] = one
        described = case.storage.describe(listed)
        found["fetch_log_ahead"] = case.storage.fetch_log_ahead(listed, 0, 1)
        found["stream_log"] = next(iter(case.storage.stream_log(described)))
        for said, buffer in found.items():
            require(
                isinstance(buffer, memoryview) and buffer.readonly,
                f"Of {listed} {said} returned {buffer!r}, which is not a read-only "
                "memoryview.",
            )


@rule()
def check_stream_is_the_log(case: Case) -> None:
    """``stream_log`` yields the whole log, in order.

    Source: the plugin contract, What a user calls, ``stream_log``.
    """
    for listed in case.segments():
        described = case.storage.describe(listed)
        whole = case.storage.fetch_log_segment(described)
        streamed = b"".join(case.storage.stream_log(described))
        require_bytes(streamed, bytes(whole), f"stream_log of {listed}")


@rule()
def check_layout_changes_nothing(case: Case) -> None:
    """``fetch_log_segment`` returns the same bytes with ``layout`` as without it.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    layouts = set()
    for listed in case.segments():
        whole = bytes(case.storage.fetch_log_segment(listed))
        ends = (len(whole) // 3, len(whole))
        for kinds in (tuple(IndexType), (IndexType.OFFSET,)):
            layout = case.another().fetch_indexes(listed, kinds).layout
            layouts.add(layout)
            for end in ends:
                found = case.another().fetch_log_segment(listed, 0, end, layout=layout)
                said = f"With the layout, fetch_log_segment({listed}, 0, {end})"
                require_bytes(found, whole[:end], said)
    if not any(layouts):
        raise NotApplicableError("the layout returns none with the indexes")


@rule(Capability.WRITE)
def check_custom_metadata_is_needed_for_all_or_none(case: Case) -> None:
    """Without its custom metadata each segment is found, or none is; never another.

    Source: the plugin contract, Metadata.
    """
    plan = SegmentPlan((BatchPlan(),) * 3)
    beside = build_segment(
        PARTITIONS[0], SegmentId.from_bytes(bytes([9] * 16)), 0, plan
    )
    ones = [beside, *case.fill()]
    case.storage.copy_log_segment(beside.metadata, beside.data)
    refused: list[SegmentMetadata] = []
    found: list[SegmentMetadata] = []
    for one in filter(case.seen, ones):  # one of the same offsets may be replaced
        try:
            log = case.another().fetch_log_segment(one.metadata)
        except TieredFSError:
            refused.append(one.metadata)
        else:
            found.append(one.metadata)
            said = f"Without custom metadata, fetch_log_segment of {one.metadata}"
            require_bytes(log, one.log, said)
    require(
        not (found and refused),
        f"Without custom metadata it found {found}, and did not find {refused}.",
    )


@rule()
def check_missing_segment_is_not_found(case: Case) -> None:
    """A segment that does not exist is a NotFoundError.

    So is one that another storage has deleted since it was read.

    Source: KIP-405, RemoteResourceNotFoundException.
    """
    listed = case.segments()[0]
    start = listed.start_offset + 1_000_000_000
    moved = replace(listed, start_offset=start, end_offset=start)
    gone = [replace(moved, custom_metadata=b"")]
    reader, full = case.another(), case.another().describe(listed)
    if case.can(Capability.WRITE):
        for call in every_read(reader, listed).values():  # what it may remember
            with suppress(NotFoundError):
                call()
        case.storage.delete_log_segment(listed)
        gone.append(listed)
    for segment in gone:
        for storage in (case.storage, reader, case.another()):
            asked: Asked = {
                "its log": partial(storage.fetch_log_segment, segment),
                "a part of its log": partial(storage.fetch_log_segment, segment, 1, 2),
                "its offset index": partial(
                    storage.fetch_index, segment, IndexType.OFFSET
                ),
            }
            for said, call in asked.items():
                expect_error(call, NotFoundError, f"{segment} is gone, and {said}")
            if segment is listed:  # of any other, what is its partition's may be found
                with suppress(NotFoundError):
                    facts = storage.describe(segment)
                    require(
                        facts == full,
                        f"{segment} is gone, and describe returned {facts}, not "
                        f"{full}.",
                    )
                with suppress(NotFoundError):
                    found = storage.fetch_all_indexes(segment)
                    require(
                        not found,
                        f"{segment} is gone, and fetch_all_indexes returned "
                        f"{in_words(found)}.",
                    )


@rule(Capability.WRITE)
def check_large_log_is_whole(case: Case) -> None:
    """A log that is larger than the pieces it is read in is whole to its last byte.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    one = _large()
    size = len(one.log)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0.log")
        path.write_bytes(one.log)
        for log in (one.data.log, path):
            case.storage.copy_log_segment(one.metadata, replace(one.data, log=log))
            storage = case.another()
            listed = storage.describe(case.listed(one))
            found: dict[str, tuple[bytes, bytes]] = {
                "fetch_log_segment": (
                    bytes(storage.fetch_log_segment(listed)),
                    one.log,
                ),
                "fetch_log_segment of the last half": (
                    bytes(storage.fetch_log_segment(listed, size // 2, size)),
                    one.log[size // 2 :],
                ),
                "fetch_log_segment of the last byte": (
                    bytes(storage.fetch_log_segment(listed, size - 1)),
                    one.log[-1:],
                ),
                "stream_log": (b"".join(storage.stream_log(listed)), one.log),
            }
            for said, (came, wanted) in found.items():
                require_bytes(came, wanted, f"Of a log of {size} bytes {said}")
            case.storage.delete_log_segment(listed)


@rule(Capability.WRITE, Capability.RANGE_READ)
def check_range_costs_no_more(case: Case) -> None:
    """With RANGE_READ, reading a byte of a large log reads less than half of it.

    Source: the plugin contract, Values and functions, ``RANGE_READ``.
    """
    one = _large()
    case.storage.copy_log_segment(one.metadata, one.data)
    listed = case.listed(one)
    watched = WatchedStore.over(case.store, READS)
    size = len(one.log)
    for start in (0, size // 2, size - 1):
        watched.received = 0
        case.another(watched).fetch_log_segment(listed, start, start + 1)
        if not watched.received:
            raise NotApplicableError("the layout reads nothing through the given store")
        require(
            watched.received < size // 2,
            f"For byte {start} of {size} it read {watched.received}.",
        )


@rule()
def check_plan_is_what_is_fetched(case: Case) -> None:
    """``plan_fetch`` names the requests that ``fetch_log_ahead`` sends, and its end.

    Source: the plugin contract, What a user calls, ``plan_fetch``.
    """
    for listed in case.segments()[:2]:
        size = case.storage.describe(listed).size or 0
        for start, end in sorted({(0, size), (0, 1), (size // 3, size // 2)}):
            counter = RequestCounter()
            storage = case.another(case.store.with_observer(counter))
            storage.fetch_log_ahead(listed, 0, 1)  # what it asks only once is known
            planned = storage.plan_fetch(listed, start, end)
            before = counter.counts
            log = storage.fetch_log_ahead(listed, start, end)
            call = f"fetch_log_ahead({listed}, {start}, {end})"
            require(
                before + planned.requests == counter.counts,
                f"Planned were {planned.requests}; before {call} {before} were sent, "
                f"and after it {counter.counts}.",
            )
            require(
                planned.end == start + len(log),
                f"Planned was {call} up to {planned.end}, returned {len(log)} bytes.",
            )


@cache
def _large() -> Sample:
    """Return a segment that is larger than the pieces it is read in."""
    random = Random(0)  # noqa: S311 - repeatable, not secret
    batches = tuple(
        BatchPlan((PlannedRecord(value=random.randbytes(_LARGE_BATCH_BYTES)),))
        for _ in range(_LARGE_BATCHES)
    )
    made = SegmentId.from_bytes(b"a large segment.")
    return build_segment(PARTITIONS[0], made, 0, SegmentPlan(batches))
