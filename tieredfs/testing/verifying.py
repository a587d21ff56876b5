"""Rules of what verification and repair ask of a layout."""

from functools import partial

from tieredfs.errors import CorruptObjectError
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition, Uuid
from tieredfs.storage import Capability
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.testing.rule import Case, NotApplicableError, expect_error, require, rule
from tieredfs.testing.segment_plan import BatchPlan, SegmentPlan, build_segment

__all__ = [
    "check_key_that_contradicts_the_log_is_found",
    "check_replaced_segment_is_the_new_one",
    "check_sound_segments_are_current",
    "check_stored_sizes_are_what_is_stored",
]

_PARTITION = TopicIdPartition("orders", 0, Uuid.from_bytes(bytes(range(16))))


@rule()
def check_sound_segments_are_current(case: Case) -> None:
    """What was listed and not touched since is current, and its key is right."""
    for listed in case.segments():
        end = case.storage.describe(listed).end_offset
        for last in (None, end):
            require(
                case.storage.is_current(listed, last),
                f"is_current({listed}, {last}) returned False.",
            )
        if case.can(Capability.WRITE):
            require(
                not case.storage.is_active(listed),
                f"{listed} was copied whole, and is_active returned True.",
            )
        case.storage.check_key(listed, _epoch(case, listed))


@rule()
def check_key_that_contradicts_the_log_is_found(case: Case) -> None:
    """Where a listing states the highest leader epoch, another one is an error."""
    stating = [s for s in case.segments() if case.storage.highest_epoch(s) is not None]
    if not stating:
        raise NotApplicableError("the listing states no leader epochs")
    for listed in stating:
        stated = case.storage.highest_epoch(listed)
        epoch = _epoch(case, listed)
        require(stated == epoch, f"{listed} has epoch {epoch}, stated was {stated}.")
        for other in (epoch + 1, -1):
            expect_error(
                partial(case.storage.check_key, listed, other),
                CorruptObjectError,
                f"check_key({listed}, {other}), whose log has epoch {epoch},",
            )


@rule(Capability.WRITE)
def check_replaced_segment_is_the_new_one(case: Case) -> None:
    """Of a segment that was replaced nothing is left, not even an index too many."""
    segment_id = SegmentId.from_bytes(bytes(range(1, 17)))
    aborted = (BatchPlan(kind="transactional"), BatchPlan(kind="abort"))
    old = build_segment(_PARTITION, segment_id, 0, SegmentPlan(aborted))
    new = build_segment(_PARTITION, segment_id, 0, SegmentPlan((BatchPlan(),) * 2))
    case.storage.copy_log_segment(old.metadata, old.data)
    log = log_in_memory(new.log, str(new.metadata))
    case.storage.replace_log_segment(new.metadata, log, new.data.indexes)
    reader = case.another()
    (listed,) = reader.list_segments(_PARTITION)
    require(reader.fetch_log_segment(listed) == new.log, "The log is not the new one.")
    found = reader.fetch_all_indexes(listed)
    wanted = new.data.indexes
    require(
        found.keys() == wanted.keys(),
        f"Its indexes are {sorted(found)}, not {sorted(wanted)}.",
    )
    for kind in wanted:
        require(found[kind] == wanted[kind], f"{kind} is not the new one.")


@rule()
def check_stored_sizes_are_what_is_stored(case: Case) -> None:
    """``stored_sizes`` has only listed segments, and no more bytes than are stored."""
    segments = case.segments()
    stored = sum(len(case.raw_get(key)) for key in case.raw_keys())
    counted = 0
    for partition in {segment.partition for segment in segments}:
        listed = {
            (one.start_offset, one.id) for one in segments if one.partition == partition
        }
        sizes = case.storage.stored_sizes(partition)
        unknown = sorted(sizes.keys() - listed)
        require(not unknown, f"Of {partition} it has {unknown}, which is not listed.")
        for name, size in sizes.items():
            require(size > 0, f"Of {partition} it says that {name} takes {size} bytes.")
        counted += sum(sizes.values())
    if not counted:
        raise NotApplicableError("stored_sizes returns no sizes: they are unknown")
    require(counted <= stored, f"It counts {counted} bytes, stored are {stored}.")


def _epoch(case: Case, listed: SegmentMetadata) -> int:
    """Return the highest leader epoch of a segment; -1 if it has none."""
    epochs = case.storage.describe(listed).leader_epochs
    return epochs[-1].epoch if epochs else -1
