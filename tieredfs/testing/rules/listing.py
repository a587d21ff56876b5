"""Rules for what a storage lists."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Final

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import NotFoundError, PermissionDeniedError, TieredFSError
from tieredfs.integers import MAX_INT64
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects import MAX_PAGE_KEYS
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import (
    UNKNOWN_SIZE,
    Capability,
    RemoteStorageManager,
    SegmentTable,
)
from tieredfs.testing.faults import (
    CRASHES,
    CrashError,
    Effect,
    FaultyStore,
    StoreFault,
    StoreRequest,
)
from tieredfs.testing.rule import (
    Asked,
    Case,
    expect_error,
    require,
    require_whole,
    rule,
)
from tieredfs.testing.samples import MISSING, PARTITIONS, Sample, sample
from tieredfs.testing.segment_plan import build_segment
from tieredfs.testing.stores import READS, WatchedStore, scratch_store

__all__ = [
    "check_dead_copy_is_not_listed",
    "check_description_is_complete",
    "check_empty_storage_lists_nothing",
    "check_lazy_listing_is_the_list",
    "check_listing_has_every_page",
    "check_listing_is_sorted_and_complete",
    "check_missing_partition_is_not_found",
    "check_partitions_are_sorted_and_complete",
    "check_plan_is_in_the_listing",
    "check_seek_finds_the_first",
    "check_survey_agrees_with_the_listing",
]

_Found = Sequence[SegmentMetadata | TieredFSError]

_COPIES: Final = 3
_FEW: Final = 20
_WRITERS: Final = 8
_STARTS: Final = (0, 10**15, (1 << 53) + 1, MAX_INT64 - 1)
"""Of segments of one record: beyond what 14 digits and what a float can tell."""
_FIELDS = ("end_offset", "max_timestamp_ms", "leader_epochs", "size")


@dataclass(frozen=True, slots=True)
class _Denied:
    """Denies what has a text in its key.

    Attributes:
        text: The text.
    """

    text: str

    def fault(self, request: StoreRequest) -> StoreFault | None:
        """Return the fault of a request, if it has one."""
        is_denied = self.text in request.key
        return StoreFault(Effect.DENIED, request.number) if is_denied else None


@rule(Capability.WRITE)
def check_empty_storage_lists_nothing(case: Case) -> None:
    """Where nothing was copied there is no partition.

    Source: the plugin contract, What an author implements, ``list_partitions``.
    """
    found = case.storage.list_partitions()
    require(not found, f"list_partitions returned {found}.")


@rule(Capability.WRITE)
def check_partitions_are_sorted_and_complete(case: Case) -> None:
    """``list_partitions`` returns all partitions, or a topic's, once and sorted.

    Those of a topic are found, too, where another topic may not be read.

    Source: the plugin contract, What an author implements, ``list_partitions``.
    """
    case.fill()
    for storage in (case.storage, case.another()):
        found = storage.list_partitions()
        _require_list("list_partitions", found)
        said = f"It returned {_names(found)}"
        require(found == sorted(found), f"{said}, which is not sorted.")
        require(found == sorted(PARTITIONS), f"{said}, not {_names(PARTITIONS)}.")
        for topic in (*{partition.topic for partition in PARTITIONS}, MISSING.topic):
            of_topic = storage.list_partitions(topic)
            wanted = [p for p in sorted(PARTITIONS) if p.topic == topic]
            said = f"Of topic {topic!r} it returned {_names(of_topic)}"
            require(of_topic == wanted, f"{said}, not {_names(wanted)}.")
    away, topic = _small(MISSING, 0), PARTITIONS[0].topic
    case.storage.copy_log_segment(away.metadata, away.data)
    store = FaultyStore.over(case.store)
    storage = case.another(store)
    store.follow(_Denied(MISSING.topic))
    wanted = [p for p in sorted(PARTITIONS) if p.topic == topic]
    said = f"{MISSING.topic!r} may not be read, and list_partitions({topic!r})"
    try:
        found = storage.list_partitions(topic)
    except PermissionDeniedError as error:
        raise AssertionError(f"{said} raised {error!r}.") from error
    require(found == wanted, f"{said} returned {_names(found)}.")


@rule(Capability.WRITE)
def check_listing_is_sorted_and_complete(case: Case) -> None:
    """``list_segments`` returns every segment once, sorted by start offset.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    extreme = [_small(MISSING, start) for start in _STARTS]
    for one in extreme:
        case.storage.copy_log_segment(one.metadata, one.data)
    samples = [*case.fill(), *extreme]
    for storage in (case.storage, case.another()):
        for partition, group in groupby(samples, lambda s: s.metadata.partition):
            expected = list(group)
            listed = storage.list_segments(partition)
            _require_list("list_segments", listed)
            found = _identities(listed)
            said = f"Of {partition} it returned {found}"
            wanted = [one.identity for one in expected]
            require(found == sorted(found), f"{said}, which is not sorted.")
            require(found == wanted, f"{said}, not {wanted}.")
            for one in expected:
                end = one.described.end_offset or 0
                kept = _identities(storage.list_segments(partition, end))
                require(
                    one.identity in kept and kept == sorted(kept),
                    f"From offset {end} on it returned {kept}, without the segment "
                    f"that ends there, {one.identity}, or not sorted.",
                )


