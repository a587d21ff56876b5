"""Rules for what verification and repair need of a layout."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import permutations

from tieredfs.errors import (
    CorruptDataError,
    CorruptObjectError,
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.format.checksum import crc32c
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.model import IndexType, SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.storage import Capability
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches
from tieredfs.testing.copies import COPIES
from tieredfs.testing.requirement import in_words
from tieredfs.testing.rule import (
    Asked,
    Case,
    NotApplicableError,
    expect_error,
    require,
    require_bytes,
    require_whole,
    rule,
)
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.segment_plan import BatchPlan, SegmentPlan, build_segment
from tieredfs.testing.stores import READS, WRITES, WatchedStore

__all__ = [
    "check_answers_from_metadata_send_no_request",
    "check_checked_end_is_that_of_the_log",
    "check_compacted_log_is_stated",
    "check_empty_transaction_index_has_no_abort",
    "check_interrupted_replacement_can_be_repeated",
    "check_key_that_contradicts_the_log_is_found",
    "check_log_without_epochs_has_no_highest",
    "check_producers_before_are_older",
    "check_replaced_segment_is_the_new_one",
    "check_sound_segments_are_current",
    "check_stored_sizes_are_what_is_stored",
]

_Name = tuple[TopicIdPartition, int, SegmentId]

_PARTITION = PARTITIONS[0]
_REPLACED = "After replace_log_segment, fetch_log_segment"


@rule()
def check_sound_segments_are_current(case: Case) -> None:
    """What was listed and not touched since is current, and its key is right.

    Source: the plugin contract, What verification asks, ``is_current``.
    """
    for listed in case.segments():
        end = case.storage.describe(listed).end_offset
        for last in (None, end):
            require(
                case.storage.is_current(listed, last),
                f"is_current({listed}, {last}) returned False.",
            )
        layout = case.storage.fetch_all_indexes(listed).layout
        require(
            case.storage.is_layout_current(listed, layout),
            f"is_layout_current({listed}) returned False of what is stored.",
        )
        if case.can(Capability.WRITE):
            require(
                not case.storage.is_active(listed),
                f"{listed} was copied whole, and is_active returned True.",
            )
        case.storage.check_key(listed, _epoch(case, listed))
        checksum = case.storage.log_checksum(listed)
        log = case.storage.fetch_log_segment(case.storage.describe(listed))
        require(
            checksum in {None, crc32c(log)},
            f"log_checksum({listed}) returned {checksum}, which is not that of its log",
        )


@rule()
def check_key_that_contradicts_the_log_is_found(case: Case) -> None:
    """``check_key`` raises an error if a key states another leader epoch than the log.

    Source: the plugin contract, Claims.
    """
    stating = False
    for listed in case.segments():
        stated = case.storage.highest_epoch(listed)
        epoch = _epoch(case, listed)
        if stated is None:
            _require_no_epoch_in_its_key(case, listed, epoch)
            continue
        stating = True
        require(stated == epoch, f"{listed} has epoch {epoch}, and {stated} is stated.")
        for other in (epoch + 1, -1):
            expect_error(
                partial(case.storage.check_key, listed, other),
                CorruptObjectError,
                f"check_key({listed}, {other}), whose log has epoch {epoch},",
            )
    if not stating:
        raise NotApplicableError("highest_epoch returned None of every segment")


def _require_no_epoch_in_its_key(
    case: Case, listed: SegmentMetadata, epoch: int
) -> None:
    try:
        case.storage.check_key(listed, epoch + 1)
    except CorruptObjectError as error:
        raise AssertionError(
            f"highest_epoch({listed}) returned None, and its key has an epoch: "
            f"check_key raised {error!r}."
        ) from error


@rule()
def check_checked_end_is_that_of_the_log(case: Case) -> None:
    """Where ``is_end_checked`` returns True, a log ends at its described end offset.

    It may end before where batches have been removed, which ``is_compacted`` says, or
    the next segment, which begins right after that offset.

    Source: the plugin contract, Claims.
    """
    described = [case.storage.describe(listed) for listed in case.segments()]
    checked = [one for one in described if case.storage.is_end_checked(one)]
    if not checked:
        raise NotApplicableError("is_end_checked returns True of no segment")
    for one in checked:
        log = case.storage.fetch_log_segment(one, 0, one.size)
        *_, last = read_batches(log_in_memory(log, str(one)))
        found, end = last.header.last_offset, one.end_offset or 0
        may_lack = case.storage.is_compacted(one.partition) or any(
            next_one.partition == one.partition and next_one.start_offset == end + 1
            for next_one in described
        )
        require(
            found == end or (found < end and may_lack),
            f"is_end_checked({one}) returned True, the described end offset is {end}, "
            f"and the last one in the log {found}.",
        )


@rule(Capability.WRITE)
def check_log_without_epochs_has_no_highest(case: Case) -> None:
    """Of a log without leader epochs ``highest_epoch`` returns None, and not -1.

    Source: the plugin contract, What verification asks, ``highest_epoch``.
    """
    plan = SegmentPlan((BatchPlan(),) * 2, first_epoch=-1)
    one = build_segment(_PARTITION, _segment_id(0), 0, plan)
    case.storage.copy_log_segment(one.metadata, one.data)
    listed = case.stored(one)
    stated = case.another().highest_epoch(listed)
    require(stated is None, f"highest_epoch({listed}) returned {stated}.")
    case.another().check_key(listed, -1)


@rule()
def check_empty_transaction_index_has_no_abort(case: Case) -> None:
    """Where ``is_txn_index_empty`` returns True, a segment has no aborted transaction.

    Otherwise a read of committed records would return aborted ones.

    Source: the plugin contract, Claims.
    """
    empty = [one for one in case.segments() if case.storage.is_txn_index_empty(one)]
    if not empty:
        raise NotApplicableError("is_txn_index_empty returns True of no segment")
    for one in empty:
        found = case.storage.fetch_indexes(one, [IndexType.TRANSACTION])
        require(
            not found.get(IndexType.TRANSACTION),
            f"is_txn_index_empty({one}) returned True, and its transaction index is "
            "not empty.",
        )


@rule(Capability.WRITE)
def check_compacted_log_is_stated(case: Case) -> None:
    """A log whose last batches were removed is refused, or ``is_compacted`` is True.

    Otherwise what was stored could not be read: where a log ends before its segment,
    and nothing says that a cleaner has removed its end, it counts as cut.

    Source: the plugin contract, What verification asks, ``is_compacted``.
    """
    plan = SegmentPlan((BatchPlan(),) * 2, removed_after=1)
    for number, copy in enumerate(COPIES):
        one = build_segment(PARTITIONS[number], _segment_id(number), 0, plan)
        partition, before = one.metadata.partition, case.raw_keys()
        try:
            copy(case.storage, one.metadata, one.data)
        except (CorruptDataError, UnsupportedOperationError):
            left = sorted(case.raw_keys() - before)
            require(not left, f"A compacted log was refused, and {left} is stored.")
            continue
        require(
            case.another().is_compacted(partition),
            f"{copy.__name__} stored a log whose last batch a cleaner has removed, and "
            f"is_compacted({partition}) returned False.",
        )
        require_whole(case.another(), case.stored(one), one)


@rule()
def check_producers_before_are_older(case: Case) -> None:
    """``fetch_producers_before`` has only producers from before a segment's start.

    It raises NotFoundError where there is no snapshot that was taken there.

    Source: the plugin contract, What verification asks, ``fetch_producers_before``.
    """
    found: list[SegmentMetadata] = []
    for listed in case.segments():
        try:
            snapshot = case.storage.fetch_producers_before(listed)
        except NotFoundError:
            continue
        found.append(listed)
        require(snapshot.readonly, f"Of {listed} it returned a writable buffer.")
        producers = ProducerSnapshot.parse(snapshot).producers
        later = [one for one in producers if one.last_offset >= listed.start_offset]
        require(not later, f"Of {listed} it returned {later}.")
    if not found:
        raise NotApplicableError("no segment has a producer snapshot of its start")


@rule()
def check_answers_from_metadata_send_no_request(case: Case) -> None:
    """``name_of`` and what verification asks of the metadata alone send no request.

    That is ``is_active``, ``is_end_checked``, ``note_checked_end``, ``highest_epoch``,
    ``is_layout_current``, ``is_txn_index_empty``, ``keeps_topic_ids`` and
    ``log_checksum``.

    Source: the plugin contract, What verification asks, ``is_end_checked``.
    """
    watched = WatchedStore.over(case.store, READS | WRITES)
    storage = case.another(watched)
    for partition in sorted({segment.partition for segment in case.segments()}):
        for listed in storage.list_segments(partition):
            described = storage.describe(listed)
            asked: Asked = {
                "name_of": partial(storage.name_of, listed),
                "is_active": partial(storage.is_active, listed),
                "is_end_checked": partial(storage.is_end_checked, described),
                "note_checked_end": partial(storage.note_checked_end, described),
                "is_layout_current": partial(storage.is_layout_current, listed, b""),
                "highest_epoch": partial(storage.highest_epoch, listed),
                "is_txn_index_empty": partial(storage.is_txn_index_empty, listed),
                "keeps_topic_ids": lambda: storage.keeps_topic_ids,
                "log_checksum": partial(storage.log_checksum, listed),
            }
            for said, call in asked.items():
                watched.calls = 0
                call()
                require(
                    watched.calls == 0,
                    f"{said} of {listed} sent {watched.calls} requests.",
                )


@rule(Capability.WRITE)
def check_replaced_segment_is_the_new_one(case: Case) -> None:
    """A replaced segment leaves nothing behind, including indexes the new one lacks.

    Source: the plugin contract, What a user calls, ``replace_log_segment``.
    """
    aborted = SegmentPlan((BatchPlan(kind="transactional"), BatchPlan(kind="abort")))
    plain = SegmentPlan((BatchPlan(),) * 2)
    # In both orders: names may have what differs, and sort either way.
    for number, (old_plan, new_plan) in enumerate(permutations((aborted, plain))):
        partition, one = PARTITIONS[number], _segment_id(number)
        old = build_segment(partition, one, 0, old_plan)
        new = build_segment(partition, one, 0, new_plan)
        case.storage.copy_log_segment(old.metadata, old.data)
        known = case.another()  # one that has read the old copy, and may remember it
        require_whole(known, case.stored(old), old)
        log = log_in_memory(new.log, str(new.metadata))
        case.storage.replace_log_segment(new.metadata, log, new.data.indexes)
        for reader in (case.another(), known):
            listed = case.only(reader, partition)
            require_bytes(reader.fetch_log_segment(listed), new.log, _REPLACED)
            found = reader.fetch_all_indexes(listed)
            wanted = new.data.indexes
            require(
                found.keys() == wanted.keys(),
                f"Its indexes are {in_words(found)}, not {in_words(wanted)}.",
            )
            for kind in wanted:
                require(found[kind] == wanted[kind], f"{kind} is not the new one.")
        kept = case.raw_keys()
        case.another().delete_log_segment(listed)
        case.another().copy_log_segment(new.metadata, new.data)
        needed = len(case.raw_keys())
        require(
            len(kept) <= needed,
            f"There are {len(kept)} objects, and {needed} where only the new one was "
            "copied.",
        )


@rule(Capability.WRITE)
def check_interrupted_replacement_can_be_repeated(case: Case) -> None:
    """A replacement that fails anywhere is completed when it is repeated.

    Until then the log and each index are those of the damaged copy or of the new one,
    or an error.

    Source: the plugin contract, What a user calls, ``replace_log_segment``.
    """
    one = sample(_PARTITION, 1)
    log = log_in_memory(one.log, str(one.metadata))
    indexes = one.data.indexes
    for how, storage in case.interrupted():
        case.storage.copy_log_segment(one.metadata, one.data)
        _damage(case)
        new: dict[str, bytes] = dict(indexes.items())
        allowed = [_parts(case, one), new | {"log": one.log}]
        with suppress(TieredFSError):
            storage.replace_log_segment(one.metadata, log, indexes)
        where = f"replace_log_segment {how}, and then"
        for name, part in _parts(case, one).items():
            known = [parts[name] for parts in allowed if name in parts]
            require(part in known, f"{where} {name} was neither the old nor the new.")
        case.another().replace_log_segment(one.metadata, log, indexes)
        where = f"{where} it was repeated."
        require_whole(case.another(), case.stored(one, where), one, where)
        case.another().delete_log_segment(case.stored(one))


def _damage(case: Case) -> None:
    """Change a byte in the middle of the largest stored object."""
    key = max(case.stored_keys(), key=lambda name: len(case.raw_get(name)))
    whole = bytearray(case.raw_get(key))
    whole[len(whole) // 2] ^= 1
    case.raw_put(key, bytes(whole))


def _parts(case: Case, one: Sample) -> dict[str, bytes]:
    """Return the log and each index of a segment, without those that are an error."""
    listed = case.seen(one)
    found: dict[str, bytes] = {}
    if listed is not None:
        storage = case.another()
        with suppress(TieredFSError):
            found["log"] = bytes(storage.fetch_log_segment(listed))
        for kind in one.data.indexes:
            with suppress(TieredFSError):
                found[kind] = bytes(storage.fetch_index(listed, kind))
    return found


@rule()
def check_stored_sizes_are_what_is_stored(case: Case) -> None:
    """``stored_sizes`` has only listed segments, and no more bytes than are stored.

    It has no fewer than are freed when a segment is deleted.

    Source: the plugin contract, What a user calls, ``stored_sizes``.
    """
    segments = case.segments()
    sizes = _stored_sizes(case, segments)
    if not sizes:
        raise NotApplicableError("stored_sizes returns no sizes: they are unknown")
    for name, size in sizes.items():
        require(size > 0, f"It says that {name} takes {size} bytes.")
    _require_no_more_than_stored(case, sizes, "It")
    for one in segments:
        size = sizes.get((one.partition, one.start_offset, one.id), 0)
        listed = one.stored_size
        claim = f"{one} is listed with {listed} stored bytes; stored_sizes has {size}."
        require(listed in {None, size}, claim)
    if case.can(Capability.WRITE):
        for one in segments[:2]:
            _require_no_less_than_is_freed(case, one, sizes)
    for key in case.raw_keys() if case.can(Capability.WRITE) else ():
        whole = case.raw_get(key)
        case.raw_put(key, b"")
        with suppress(TieredFSError):  # it may refuse what is left
            sizes = _stored_sizes(case, segments)
            _require_no_more_than_stored(case, sizes, f"With an empty {key} it")
        case.raw_put(key, whole)


def _stored_sizes(case: Case, segments: Sequence[SegmentMetadata]) -> dict[_Name, int]:
    """Return the stored size of each segment; require that it is a listed one."""
    found: dict[_Name, int] = {}
    for partition in {segment.partition for segment in segments}:
        listed = {
            (one.start_offset, one.id) for one in segments if one.partition == partition
        }
        sizes = case.storage.stored_sizes(partition)
        unknown = sorted(sizes.keys() - listed)
        require(not unknown, f"Of {partition} it has {unknown}, which is not listed.")
        found |= {(partition, *name): size for name, size in sizes.items()}
    return found


def _require_no_less_than_is_freed(
    case: Case, one: SegmentMetadata, sizes: Mapping[_Name, int]
) -> None:
    """Delete a segment, which is not the last of its partition, and bring it back."""
    before = case.raw_objects()
    case.another().delete_log_segment(one)
    freed = sum(len(before[key]) for key in before.keys() - case.raw_keys())
    case.raw_restore(before)
    size = sizes.get((one.partition, one.start_offset, one.id), freed)
    require(
        size >= freed,
        f"It says that {one} takes {size} bytes, and deleting it freed {freed}.",
    )


def _require_no_more_than_stored(
    case: Case, sizes: Mapping[_Name, int], who: str
) -> None:
    counted = sum(sizes.values())
    stored = sum(len(case.raw_get(key)) for key in case.raw_keys())
    require(counted <= stored, f"{who} counts {counted} bytes, of {stored} stored.")


def _segment_id(number: int) -> SegmentId:
    return SegmentId.from_bytes(bytes(range(number + 1, number + 17)))


def _epoch(case: Case, listed: SegmentMetadata) -> int:
    """Return the highest leader epoch of a segment; -1 if it has none."""
    epochs = case.storage.describe(listed).leader_epochs
    return epochs[-1].epoch if epochs else -1
