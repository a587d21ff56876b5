"""Rules for segments that are copied to a storage."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.model import (
    MAX_CUSTOM_METADATA_BYTES,
    EpochEntry,
    IndexType,
    LogSegmentData,
)
from tieredfs.storage import Capability, inspect_log_segment
from tieredfs.testing.copies import COPIES
from tieredfs.testing.faults import (
    CRASHES,
    FAILURES,
    STORE_ERRORS,
    CrashError,
    Effect,
    FaultyStore,
    KeyPlan,
    SeededPlan,
)
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
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import WRITES, WatchedStore

__all__ = [
    "check_cancelled_copy_can_be_repeated",
    "check_copied_segment_is_read_back",
    "check_copy_after_a_delete_is_stored",
    "check_copy_believes_the_log",
    "check_copy_is_idempotent",
    "check_copy_is_one_write",
    "check_copy_is_visible_only_whole",
    "check_copy_of_a_missing_file_is_not_found",
    "check_copy_survives_a_cleaner",
    "check_copy_that_returns_is_whole",
    "check_copy_without_an_end_is_refused",
    "check_copy_without_indexes_is_stored",
    "check_custom_metadata_is_small",
    "check_leftovers_are_found_and_removed",
    "check_leftovers_of_a_new_partition_are_found",
    "check_log_may_be_a_file",
    "check_read_only_refuses_to_write",
]

_PARTITION = PARTITIONS[0]


@rule(Capability.WRITE)
def check_copied_segment_is_read_back(case: Case) -> None:
    """What was copied is listed, described and read as it was given.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    before = case.raw_keys()
    filled = case.fill()
    require(
        case.raw_keys() > before,
        "Segments were copied, and the store that the storage was given has no more "
        "objects than before. A plugin that stores them elsewhere overrides RawAccess.",
    )
    for copy, one in product(COPIES, filled):
        custom = copy(case.storage, one.metadata, one.data)
        listed = case.listed(one)
        for storage in (case.storage, case.another()):
            require_whole(storage, listed, one)
            kept = replace(one.metadata, custom_metadata=custom)
            found = storage.fetch_log_segment(kept)
            said = f"With the metadata of the copy, fetch_log_segment of {one.metadata}"
            require_bytes(found, one.log, said)
            said = f"With the metadata of the copy, fetch_all_indexes of {one.metadata}"
            indexes = storage.fetch_all_indexes(kept)
            require(
                indexes.keys() == one.data.indexes.keys(),
                f"{said} returned {in_words(indexes)}.",
            )
            said = f"With the metadata of the copy, fetch_index of {one.metadata}"
            for kind, content in one.data.indexes.items():
                index = storage.fetch_index(kept, kind)
                require_bytes(index, content, f"{said}, {kind},")
    again = sample(_PARTITION, len(filled), "again")
    custom, known = case.storage.copy_with_indexes(again.metadata, again.data)
    kept = replace(again.metadata, custom_metadata=custom)
    require_whole(case.another(), case.listed(again), again)
    if known is not None:
        stored = case.another().fetch_all_indexes(kept)
        require(
            (dict(known), known.layout) == (dict(stored), stored.layout),
            f"Of {again.metadata} copy_with_indexes returned {known!r}, which a cache "
            f"keeps, and fetch_all_indexes returns {stored!r}.",
        )


@rule(Capability.WRITE)
def check_log_may_be_a_file(case: Case) -> None:
    """A log that is given as a file is stored as one that is given as bytes.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    one = sample(_PARTITION, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0.log")
        path.write_bytes(one.log)
        case.storage.copy_log_segment(one.metadata, replace(one.data, log=path))
        require(
            path.is_file() and path.read_bytes() == one.log,
            f"{one.metadata} was copied, and the file of its log is not what it was.",
        )
    require_whole(case.another(), case.listed(one), one)


@rule(Capability.WRITE)
def check_copy_believes_the_log(case: Case) -> None:
    """Of a copy's metadata only the segment's name and ends count, not other fields.

    ``migrate`` copies a segment as another storage has listed it, whose fields need not
    be right, and whose custom metadata mean nothing here.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    for number, copy in enumerate(COPIES, 1):
        one = sample(_PARTITION, number)
        claims = replace(
            one.metadata,
            max_timestamp_ms=1,
            leader_epochs=(EpochEntry(9, 0),),
            size=1,
            version="another",
            custom_metadata=b"of another storage",
            record_count=1,
            index_sizes={IndexType.OFFSET: 1},
            stored_size=1,
        )
        custom = copy(case.storage, claims, one.data)
        where = f"{copy.__name__} was given other claims than what the log has."
        require_whole(case.another(), case.stored(one, where), one, where)
        again = copy(case.another(), one.metadata, one.data)
        require(
            again == custom,
            f"{where} It returned {custom!r}, and without them {again!r}.",
        )
        found = case.another().list_segments(_PARTITION)
        require(len(found) == number, f"{where} Copied again, it listed {found}.")