@rule(Capability.WRITE)
def check_listing_has_every_page(case: Case) -> None:
    """Of more segments than fit on a page of a listing, all are listed and deleted.

    A page holds 1000 objects. So many segments are copied that they have more objects
    than that; where a segment is several objects, more than 1000 segments are copied to
    a store in memory as well. Where a layout keeps several copies of the same offsets,
    they are such copies, and ``seek`` returns all of them or none. Partitions that
    follow the segments are listed, too.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    copies = _copies_kept(case)
    size = len(case.raw_keys()) // (2 if copies > 1 else 1)
    count = MAX_PAGE_KEYS // max(size, 1) + 1
    ones = [_copy_of(number, copies) for number in range(count)]
    _copy_concurrently(case, ones)
    share_nothing = len(case.raw_keys()) == size * count
    _require_all_listed(case, ones)
    if count <= MAX_PAGE_KEYS:
        ones = [_copy_of(number, copies) for number in range(MAX_PAGE_KEYS + 1)]
        with scratch_store() as store:
            many = case.over(store)
            if share_nothing:
                _copy_apart(many, ones)
            else:
                _copy_concurrently(many, ones)
            _require_all_listed(many, ones)


@rule(Capability.WRITE)
def check_dead_copy_is_not_listed(case: Case) -> None:
    """A segment whose copy died is in every listing, and whole, or in none.

    KIP-405 shows a segment to readers when its copy has finished.

    Source: KIP-405, a segment is read once its copy has finished.
    """
    other = sample(PARTITIONS[0], 0)  # so that the partition exists
    case.storage.copy_log_segment(other.metadata, other.data)
    for effect in CRASHES:
        for at, dying in case.failing_writes(effect):
            one = sample(PARTITIONS[0], 1, f"{effect}{at}")
            with suppress(CrashError):
                dying.copy_log_segment(one.metadata, one.data)
            where = f"A copy died at write {at + 1}."
            listed = case.seen(one)
            if listed is not None:
                require_whole(case.another(), listed, one, where)
            storage, partition = case.another(), PARTITIONS[0]
            asked: dict[str, _Found] = {
                "list_segments": storage.list_segments(partition),
                "list_segments from it": storage.list_segments(
                    partition, one.metadata.start_offset
                ),
                "survey": list(storage.survey(partition)),
            }
            for said, found in asked.items():
                segments = [s for s in found if isinstance(s, SegmentMetadata)]
                require(
                    (one.identity in _identities(segments)) == (listed is not None),
                    f"{where} list_segments returned {listed}, {said} {segments}.",
                )
            sought = _identities(storage.seek(partition, 0))
            require(
                listed is not None or one.identity not in sought,
                f"{where} list_segments did not return it, and seek did: {sought}.",
            )


@rule()
def check_missing_partition_is_not_found(case: Case) -> None:
    """A partition that does not exist is a NotFoundError, not an empty result.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    case.segments()
    asked: Asked = {
        "list_segments": lambda: case.storage.list_segments(MISSING),
        "list_segments from offset 5 on": lambda: case.storage.list_segments(
            MISSING, 5
        ),
        "list_segments_lazily": lambda: case.storage.list_segments_lazily(MISSING),
        "seek": lambda: case.storage.seek(MISSING, 0),
        "survey": lambda: list(case.storage.survey(MISSING)),
    }
    for said, call in asked.items():
        expect_error(call, NotFoundError, f"Of a missing partition {said}")


