"""Rules for segments that are copied to a storage."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.model import MAX_CUSTOM_METADATA_BYTES, SegmentMetadata
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.rule import Asked, Case, expect_error, require, rule
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.stores import WRITES, WatchedStore

__all__ = [
    "check_append_has_one_winner",
    "check_copied_segment_is_read_back",
    "check_copy_is_idempotent",
    "check_copy_is_one_write",
    "check_copy_is_visible_only_whole",
    "check_copy_of_a_missing_file_is_not_found",
    "check_copy_without_an_end_is_refused",
    "check_custom_metadata_is_small",
    "check_leftovers_are_found_and_removed",
    "check_log_may_be_a_file",
    "check_read_only_refuses_to_write",
]

_PARTITION = PARTITIONS[0]
_MAX_WRITES = 100
_WRITERS = 4


@rule(Capability.WRITE)
def check_copied_segment_is_read_back(case: Case) -> None:
    """What was copied is listed, described and read as it was given."""
    for one in case.fill():
        custom = case.storage.copy_log_segment(one.metadata, one.data)
        listed = case.listed(one)
        for storage in (case.storage, case.another()):
            _require_whole(storage, listed, one)
            kept = replace(one.metadata, custom_metadata=custom)
            found = storage.fetch_log_segment(kept)
            require(
                found == one.log,
                f"Asked for with the metadata it was copied with, {one.metadata} has "
                f"other bytes: {len(found)} came, {len(one.log)} were copied.",
            )


@rule(Capability.WRITE)
def check_log_may_be_a_file(case: Case) -> None:
    """A log that is given as a file is stored as one that is given as bytes."""
    one = sample(_PARTITION, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0.log")
        path.write_bytes(one.log)
        case.storage.copy_log_segment(one.metadata, replace(one.data, log=path))
    _require_whole(case.another(), case.listed(one), one)


@rule(Capability.WRITE)
def check_custom_metadata_is_small(case: Case) -> None:
    """``copy_log_segment`` returns at most 128 bytes."""
    for one in (sample(_PARTITION, 0), sample(PARTITIONS[-1], 1)):
        custom = case.storage.copy_log_segment(one.metadata, one.data)
        require(
            len(custom) <= MAX_CUSTOM_METADATA_BYTES,
            f"Of {one.metadata} it returned {custom!r}.",
        )


@rule(Capability.WRITE)
def check_copy_is_idempotent(case: Case) -> None:
    """Copying again what was copied is success, and changes nothing."""
    one = sample(_PARTITION, 1)
    first = case.storage.copy_log_segment(one.metadata, one.data)
    listed = case.listed(one)
    for storage in (case.storage, case.another()):
        again = storage.copy_log_segment(one.metadata, one.data)
        require(again == first, f"The second time {again!r} came, not {first!r}.")
        found = storage.list_segments(_PARTITION)
        require(found == [listed], f"Afterwards it listed {found}, not {[listed]}.")
        _require_whole(storage, listed, one)


@rule(Capability.WRITE)
def check_copy_without_an_end_is_refused(case: Case) -> None:
    """A segment whose end is not known is an InvalidArgumentError, and not stored."""
    one = sample(_PARTITION, 0)
    endless = replace(one.metadata, end_offset=None)
    expect_error(
        lambda: case.storage.copy_log_segment(endless, one.data),
        InvalidArgumentError,
        "Copying a segment without its end",
    )
    _require_nothing(case)


@rule(Capability.WRITE)
def check_copy_of_a_missing_file_is_not_found(case: Case) -> None:
    """A log whose file does not exist is a NotFoundError, and nothing is stored."""
    one = sample(_PARTITION, 0)
    with tempfile.TemporaryDirectory() as folder:
        gone = replace(one.data, log=Path(folder, "gone.log"))
    expect_error(
        lambda: case.storage.copy_log_segment(one.metadata, gone),
        NotFoundError,
        "Copying a log that is not there",
    )
    _require_nothing(case)


@rule(Capability.WRITE)
def check_copy_is_visible_only_whole(case: Case) -> None:
    """A copy that fails anywhere leaves a whole segment or none that is listed."""
    for is_landed in (False, True):
        for limit in range(_MAX_WRITES):
            one = sample(_PARTITION, 1, f"{is_landed}{limit}")
            if not _fails(case, one, limit, is_landed=is_landed):
                break
            where = f"A copy failed at write {limit + 1}, and then"
            seen = _seen(case, one)
            if seen is not None:
                try:
                    _require_whole(case.another(), seen, one)
                except (AssertionError, TieredFSError) as error:
                    raise AssertionError(f"{where} it was listed: {error}") from error
            case.another().copy_log_segment(one.metadata, one.data)
            seen = _seen(case, one)
            require(seen is not None, f"{where} copying again did not complete it.")
            _require_whole(case.another(), case.listed(one), one)


@rule(Capability.WRITE)
def check_leftovers_are_found_and_removed(case: Case) -> None:
    """``scrub`` finds what a dead copy left, and ``cancel_copying`` removes it all."""
    kept = sample(_PARTITION, 0)
    case.storage.copy_log_segment(kept.metadata, kept.data)
    other = sample(PARTITIONS[1], 0)
    case.storage.copy_log_segment(other.metadata, other.data)
    whole = {entry.key for entry in case.store.list()}
    for limit in range(_MAX_WRITES):
        one = sample(_PARTITION, 1, str(limit))
        if not _fails(case, one, limit, is_landed=False):
            case.storage.delete_log_segment(case.listed(one))
            break
        left = {entry.key for entry in case.store.list()} - whole
        where = f"After a copy that failed at write {limit + 1}"
        if _seen(case, one) is None:
            found = {leftover.key for leftover in case.another().scrub(_PARTITION)}
            require(
                found == left,
                f"{where} scrub found {sorted(found)}, there are {sorted(left)}.",
            )
        case.another().cancel_copying(_PARTITION)
        rest = [leftover.key for leftover in case.another().scrub(_PARTITION)]
        require(not rest, f"{where} and cancel_copying, scrub still found {rest}.")
        if _seen(case, one) is not None:
            case.storage.delete_log_segment(case.listed(one))
    there = {entry.key for entry in case.store.list()}
    require(
        there >= whole,
        f"Of whole segments it removed {sorted(whole - there)}.",
    )
    for one in (kept, other):
        require(
            not list(case.storage.scrub(one.metadata.partition)),
            f"Of {one.metadata.partition} scrub found what is whole.",
        )
        _require_whole(case.another(), case.listed(one), one)


@rule(Capability.WRITE, Capability.ATOMIC_COPY)
def check_copy_is_one_write(case: Case) -> None:
    """With ATOMIC_COPY a copy is one write."""
    one = sample(_PARTITION, 0)
    watched = WatchedStore.over(case.store, WRITES)
    case.another(watched).copy_log_segment(one.metadata, one.data)
    require(watched.calls == 1, f"It took {watched.calls}.")


@rule(Capability.WRITE)
def check_append_has_one_winner(case: Case) -> None:
    """Of writers that append at one offset exactly one succeeds; the others fail.

    A layout that cannot be appended to raises an error, and stores nothing.
    """
    ones = [sample(_PARTITION, 0, f"writer {number}") for number in range(_WRITERS)]

    def append(one: Sample) -> str:
        try:
            case.another().append_log_segment(one.metadata, one.data)
        except AlreadyExistsError:
            return "lost"
        except UnsupportedOperationError:
            return "cannot"
        return "won"

    with ThreadPoolExecutor(_WRITERS) as pool:
        ends = sorted(pool.map(append, ones))
    if ends == ["cannot"] * _WRITERS:
        _require_nothing(case)
        return
    require(ends == ["lost"] * (_WRITERS - 1) + ["won"], f"They ended so: {ends}.")
    listed = case.another().list_segments(_PARTITION)
    require(len(listed) == 1, f"Afterwards it listed {listed}.")


@rule()
def check_read_only_refuses_to_write(case: Case) -> None:
    """Without WRITE every method that writes is an UnsupportedOperationError."""
    if case.can(Capability.WRITE):
        return
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


def _fails(case: Case, one: Sample, limit: int, *, is_landed: bool) -> bool:
    """Copy with a store that fails after some writes; return whether that failed."""
    dying = WatchedStore.over(case.store, WRITES, limit=limit, is_landed=is_landed)
    try:
        case.another(dying).copy_log_segment(one.metadata, one.data)
    except TieredFSError:
        return True
    return False


def _seen(case: Case, one: Sample) -> SegmentMetadata | None:
    """Return a sample as it is listed now; None if it is not listed."""
    try:
        found = case.another().list_segments(one.metadata.partition)
    except NotFoundError:
        return None
    mine = [s for s in found if (s.start_offset, s.id) == one.identity]
    return mine[0] if mine else None


def _require_whole(
    storage: RemoteStorageManager, listed: SegmentMetadata, one: Sample
) -> None:
    """Require that a segment is, to the byte, the sample that was copied."""
    described = storage.describe(listed)
    found = replace(described, version="", custom_metadata=b"")
    require(
        found == one.described,
        f"Copied was {one.described}, described is {found}.",
    )
    log = storage.fetch_log_segment(listed)
    require(
        log == one.log,
        f"The log of {one.metadata} has other bytes: {len(log)} came, "
        f"{len(one.log)} were copied.",
    )
    indexes = storage.fetch_all_indexes(listed)
    for kind, content in one.data.indexes.items():
        require(
            kind in indexes and indexes[kind] == content,
            f"{kind} of {one.metadata} is not the one that was copied.",
        )


def _require_nothing(case: Case) -> None:
    found = case.all_listed(case.another())
    require(not found, f"Afterwards it listed {found}.")
