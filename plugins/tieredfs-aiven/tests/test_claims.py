"""What a manifest claims of its segment, and its indexes or its log contradict."""

import struct
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import KEYS, fill, new_store
from support.written_segments import Written
from tieredfs import (
    CorruptDataError,
    IndexType,
    LogSegmentData,
    ObjectStore,
    RequestCounter,
    Tier,
    Topic,
    open_storage,
)
from tieredfs_aiven import Aiven

BEGIN = 1_700_000_000_000


@dataclass(frozen=True)
class Log:
    """A partition as it was tiered, whose manifests tell the truth.

    Attributes:
        segments: Its segments.
        stamps: The timestamp of each record, by its offset.
    """

    segments: tuple[Written, ...]
    stamps: tuple[int, ...]

    def tier(
        self,
        claims: Mapping[int, Mapping[str, Any]] | None = None,
        counter: RequestCounter | None = None,
    ) -> Topic:
        """Store it, with other claims in the manifests of some segments."""
        store = new_store()
        for number, segment in enumerate(self.segments):
            manifest = segment.manifest()
            facts = manifest["remoteLogSegmentMetadata"]
            facts |= (claims or {}).get(number, {})
            fill(store, segment.objects(manifest))
        seen = ObjectStore(store.url, observer=counter)
        return Tier(Aiven(seen, key_prefix="", encryption_keys=KEYS)).topic("orders")

    def offset_of(self, time: int) -> int | None:
        """Return the first offset whose record is at or after a time."""
        late = (at for at, stamp in enumerate(self.stamps) if stamp >= time)
        return next(late, None)


def log_of(*stamps: list[list[int]], **stored: Any) -> Log:  # noqa: ANN401 - of Written
    """Make a log of segments, each of batches, each of records with timestamps.

    A broker's classes are not at hand: the batches and the indexes are tieredfs's own.
    """
    batches = [batch for segment in stamps for batch in segment]
    made = ObjectStore(f"memory://{uuid.uuid4().hex}")
    native = open_storage(made, "single-object")
    topic = Tier(native).create_topic("orders")
    for batch in batches:
        times = pa.array(batch, pa.int64()).cast(pa.timestamp("ms", "UTC"))
        values = pa.array([b"v" * 1500] * len(batch), pa.binary())
        topic.append(pa.table({"value": values, "timestamp": times}))
    (partition,) = native.list_partitions()
    pieces = [
        bytes(native.fetch_log_segment(s)) for s in native.list_segments(partition)
    ]
    ends = list(accumulate(map(len, batches), initial=0))
    cuts = list(accumulate(map(len, stamps), initial=0))
    local = open_storage(ObjectStore(f"memory://{uuid.uuid4().hex}"), "kafka-local")
    segments: list[Written] = []
    for number, (first, last) in enumerate(pairwise(cuts), 1):
        one = Written(
            b"".join(pieces[first:last]),
            start_offset=ends[first],
            end_offset=ends[last] - 1,
            max_timestamp_ms=max(max(batch) for batch in batches[first:last]),
            number=number,
            **stored,
        )
        metadata = replace(one.metadata, end_offset=one.end_offset)
        local.copy_log_segment(metadata, LogSegmentData(one.log, {}))
        indexes = local.fetch_all_indexes(metadata)
        of = {kind: bytes(indexes[kind]) for kind in indexes}
        segments.append(one.with_(indexes={IndexType.TRANSACTION: None, **of}))
    return Log(tuple(segments), tuple(stamp for batch in batches for stamp in batch))


@pytest.fixture(scope="module")
def log() -> Log:
    """Three segments of several batches; the last batches are not in the index."""
    return log_of(
        [[BEGIN, BEGIN + 1], [BEGIN + 9], [BEGIN + 5]],
        [[BEGIN + 20], [BEGIN + 21, BEGIN + 29], [BEGIN + 22], [BEGIN + 23]],
        [[BEGIN + 30], [BEGIN + 31, BEGIN + 35], [BEGIN + 32], [BEGIN + 33]],
    )


def test_what_is_true_is_answered(log: Log) -> None:
    topic = log.tier()
    assert topic.end_offsets() == {0: len(log.stamps)}
    for time in range(BEGIN - 1, BEGIN + 40):
        found = topic.offsets_for_times({0: time})[0]
        assert (found and found.offset) == log.offset_of(time)


@pytest.mark.parametrize("claim", [0, BEGIN + 20, BEGIN + 28, BEGIN + 30, 1 << 62])
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_largest_timestamp_that_the_time_index_contradicts_hides_no_record(
    log: Log,
    claim: int,
    is_encrypted: bool,
) -> None:
    sealed = [one.with_(is_encrypted=is_encrypted) for one in log.segments]
    topic = replace(log, segments=tuple(sealed)).tier({1: {"maxTimestampMs": claim}})
    with pytest.raises(
        CorruptDataError, match=r"rsm-manifest: maxTimestampMs.*\.indexes: time index"
    ):
        topic.offsets_for_times({0: BEGIN + 29})