@rule()
def check_seek_finds_the_first(case: Case) -> None:
    """``seek`` returns the first segment that ends at an offset or later, in order.

    What else it returns leaves out none that ends before the last of them.

    Source: the plugin contract, What a user calls, ``seek``.
    """
    segments = case.segments()
    if case.can(Capability.WRITE):
        for start in (5, 9):  # offsets 6 to 8 are in no segment
            one = _small(MISSING, start)
            case.storage.copy_log_segment(one.metadata, one.data)
        segments += case.storage.list_segments(MISSING)
    described = [case.storage.describe(segment) for segment in segments]
    offsets = {0, *(one.start_offset for one in described)}
    offsets |= {(one.end_offset or 0) + more for one in described for more in (0, 1)}
    for partition in {one.partition for one in described}:
        for offset in sorted(offsets):
            _require_sought(case.storage, partition, offset)


@rule()
def check_lazy_listing_is_the_list(case: Case) -> None:
    """``list_segments_lazily`` returns what ``list_segments`` does, and true columns.

    The call lists all: what it returns asks the store for nothing more.

    Source: the plugin contract, What a user calls, ``list_segments_lazily``.
    """
    for partition in {segment.partition for segment in case.segments()}:
        listed = case.storage.list_segments(partition)
        lazily = case.storage.list_segments_lazily(partition)
        require(
            [*lazily] == listed and [*lazily[1:]] == listed[1:],
            f"Of {partition} it returned {[*lazily]}, but {listed} are listed.",
        )
        watched = WatchedStore.over(case.store, READS)
        later = case.another(watched).list_segments_lazily(partition)
        asked = watched.calls
        require(
            [*later] == listed and len(later) == len(listed) and watched.calls == asked,
            f"Of {partition} it sent {asked} requests, and what it returned "
            f"{watched.calls - asked} more.",
        )
        if isinstance(lazily, SegmentTable):
            columns = lazily.start_offsets, lazily.end_offsets, lazily.sizes
            more = lazily.max_timestamps_ms, lazily.highest_epochs
            found = [*zip(*(c.tolist() for c in (*columns, *more)), strict=True)]
            wanted = [_row_of(case.storage, one) for one in listed]
            said = f"Of {partition} its columns are {found}"
            require(found == wanted, f"{said}, but {wanted} are listed.")


@rule()
def check_survey_agrees_with_the_listing(case: Case) -> None:
    """``survey`` yields every segment that is listed, and no error in a sound store.

    Source: the plugin contract, What verification asks, ``survey``.
    """
    for partition in {segment.partition for segment in case.segments()}:
        listed = sorted(_identities(case.storage.list_segments(partition)))
        found = list(case.storage.survey(partition))
        wrong = [one for one in found if isinstance(one, TieredFSError)]
        require(not wrong, f"Of {partition} it yielded {wrong}.")
        good = [one for one in found if isinstance(one, SegmentMetadata)]
        require(
            sorted(_identities(good)) == listed,
            f"Of {partition} it yielded {_identities(good)}, but {listed} are listed.",
        )


