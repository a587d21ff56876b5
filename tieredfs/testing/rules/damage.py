"""Rules for stored objects that were damaged or moved."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tieredfs.errors import CorruptDataError, NotFoundError, TieredFSError
from tieredfs.model import SegmentMetadata, TopicIdPartition, Uuid
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.reads import every_read
from tieredfs.testing.rule import Case, NotApplicableError, require, require_bytes, rule
from tieredfs.testing.samples import MISSING, PARTITIONS, Sample, sample

__all__ = [
    "check_damaged_segment_does_not_vanish",
    "check_errors_are_typed",
    "check_moved_object_is_noticed",
    "check_short_object_is_an_error",
]


_Read = Callable[[RemoteStorageManager], bytes]

_OTHER_TOPIC: Final = TopicIdPartition(
    "redros", 0, Uuid.from_bytes(b"as long a name, ")
)
_NUMBER: Final = 6
_OTHER_NUMBERS: Final = range(_NUMBER + 2, _NUMBER + 20, 2)
"""Of samples with as many digits in their offsets."""


@rule()
def check_short_object_is_an_error(case: Case) -> None:
    """Where a stored object has lost its end, a log is whole or an error, not less.

    It is not the error of a segment that is gone, unless that is no longer listed.

    Source: the plugin contract, What an author implements, ``fetch_log_segment``.
    """
    listed = case.storage.describe(case.one_segment())
    log = bytes(case.storage.fetch_log_segment(listed))
    size = len(log)
    asked: dict[str, tuple[_Read, bytes]] = {
        "fetch_log_segment": (
            lambda s: bytes(s.fetch_log_segment(listed, 0, size)),
            log,
        ),
        "fetch_log_segment of the last half": (
            lambda s: bytes(s.fetch_log_segment(listed, size // 2, size)),
            log[size // 2 :],
        ),
        "stream_log": (lambda s: b"".join(s.stream_log(listed)), log),
    }
    for key in case.keys_of(listed):
        whole = case.raw_get(key)
        for left in (len(whole) - 1, len(whole) // 2):
            case.raw_put(key, whole[: max(left, 0)])
            for said, (call, wanted) in asked.items():
                where = f"{key} has {left} of {len(whole)} bytes, and"
                try:
                    found = call(case.another())
                except NotFoundError as error:
                    if _is_listed(case.another(), listed):
                        raise AssertionError(
                            f"{where} {said} of a segment that is listed raised "
                            f"{error!r}."
                        ) from error
                    continue
                except TieredFSError:
                    continue
                require_bytes(found, wanted, f"{where} {said}")
        case.raw_put(key, whole)


@rule()
def check_damaged_segment_does_not_vanish(case: Case) -> None:
    """A segment whose object has lost its end is listed, or reported as damaged.

    A listing that left it out would look as if it had never been. It is reported by an
    error of ``list_segments``, or by ``scrub``, where the layout takes it for what an
    incomplete copy has left.

    Source: the plugin contract, Truth.
    """
    listed = case.one_segment()
    for key in case.keys_of(listed):
        whole = case.raw_get(key)
        for left in (len(whole) - 1, len(whole) // 2):
            case.raw_put(key, whole[: max(left, 0)])
            require(
                _is_seen(case.another(), listed, key),
                f"{key} has {left} of {len(whole)} bytes, and {listed} is not listed; "
                "neither list_segments nor scrub reports it.",
            )
        case.raw_put(key, whole)


def _is_listed(storage: RemoteStorageManager, listed: SegmentMetadata) -> bool:
    """Return whether a damaged segment is listed."""
    try:
        found = storage.list_segments(listed.partition)
    except TieredFSError:
        return False
    return any(
        (s.start_offset, s.id) == (listed.start_offset, listed.id) for s in found
    )


def _is_seen(storage: RemoteStorageManager, listed: SegmentMetadata, key: str) -> bool:
    """Return whether a damaged segment is listed or reported."""
    try:
        found = storage.list_segments(listed.partition)
    except NotFoundError:
        found = []
    except TieredFSError:
        return True
    if any((s.start_offset, s.id) == (listed.start_offset, listed.id) for s in found):
        return True
    return any(left.key == key for left in storage.scrub(listed.partition))


@rule()
def check_errors_are_typed(case: Case) -> None:
    """Whatever is stored, the error is a TieredFSError.

    Source: the plugin contract, Errors.
    """
    listed = case.one_segment()
    for key in case.keys_of(listed):
        whole = case.raw_get(key)
        half = len(whole) // 2
        damaged: dict[str, bytes | None] = {
            "gone": None,
            "empty": b"",
            "cut": whole[:half],
            "longer": whole + b"\xff" * 9,
            "all zeros": bytes(len(whole)),
            "changed in the middle": whole[:half] + b"\xff" * (len(whole) - half),
            **_other_json(whole),
        }
        for how, content in damaged.items():
            if content is None:
                case.raw_delete(key)
            else:
                case.raw_put(key, content)
            storage = case.another()
            for said, call in every_read(storage, listed).items():
                try:
                    call()
                except TieredFSError:
                    continue
                except Exception as error:
                    raise AssertionError(
                        f"With {key} {how}, {said} raised {error!r}."
                    ) from error
        case.raw_put(key, whole)


def _other_json(content: bytes) -> dict[str, bytes]:
    """Return other JSON, where an object is JSON, by what is changed in it."""
    try:
        said = json.loads(content)
    except ValueError:
        return {}
    found: dict[str, object] = {"a list": [], "null": None, "without any field": {}}
    for name in said if isinstance(said, dict) else ():
        found |= {f"with {name!r} null": said | {name: None}}
        found |= {f"with {name!r} of another type": said | {name: [-1]}}
    return {what: json.dumps(value).encode() for what, value in found.items()}


@rule(Capability.WRITE)
def check_moved_object_is_noticed(case: Case) -> None:
    """An object in another's place is an error, whatever tells the two segments apart.

    It is so where a segment is one object that says whose it is: what is noticed of one
    segment is noticed of all.

    Source: the plugin contract, Identity.
    """
    first, second, _ = PARTITIONS
    marker = sample(MISSING, 0)  # what a layout stores only once comes with it
    case.storage.copy_log_segment(marker.metadata, marker.data)
    own = sample(first, _NUMBER)
    said, later = own.metadata, [sample(first, number) for number in _OTHER_NUMBERS]
    pairs = {
        "topic": [_as(own, replace(said, partition=_OTHER_TOPIC))],
        "partition": [_as(own, replace(said, partition=second))],
        "offsets": [_as(one, replace(one.metadata, id=said.id)) for one in later],
        "id": [_as(own, replace(said, id=later[0].metadata.id))],
    }
    noticed = {
        what: calls
        for what, others in pairs.items()
        if (calls := _noticed(case, own, others)) is not None
    }
    everything = set().union(*noticed.values())
    if not everything:
        raise NotApplicableError("an object does not say whose it is")
    for what, calls in noticed.items():
        missed = sorted(everything - calls)
        require(
            not missed,
            f"{' and '.join(missed)} read an object in the place of a segment that "
            f"differs from the object's own only in its {what}.",
        )


def _as(one: Sample, metadata: SegmentMetadata) -> Sample:
    """Return a segment with the same log and other metadata."""
    return replace(one, metadata=metadata)


def _noticed(case: Case, own: Sample, others: Sequence[Sample]) -> set[str] | None:
    """Exchange the objects of two segments; return which calls notice it, of both.

    Args:
        case: The plugin.
        own: One of the segments.
        others: The first of them whose object has the same size is the other one, so
            that nothing but what the objects say is wrong.

    Returns:
        The names of the calls; None if no object has the same size.
    """
    key = _copied(case, own)
    content = case.raw_get(key)
    found: set[str] | None = None
    for other in others:
        other_key = _copied(case, other)
        other_content = case.raw_get(other_key)
        if len(other_content) == len(content):
            listed = [case.listed(one) for one in (own, other)]
            case.raw_put(key, other_content)
            case.raw_put(other_key, content)
            found = {"fetch_all_indexes", "fetch_log_segment"}
            for one in listed:
                found &= _refusing(case.another(), one)
            case.raw_put(other_key, other_content)
        case.storage.delete_log_segment(case.listed(other))
        if found is not None:
            break
    case.raw_put(key, content)
    case.storage.delete_log_segment(case.listed(own))
    return found


def _copied(case: Case, one: Sample) -> str:
    """Copy a segment, and return the key of its object."""
    before = case.raw_keys()
    case.storage.copy_log_segment(one.metadata, one.data)
    keys = case.raw_keys() - before
    if len(keys) != 1:
        raise NotApplicableError("a segment is several objects")
    return keys.pop()


def _refusing(storage: RemoteStorageManager, listed: SegmentMetadata) -> set[str]:
    """Return which calls raise the error for an object that is not the segment's."""
    found: set[str] = set()
    for call in (storage.fetch_all_indexes, storage.fetch_log_segment):
        try:
            call(listed)
        except CorruptDataError:
            found.add(call.__name__)
    return found