@rule(Capability.WRITE)
def check_custom_metadata_is_small(case: Case) -> None:
    """``copy_log_segment`` returns at most 128 bytes.

    Source: KIP-405, custom metadata of at most 128 bytes.
    """
    ones = (sample(_PARTITION, 0), sample(PARTITIONS[-1], 1))
    for copy, one in product(COPIES, ones):
        custom = copy(case.storage, one.metadata, one.data)
        require(
            len(custom) <= MAX_CUSTOM_METADATA_BYTES,
            f"Of {one.metadata} {copy.__name__} returned {custom!r}.",
        )


@rule(Capability.WRITE)
def check_copy_is_idempotent(case: Case) -> None:
    """Copying again what was copied is success, and changes nothing.

    Source: KIP-405, copyLogSegmentData is idempotent.
    """
    one = sample(_PARTITION, 1)
    first = case.storage.copy_log_segment(one.metadata, one.data)
    listed = case.listed(one)
    for copy, storage in product(COPIES, (case.storage, case.another())):
        again = copy(storage, one.metadata, one.data)
        require(
            again == first, f"The second copy returned {again!r}, the first {first!r}."
        )
        found = storage.list_segments(_PARTITION)
        require(found == [listed], f"Afterwards it listed {found}, not {[listed]}.")
        require_whole(storage, listed, one)


@rule(Capability.WRITE)
def check_copy_without_an_end_is_refused(case: Case) -> None:
    """A segment whose end is not known is an InvalidArgumentError, and not stored.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    one = sample(_PARTITION, 0)
    endless = replace(one.metadata, end_offset=None)
    for copy in COPIES:
        refused = f"{copy.__name__} of a segment without its end"
        case.require_refusal(
            partial(copy, case.storage, endless, one.data),
            InvalidArgumentError,
            refused,
        )


@rule(Capability.WRITE)
def check_copy_of_a_missing_file_is_not_found(case: Case) -> None:
    """A log whose file does not exist is a NotFoundError, and nothing is stored.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    one = sample(_PARTITION, 0)
    with tempfile.TemporaryDirectory() as folder:
        gone = replace(one.data, log=Path(folder, "gone.log"))
    case.require_refusal(
        partial(case.storage.copy_log_segment, one.metadata, gone),
        NotFoundError,
        "The copy of a log that is not there",
    )


@rule(Capability.WRITE)
def check_copy_is_visible_only_whole(case: Case) -> None:
    """A copy that fails anywhere leaves a whole segment or none that is listed.

    Source: the plugin contract, Completeness.
    """
    for copy in COPIES:
        for how, storage in case.interrupted():
            one = sample(_PARTITION, 1, f"{copy.__name__} {how}")
            with suppress(TieredFSError):
                copy(storage, one.metadata, one.data)
            where = f"{copy.__name__} {how}, and then it was listed."
            seen = case.seen(one)
            if seen is not None:
                require_whole(case.another(), seen, one, where)
            copy(case.another(), one.metadata, one.data)
            where = f"{copy.__name__} {how}, and then it was repeated."
            require_whole(case.another(), case.stored(one, where), one, where)


