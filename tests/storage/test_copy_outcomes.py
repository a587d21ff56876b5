"""What becomes of a copy of several objects, each of which may fail in its own way.

Through a proxy in front of a real S3 server each object is stored, refused, stored
without an answer, or held until the copy has given up, and stored then.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import product

import pytest

from proofs.extent import extent
from servers import Hold, ProxiedBucket
from support.kafscale import kafscale
from tieredfs import (
    DeadlineExceededError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.storage import CopiedObject, copy_objects
from tieredfs.testing.samples import PARTITIONS, sample

DEADLINE = 2.0


class Outcome(StrEnum):
    """What the network does with an object's put."""

    DONE = "done"
    REFUSED = "refused"
    LANDED = "landed"
    HUNG = "hung"

    @property
    def is_stored(self) -> bool:
        return self in {Outcome.DONE, Outcome.LANDED}


@contextmanager
def meets(
    place: ProxiedBucket, outcomes: Mapping[str, Outcome]
) -> Iterator[dict[str, Hold]]:
    """Let the puts of some objects meet their outcomes; yield those that are held."""
    held: dict[str, Hold] = {}
    for suffix, outcome in outcomes.items():
        path = rf"\.{suffix}(\?|$)"
        match outcome:
            case Outcome.REFUSED:
                place.proxy.add("PUT", path, status=403)
            case Outcome.LANDED:
                place.proxy.add("PUT", path, lose_reply=True)
            case Outcome.HUNG:
                held[suffix] = Hold()
                place.proxy.add("PUT", path, hold=held[suffix], times=1)
    yield held
    place.proxy.clear()


def opened(place: ProxiedBucket) -> ObjectStore:
    policy = RequestPolicy(attempts=1, deadline=DEADLINE)
    store = ObjectStore(place.url, place.storage_options, policy=policy)
    store.probe_capabilities()
    return store


@pytest.mark.parametrize("index", Outcome)
@pytest.mark.parametrize("log", Outcome)
def test_a_segment_of_two_objects_is_whole_or_not_there(
    s3_proxied: ProxiedBucket,
    log: Outcome,
    index: Outcome,
) -> None:
    storage = kafscale(opened(s3_proxied))
    reader = kafscale(ObjectStore(s3_proxied.url, s3_proxied.storage_options))
    one = sample(PARTITIONS[0], 0)
    (partition,) = {one.metadata.partition}
    outcomes = {"kfs": log, "index": index}
    is_whole = all(outcome.is_stored for outcome in outcomes.values())
    error: TieredFSError | None = None
    with meets(s3_proxied, outcomes) as held:
        try:
            storage.copy_log_segment(one.metadata, one.data)
        except TieredFSError as raised:
            error = raised
        assert (error is None) == is_whole
    stored = [suffix for suffix, outcome in outcomes.items() if outcome.is_stored]
    if error is None:
        (segment,) = reader.list_segments(partition)
        assert reader.fetch_log_segment(segment) == one.log
        assert list(reader.scrub(partition)) == []
    else:
        assert isinstance(
            error,
            PermissionDeniedError
            if Outcome.REFUSED in outcomes.values()
            else StorageUnavailableError | DeadlineExceededError,
        )
        for suffix, outcome in outcomes.items():
            state = "; stored: " if outcome.is_stored else "not stored: |perhaps stored"
            assert f".{suffix}" in str(error)
            assert any(one in str(error) for one in state.split("|"))
        if stored:
            assert reader.list_segments(partition) == []
        left = [leftover.key for leftover in reader.scrub(partition)]
        assert [key.rpartition(".")[2] for key in left] == stored
    for hold in held.values():
        hold.land()  # long after its copy has given up
    storage.copy_log_segment(one.metadata, one.data)
    (segment,) = reader.list_segments(partition)
    assert reader.fetch_log_segment(segment) == one.log
    assert list(reader.scrub(partition)) == []


@pytest.mark.parametrize(
    "outcomes", list(product(Outcome, repeat=3))[:: extent(1, 4)], ids="-".join
)
def test_a_mark_is_there_only_if_all_others_are(
    s3_proxied: ProxiedBucket, outcomes: Sequence[Outcome]
) -> None:
    store = opened(s3_proxied)
    met = dict(zip(("log", "indexes", "manifest"), outcomes, strict=True))
    objects = [CopiedObject(f"s.{name}", name.encode() * 9) for name in met]

    def copy() -> None:
        copy_objects(store, "the segment", objects[:2], objects[2])

    is_marked = met["log"].is_stored and met["indexes"].is_stored
    sent = list(met) if is_marked else ["log", "indexes"]
    with meets(s3_proxied, met) as held:
        if all(outcome.is_stored for outcome in outcomes):
            copy()
        else:
            with pytest.raises(TieredFSError, match="the segment is not stored") as no:
                copy()
            assert all(one.key in str(no.value) for one in objects)
    reader = ObjectStore(s3_proxied.url, s3_proxied.storage_options)
    there = [entry.key for entry in reader.list("s.")]
    assert there == sorted(f"s.{name}" for name in sent if met[name].is_stored)
    for name in held.keys() & set(sent):
        held[name].land()
    copy()
    assert {entry.key for entry in reader.list("s.")} == {one.key for one in objects}