@rule()
def check_description_is_complete(case: Case) -> None:
    """``describe`` returns every field, and contradicts nothing that was listed.

    Source: the plugin contract, Metadata.
    """
    for segment in case.segments():
        full = case.storage.describe(segment)
        missing = [name for name in _FIELDS if getattr(full, name) is None]
        require(not missing, f"Of {segment} it leaves {', '.join(missing)} unknown.")
        changed = [
            name
            for name in ("partition", "id", "start_offset", "version", *_FIELDS)
            if getattr(segment, name) not in {None, getattr(full, name)}
            and not case.storage.is_active(segment)
        ]
        require(not changed, f"Of {segment} it returns another {', '.join(changed)}.")
        again = case.storage.describe(full)
        require(
            again == full,
            f"Of {segment} it returns first {full}, then {again}.",
        )
        indexes = case.storage.fetch_all_indexes(segment)
        known = case.storage.describe(segment, indexes)
        require(known == full, f"Of {segment} with its indexes it returns {known}.")


@rule(Capability.PLAN_FROM_LISTING)
def check_plan_is_in_the_listing(case: Case) -> None:
    """With PLAN_FROM_LISTING a listing has ends and largest timestamps.

    Source: the plugin contract, Values and functions, ``PLAN_FROM_LISTING``.
    """
    for segment in case.segments():
        full = (segment.end_offset, segment.max_timestamp_ms)
        require(
            None not in full,
            f"{segment} was listed with (end, time) = {full}.",
        )