def test_where_the_time_index_is_empty_the_log_says_what_is_latest(log: Log) -> None:
    # As a broker has it where no record has a timestamp: it claims the file's time.
    none = log_of([[-1], [-1]])
    topic = none.tier({0: {"maxTimestampMs": BEGIN}})
    assert topic.offsets_for_times({0: BEGIN}) == {0: None}
    first = log.segments[0]
    lost = first.with_(indexes={**first.indexes, IndexType.TIMESTAMP: b""})
    cut = replace(log, segments=(lost, *log.segments[1:]))
    assert cut.tier().offsets_for_times({0: BEGIN + 9})[0] is not None
    with pytest.raises(CorruptDataError, match=r"rsm-manifest: maxTimestampMs.*log"):
        cut.tier({0: {"maxTimestampMs": 5}}).offsets_for_times({0: BEGIN + 9})


@pytest.mark.parametrize("less", [1, 2, 3])
def test_an_end_before_that_of_the_log_is_never_taken_for_it(
    log: Log, less: int
) -> None:
    end = len(log.stamps) - 1 - less
    topic = log.tier({2: {"endOffset": end}})
    with pytest.raises(CorruptDataError, match=r"offset|time index"):
        topic.end_offsets()
    with pytest.raises(CorruptDataError):
        topic.read(0, end + 1, 1)
    with pytest.raises(CorruptDataError):
        topic.scan(start=end + 1)


def test_an_end_behind_that_of_the_log_hides_no_other_segment(log: Log) -> None:
    far = len(log.stamps) - 1
    for number in (0, 1, 2):
        topic = log.tier({number: {"endOffset": far + (number == 2)}})
        for time in (BEGIN + 25, BEGIN + 31):
            with pytest.raises(CorruptDataError, match="the log ends before offset"):
                topic.offsets_for_times({0: time})


def test_the_time_index_contradicts_an_end_before_its_last_entry(log: Log) -> None:
    topic = log.tier({0: {"endOffset": 1}})
    with pytest.raises(CorruptDataError, match=r"manifest.*ends at offset 1,.*indexes"):
        topic.scan()


def test_the_end_of_a_log_is_asked_for_once(log: Log) -> None:
    counter = RequestCounter()
    topic = log.tier(counter=counter)
    topic.end_offsets()
    # Of each segment the manifest and its indexes' ends; of the last the offset index
    # and the end of the log, each with its manifest.
    assert counter.by_verb()["get"] == 3 + 2
    assert counter.by_verb()["get_range"] == 3 + 2
    topic.end_offsets()
    topic.offsets_for_times({0: BEGIN + 99})
    assert counter.by_verb()["get_range"] == 3 + 2


@given(
    st.lists(
        st.lists(
            st.lists(st.integers(0, 20).map(BEGIN.__add__), min_size=1, max_size=2),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_wrong_claims_give_the_truth_or_an_error(
    stamped: list[list[list[int]]], data: st.DataObject
) -> None:
    log = log_of(*stamped)
    end = len(log.stamps)
    latest = st.integers(-1, 22).map(BEGIN.__add__)
    last = st.integers(0, end + 2)
    claims = data.draw(
        st.fixed_dictionaries({"maxTimestampMs": latest}, optional={"endOffset": last})
        | st.fixed_dictionaries({"endOffset": last})
    )
    topic = log.tier({data.draw(st.integers(0, len(stamped) - 1)): claims})
    for time in sorted({stamp + step for stamp in log.stamps for step in (0, 1)}):
        with suppress(CorruptDataError):
            found = topic.offsets_for_times({0: time})[0]
            assert (found and found.offset) == log.offset_of(time)
    for start in range(end + 1):
        with suppress(CorruptDataError):
            table = topic.scan(start=start).to_table()
            assert table["offset"].to_pylist() == list(range(start, end))
    with suppress(CorruptDataError):
        assert topic.end_offsets() == {0: end}


def test_an_index_of_another_length_than_its_entries_confirms_nothing(log: Log) -> None:
    last = log.segments[2]
    times = last.indexes[IndexType.TIMESTAMP]
    assert times
    odd = last.with_(
        indexes={
            **last.indexes,
            IndexType.TIMESTAMP: times[:-12] + struct.pack(">qi", 1, 0)[:-1],
        }
    )
    cut = replace(log, segments=(*log.segments[:2], odd))
    with pytest.raises(CorruptDataError):
        cut.tier().offsets_for_times({0: BEGIN + 35})