@rule(Capability.WRITE)
def check_copy_after_a_delete_is_stored(case: Case) -> None:
    """A segment that another process has deleted since is stored when copied again.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    one = sample(_PARTITION, 1)
    for said in ("delete_log_segment", "delete_partition"):
        case.storage.copy_log_segment(one.metadata, one.data)
        if said == "delete_partition":
            case.another().delete_partition(_PARTITION)
        else:
            case.another().delete_log_segment(case.stored(one))
        case.storage.copy_log_segment(one.metadata, one.data)
        where = f"After another storage's {said}, the copy returned."
        require_whole(case.another(), case.stored(one, where), one, where)


@rule(Capability.WRITE)
def check_copy_that_returns_is_whole(case: Case) -> None:
    """A copy of which one write failed raises that error, or has stored the segment.

    Source: the plugin contract, Truth.
    """
    for copy, effect in product(COPIES, FAILURES):
        for at, storage in case.failing_writes(effect):
            one = sample(_PARTITION, 1, f"{copy.__name__} {effect}{at}")
            where = f"Write {at + 1} of a copy failed ({effect}), and it returned."
            try:
                copy(storage, one.metadata, one.data)
            except STORE_ERRORS:
                pass
            else:
                require_whole(case.another(), case.stored(one, where), one, where)
    lost = sample(_PARTITION, 2)
    before = case.raw_keys()
    case.storage.copy_log_segment(lost.metadata, lost.data)
    keys = sorted(case.raw_keys() - before)
    case.storage.delete_log_segment(case.listed(lost))
    for copy, key in product(COPIES, keys):
        storage = case.another(FaultyStore.over(case.store, KeyPlan(key)))
        with suppress(StorageUnavailableError):
            copy(storage, lost.metadata, lost.data)
            where = f"{key} cannot be written, and a copy returned."
            require_whole(case.another(), case.stored(lost, where), lost, where)


@rule(Capability.WRITE)
def check_leftovers_are_found_and_removed(case: Case) -> None:
    """``scrub`` finds what a dead copy left, and ``cancel_copying`` removes it all.

    Source: the plugin contract, Crashes.
    """
    kept = sample(_PARTITION, 0)
    case.storage.copy_log_segment(kept.metadata, kept.data)
    other = sample(PARTITIONS[1], 0)
    case.storage.copy_log_segment(other.metadata, other.data)
    whole = case.raw_keys()
    for at, storage in case.failing_from(is_landed=False):
        one = sample(_PARTITION, 1, str(at))
        with suppress(TieredFSError):
            storage.copy_log_segment(one.metadata, one.data)
        left = case.raw_keys() - whole
        where = f"After a copy that failed at write {at + 1}"
        if case.seen(one) is None:
            leftovers = list(case.another().scrub(_PARTITION))
            found = {leftover.key for leftover in leftovers}
            require(
                found == left,
                f"{where} scrub found {sorted(found)}, but {sorted(left)} are left.",
            )
            for leftover in leftovers:
                size = len(case.raw_get(leftover.key))
                require(
                    leftover.size == size,
                    f"{where} scrub said that {leftover.key} has {leftover.size} "
                    f"bytes, it has {size}.",
                )
        case.another().cancel_copying(_PARTITION)
        rest = [leftover.key for leftover in case.another().scrub(_PARTITION)]
        require(not rest, f"{where} and cancel_copying, scrub still found {rest}.")
        if case.seen(one) is not None:
            case.storage.delete_log_segment(case.listed(one))
    there = case.raw_keys()
    require(
        there >= whole,
        f"Of whole segments it removed {sorted(whole - there)}.",
    )
    for one in (kept, other):
        require(
            not list(case.storage.scrub(one.metadata.partition)),
            f"Of {one.metadata.partition} scrub found what is whole.",
        )
        require_whole(case.another(), case.listed(one), one)


@rule(Capability.WRITE)
def check_leftovers_of_a_new_partition_are_found(case: Case) -> None:
    """``leftover_partitions`` has a partition to which only a dead copy has begun.

    What that has left is of this partition alone, however alike another one's name is.

    Source: the plugin contract, Crashes.
    """
    kept = sample(_PARTITION, 0)
    case.storage.copy_log_segment(kept.metadata, kept.data)
    new = PARTITIONS[2]
    for at, storage in case.failing_from(is_landed=False):
        one, before = sample(new, 0, str(at)), case.raw_keys()
        with suppress(TieredFSError):
            storage.copy_log_segment(one.metadata, one.data)
        if case.seen(one) is not None or case.raw_keys() == before:
            continue
        where = f"After a copy that failed at write {at + 1}"
        for topic in (None, new.topic):
            found = case.another().leftover_partitions(topic)
            require(
                new in found,
                f"{where} leftover_partitions({topic!r}) has no {new}: {found}.",
            )
            require(
                found == sorted(found),
                f"{where} leftover_partitions({topic!r}) is not sorted: {found}.",
            )
        case.another().cancel_copying(new)
    ten = replace(PARTITIONS[1], partition=10)
    beside = sample(PARTITIONS[1], 0)
    case.storage.copy_log_segment(beside.metadata, beside.data)
    for at, storage in case.failing_from(is_landed=False):
        one = sample(ten, 0, str(at))
        with suppress(TieredFSError):
            storage.copy_log_segment(one.metadata, one.data)
        there = case.raw_keys()
        for alike in (PARTITIONS[1], new):
            scrubbed = [left.key for left in case.another().scrub(alike)]
            case.another().cancel_copying(alike)
            gone = sorted(there - case.raw_keys())
            require(
                not (scrubbed or gone),
                f"A copy to {ten} failed at write {at + 1}. Of {alike}, scrub found "
                f"{scrubbed} and cancel_copying removed {gone}.",
            )


@rule(Capability.WRITE)
def check_cancelled_copy_can_be_repeated(case: Case) -> None:
    """After ``cancel_copying`` a copy that had died works, under its id or another.

    KIP-405 repeats a copy under another id, and the contract under the same one.

    Source: KIP-405, a failed copy is repeated under another id.
    """
    for effect in CRASHES:
        for at, storage in case.failing_writes(effect):
            one = sample(_PARTITION, 1, f"{effect}{at}")
            with suppress(CrashError):
                storage.copy_log_segment(one.metadata, one.data)
            case.another().cancel_copying(_PARTITION)
            for again in (one, sample(_PARTITION, 1, f"other {effect}{at}")):
                died = f"A copy died at write {at + 1}, and cancel_copying ran."
                try:
                    case.another().copy_log_segment(again.metadata, again.data)
                except TieredFSError as error:
                    raise AssertionError(
                        f"{died} Another copy raised {error!r}."
                    ) from error
                where = f"{died} The segment was copied again."
                require_whole(case.another(), case.listed(again), again, where)
            case.another().delete_partition(_PARTITION)
            left = sorted(case.raw_keys())
            require(not left, f"{where} delete_partition left {left}.")


@rule(Capability.WRITE, Capability.ATOMIC_COPY)
def check_copy_survives_a_cleaner(case: Case) -> None:
    """With ATOMIC_COPY a copy that returns is stored, even if ``cancel_copying`` ran.

    Without it nothing may be cancelled while a copy is made: it would be destroyed.

    Source: the plugin contract, Values and functions, ``ATOMIC_COPY``.
    """
    one = sample(_PARTITION, 1)
    store = FaultyStore.over(
        case.store,
        SeededPlan(0, 1.0, (Effect.DELAY,), tuple(sorted(WRITES))),
        during_pause=lambda: case.another().cancel_copying(_PARTITION),
    )
    case.another(store).copy_log_segment(one.metadata, one.data)
    if not any(request.effect for request in store.requests):
        raise NotApplicableError("the layout writes nothing through the given store")
    case.another().cancel_copying(_PARTITION)
    require_whole(case.another(), case.stored(one), one)


@rule(Capability.WRITE, Capability.ATOMIC_COPY)
def check_copy_is_one_write(case: Case) -> None:
    """With ATOMIC_COPY a copy is one write.

    Source: the plugin contract, Values and functions, ``ATOMIC_COPY``.
    """
    for copy in COPIES:
        one = sample(_PARTITION, 0, copy.__name__)
        watched = WatchedStore.over(case.store, WRITES)
        copy(case.another(watched), one.metadata, one.data)
        require(
            watched.calls == 1,
            f"{copy.__name__} made {watched.calls} writes, not 1.",
        )


@rule(Capability.WRITE)
def check_copy_without_indexes_is_stored(case: Case) -> None:
    """A copy for which no index was given stores the log, and no index of another one.

    An index that Kafka always has may be rebuilt from the log. The log has no aborted
    transaction, so that it needs no transaction index.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    one = sample(_PARTITION, 0)
    for copy in COPIES:
        bare = sample(_PARTITION, 0, copy.__name__)
        try:
            copy(case.storage, bare.metadata, LogSegmentData(bare.data.log, {}))
        except TieredFSError as error:
            said = f"{copy.__name__} without indexes raised {error!r}."
            raise AssertionError(said) from error
        listed = case.stored(bare)
        log = case.another().fetch_log_segment(listed)
        require_bytes(log, one.log, f"After {copy.__name__} without indexes the log")
        found = case.another().fetch_all_indexes(listed)
        indexes = {kind: bytes(index) for kind, index in found.items()}
        inspect_log_segment(
            bare.metadata, LogSegmentData(bare.log, indexes), lambda _: None
        )


@rule(excludes={Capability.WRITE})
def check_read_only_refuses_to_write(case: Case) -> None:
    """Without WRITE every method that writes is an UnsupportedOperationError.

    Source: the plugin contract, What an author implements, ``copy_log_segment``.
    """
    listed = case.segments()[0]
    before = [(entry.key, entry.version) for entry in case.store.list()]
    one = sample(_PARTITION, 0)
    storage = case.storage
    asked: Asked = {
        "copy_log_segment": lambda: storage.copy_log_segment(one.metadata, one.data),
        "append_log_segment": lambda: storage.append_log_segment(
            one.metadata, one.data
        ),
        "delete_log_segment": lambda: storage.delete_log_segment(listed),
        "delete_partition": lambda: storage.delete_partition(listed.partition),
        "cancel_copying": lambda: storage.cancel_copying(listed.partition),
    }
    for said, call in asked.items():
        expect_error(call, UnsupportedOperationError, said)
    after = [(entry.key, entry.version) for entry in case.store.list()]
    require(before == after, "All were refused, and the store has changed.")
