"""Rules for what a storage lists."""

from itertools import groupby

from tieredfs.errors import NotFoundError, TieredFSError
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.rule import Asked, Case, expect_error, require, rule
from tieredfs.testing.samples import MISSING, PARTITIONS, sample

__all__ = [
    "check_description_is_complete",
    "check_empty_storage_lists_nothing",
    "check_foreign_objects_are_skipped",
    "check_listing_is_never_stale",
    "check_listing_is_sorted_and_complete",
    "check_missing_partition_is_not_found",
    "check_partitions_are_sorted_and_complete",
    "check_plan_is_in_the_listing",
    "check_recogniser_knows_its_own",
    "check_seek_finds_the_first",
    "check_survey_agrees_with_the_listing",
]

_FOREIGN_KEYS = ("README.md", "_SUCCESS", "some/other/part-0.parquet", "orders.txt")
_FIELDS = ("end_offset", "max_timestamp_ms", "leader_epochs", "size")


@rule(Capability.WRITE)
def check_empty_storage_lists_nothing(case: Case) -> None:
    """Where nothing was copied there is no partition."""
    found = case.storage.list_partitions()
    require(not found, f"list_partitions returned {found}.")


@rule(Capability.WRITE)
def check_partitions_are_sorted_and_complete(case: Case) -> None:
    """``list_partitions`` returns all partitions, or a topic's, once and sorted."""
    case.fill()
    for storage in (case.storage, case.another()):
        found = storage.list_partitions()
        said = f"It returned {_names(found)}"
        require(found == sorted(found), f"{said}, which is not sorted.")
        require(found == sorted(PARTITIONS), f"{said}, not {_names(PARTITIONS)}.")
        for topic in (*{partition.topic for partition in PARTITIONS}, MISSING.topic):
            of_topic = storage.list_partitions(topic)
            wanted = [p for p in sorted(PARTITIONS) if p.topic == topic]
            said = f"Of topic {topic!r} it returned {_names(of_topic)}"
            require(of_topic == wanted, f"{said}, not {_names(wanted)}.")


@rule(Capability.WRITE)
def check_listing_is_sorted_and_complete(case: Case) -> None:
    """``list_segments`` returns every segment once, sorted by start offset."""
    samples = case.fill()
    for storage in (case.storage, case.another()):
        for partition, group in groupby(samples, lambda s: s.metadata.partition):
            expected = list(group)
            found = _identities(storage.list_segments(partition))
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
def check_listing_is_never_stale(case: Case) -> None:
    """What another storage has copied or deleted is seen immediately."""
    first, second = (sample(PARTITIONS[0], number) for number in range(2))
    other = case.another()
    case.storage.copy_log_segment(first.metadata, first.data)
    case.storage.list_partitions()
    (listed,) = case.storage.list_segments(PARTITIONS[0])
    other.copy_log_segment(second.metadata, second.data)
    found = _identities(case.storage.list_segments(PARTITIONS[0]))
    require(
        found == [first.identity, second.identity],
        f"After another storage had copied {second.identity}, it listed {found}.",
    )
    other.delete_log_segment(listed)
    found = _identities(case.storage.list_segments(PARTITIONS[0]))
    require(
        found == [second.identity],
        f"After another storage had deleted {first.identity}, it listed {found}.",
    )


@rule()
def check_missing_partition_is_not_found(case: Case) -> None:
    """A partition that does not exist is a NotFoundError, not an empty result."""
    case.segments()
    asked: Asked = {
        "list_segments": lambda: case.storage.list_segments(MISSING),
        "list_segments from offset 5 on": lambda: case.storage.list_segments(
            MISSING, 5
        ),
        "seek": lambda: case.storage.seek(MISSING, 0),
        "survey": lambda: list(case.storage.survey(MISSING)),
    }
    for said, call in asked.items():
        expect_error(call, NotFoundError, f"Of a missing partition {said}")


@rule()
def check_seek_finds_the_first(case: Case) -> None:
    """``seek`` returns the first segment that ends at an offset or later, in order."""
    for segment in case.segments():
        full = case.storage.describe(segment)
        for offset in {full.start_offset, full.end_offset or 0}:
            first = _first_from(case.storage, full.partition, offset)
            found = _identities(case.storage.seek(full.partition, offset))
            require(
                first in found and found == sorted(found),
                f"From offset {offset} of {full.partition} on it returned {found}; the "
                f"first that ends there or later is {first}.",
            )


@rule()
def check_survey_agrees_with_the_listing(case: Case) -> None:
    """``survey`` yields every segment that is listed, and no error in a sound store."""
    for partition in {segment.partition for segment in case.segments()}:
        listed = sorted(_identities(case.storage.list_segments(partition)))
        found = list(case.storage.survey(partition))
        wrong = [one for one in found if isinstance(one, TieredFSError)]
        require(not wrong, f"Of {partition} it yielded {wrong}.")
        good = [one for one in found if isinstance(one, SegmentMetadata)]
        require(
            sorted(_identities(good)) == listed,
            f"Of {partition} it yielded {_identities(good)}, listed are {listed}.",
        )


@rule(Capability.WRITE)
def check_foreign_objects_are_skipped(case: Case) -> None:
    """Objects that are not of the layout are skipped: no error, no segment."""
    listed = case.segments()
    folders = {entry.key.rpartition("/")[0] for entry in case.store.list()}
    beside = [f"{folder}/foreign.bin" for folder in folders if folder]
    for key in (*_FOREIGN_KEYS, *beside):
        case.store.put(key, b"not of this layout", overwrite=True)
    for storage in (case.storage, case.another()):
        found = case.all_listed(storage)
        require(
            found == listed,
            f"With foreign objects it listed {found}, without them {listed}.",
        )


@rule()
def check_description_is_complete(case: Case) -> None:
    """``describe`` returns every field, and contradicts nothing that was listed."""
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
    """With PLAN_FROM_LISTING a listing has ends and largest timestamps."""
    for segment in case.segments():
        full = (segment.end_offset, segment.max_timestamp_ms)
        require(
            None not in full,
            f"{segment} was listed with (end, time) = {full}.",
        )


@rule()
def check_recogniser_knows_its_own(case: Case) -> None:
    """``recognises`` answers from 0 to 1, and 0 for what is not of the layout."""
    case.segments()
    own = [entry.key for entry in case.store.list()]
    score = case.storage.recognises(own)
    require(0 <= score <= 1, f"For its own keys it answered {score!r}.")
    for keys in ([], list(_FOREIGN_KEYS)):
        score = case.storage.recognises(keys)
        require(score == 0, f"For {keys} it answered {score!r}.")


def _first_from(
    storage: RemoteStorageManager, partition: TopicIdPartition, offset: int
) -> tuple[int, str]:
    for segment in storage.list_segments(partition):
        if (storage.describe(segment).end_offset or 0) >= offset:
            return segment.start_offset, segment.id
    raise AssertionError(f"Listed is nothing that ends at offset {offset} or later.")


def _identities(segments: list[SegmentMetadata]) -> list[tuple[int, str]]:
    return [(segment.start_offset, segment.id) for segment in segments]


def _names(partitions: object) -> list[str]:
    return [str(partition) for partition in partitions]  # type: ignore[attr-defined]