def _row_of(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> tuple[int | None, ...]:
    """Return what the columns of a table have to say of a segment."""
    epoch = storage.highest_epoch(segment)
    return (
        segment.start_offset,
        segment.end_offset,
        UNKNOWN_SIZE if segment.size is None else segment.size,
        segment.max_timestamp_ms,
        NO_EPOCH if epoch is None else epoch,
    )


def _copies_kept(case: Case) -> int:
    """Copy two segments of one offset; return how many of each offset are to be copied.

    A page does not end with the last of three.
    """
    ones = [_copy_of(number, _COPIES) for number in range(2)]
    for one in ones:
        case.storage.copy_log_segment(one.metadata, one.data)
    return _COPIES if all(case.seen(one) for one in ones) else 1


def _require_all_listed(case: Case, ones: Sequence[Sample]) -> None:
    """Require that the segments of a partition are listed, then that they are deleted.

    Args:
        case: Where they are stored.
        ones: All of them, by offset.
    """
    count = len(ones)
    partition, *others = sorted(PARTITIONS)
    for other in others:
        _copy_all(case, [_small(other, 0)])
    found = case.another().list_partitions()
    wanted = [partition, *others]
    require(
        found == wanted,
        f"With {count} segments in {partition}, list_partitions returned "
        f"{_names(found)}, not {_names(wanted)}.",
    )
    storage, last = case.another(), ones[-1].metadata.start_offset
    asked: dict[str, tuple[_Found, int]] = {
        "list_segments": (storage.list_segments(partition), 0),
        "list_segments from the last": (storage.list_segments(partition, last), last),
        "survey": (list(storage.survey(partition)), 0),
    }
    for said, (listed, first) in asked.items():
        segments = [one for one in listed if isinstance(one, SegmentMetadata)]
        missing = _missing(ones, segments, first, last)
        require(
            len(set(_identities(segments))) == len(segments),
            f"Of {count} segments {said} returned some twice, {len(segments)} in all.",
        )
        require(
            not missing,
            f"Of {count} segments {said} returned {len(segments)}, without "
            f"{missing[:5]}.",
        )
    for offset in (0, last // 2, last):
        sought = storage.seek(partition, offset)
        reached = max((one.start_offset for one in sought), default=-1)
        missing = _missing(ones, sought, offset, max(reached, offset))
        require(
            not missing and _identities(sought) == sorted(_identities(sought)),
            f"Of {count} segments seek from {offset} on returned {len(sought)}, up to "
            f"{reached}, without {missing[:5]}, or not sorted.",
        )
    for one in (*others, partition):
        storage.delete_partition(one)
    left = case.raw_keys()
    require(not left, f"Deleting {count} segments left {len(left)} objects.")


def _missing(
    ones: Sequence[Sample], found: Sequence[SegmentMetadata], first: int, last: int
) -> list[tuple[int, SegmentId]]:
    """Return which segments between two offsets were not found."""
    known = set(_identities(found))
    wanted = (
        one.identity for one in ones if first <= one.metadata.start_offset <= last
    )
    return [one for one in wanted if one not in known]


def _copy_concurrently(case: Case, ones: Sequence[Sample]) -> None:
    """Copy segments by several storages."""
    with DaemonExecutor(_WRITERS) as pool:
        shares = [ones[first::_WRITERS] for first in range(_WRITERS)]
        list(pool.map(partial(_copy_all, case), shares))


def _copy_all(case: Case, ones: Sequence[Sample]) -> None:
    """Copy segments, by a storage of their own."""
    storage = case.another()
    for one in ones:
        storage.copy_log_segment(one.metadata, one.data)


def _copy_apart(case: Case, ones: Sequence[Sample]) -> None:
    """Copy few segments to a store at a time, and bring all their objects together.

    So the copies of a plugin that lists before it copies do not take ever longer.
    """
    objects: dict[str, bytes] = {}
    for first in range(0, len(ones), _FEW):
        with scratch_store() as store:
            few = case.over(store)
            _copy_all(few, ones[first : first + _FEW])
            objects |= few.raw_objects()
    case.raw_restore(objects)


def _copy_of(number: int, copies: int) -> Sample:
    """Return a numbered segment of one record, where some have the same offset."""
    return _small(min(PARTITIONS), number // copies, number % copies)


@cache
def _small(partition: TopicIdPartition, start: int, copy: int = 0) -> Sample:
    """Return a segment of one record; copies of it have other ids."""
    made = SegmentId.from_bytes((copy << 64 | start + 2).to_bytes(16))
    return build_segment(partition, made, start)


def _require_sought(
    storage: RemoteStorageManager, partition: TopicIdPartition, offset: int
) -> None:
    """Require that ``seek`` returns the first segments that end at an offset or later.

    It returns as many as it likes, and of those up to the last of them all. Where none
    ends so late, NotFoundError is as good as some that end before.
    """
    listed = storage.list_segments(partition)
    ends = {
        (one.start_offset, one.id): storage.describe(one).end_offset or 0
        for one in listed
    }
    later = sorted(name for name, end in ends.items() if end >= offset)
    if not later:
        with suppress(NotFoundError):
            _require_list("seek", storage.seek(partition, offset))
        return
    first = later[0]
    sought = storage.seek(partition, offset)
    _require_list("seek", sought)
    found = _identities(sought)
    require(
        first in found and found == sorted(found),
        f"From offset {offset} of {partition} on it returned {found}; the first that "
        f"ends there or later is {first}.",
    )
    last = max(ends.get(name, 0) for name in found)
    skipped = [name for name in later if ends[name] <= last and name not in found]
    require(
        not skipped,
        f"From offset {offset} of {partition} on it returned {found}, up to offset "
        f"{last}, without {skipped}.",
    )


def _require_list(method: str, found: object) -> None:
    require(isinstance(found, list), f"{method} returned {found!r}, not a list.")


def _identities(segments: Sequence[SegmentMetadata]) -> list[tuple[int, SegmentId]]:
    return [(segment.start_offset, segment.id) for segment in segments]


def _names(partitions: object) -> list[str]:
    return [str(partition) for partition in partitions]  # type: ignore[attr-defined]
