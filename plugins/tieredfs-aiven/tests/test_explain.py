"""The requests of a scan of this layout are those that were predicted."""

from functools import cache
from pathlib import Path
from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from support.samples import KEYS, Sample, prefix_of, sample, samples
from tieredfs import (
    CorruptDataError,
    ObjectStore,
    OffsetOutOfRangeError,
    Options,
    RequestCounter,
    Scan,
    Tier,
)
from tieredfs.cache import with_index_cache
from tieredfs_aiven import Aiven

_KIB, _MIB = 1 << 10, 1 << 20


def _open(one: Sample, fetch_bytes: int, cache_dir: Path | None = None) -> Tier:
    options = Options(fetch_bytes=fetch_bytes)
    store = ObjectStore(str(one.folder / "objects"), options=options)
    storage = Aiven(store, key_prefix=prefix_of(one), encryption_keys=KEYS)
    return Tier(with_index_cache(storage, cache_dir) if cache_dir else storage)


@cache
def _logs() -> list[tuple[Sample, str]]:
    """Return the topics of each sample of a bucket that hold batches to the end."""
    found = []
    buckets = {(one.folder, prefix_of(one)): one for one in samples()}
    for one in buckets.values():
        tier = _open(one, 16 * _MIB)
        for topic in tier.topics():
            try:
                for _ in tier.topic(topic).scan(on_gap="skip"):
                    pass
            except CorruptDataError:  # bytes that are there for their chunks
                continue
            found.append((one, topic))
    return found


@st.composite
def scans(draw: st.DrawFn, fetch_bytes: int, cache_dir: Path | None) -> Scan | None:
    """Draw a scan; none if it would begin behind an end."""
    one, name = draw(st.sampled_from(_logs()))
    topic = _open(one, fetch_bytes, cache_dir).topic(name)
    first = min(topic.beginning_offsets().values())
    end = max(topic.end_offsets().values())
    bounds = draw(st.tuples(*[st.none() | st.integers(first, end)] * 2))
    if None not in bounds:
        bounds = tuple(sorted(bounds))
    order: Literal["partition", "fair"]
    order = draw(st.sampled_from(("partition", "fair")))
    try:
        return topic.scan(None, *bounds, order=order, on_gap="skip")
    except OffsetOutOfRangeError:
        return None


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("fetch_bytes", [64 * _KIB, 16 * _MIB])
@settings(max_examples=30)
@given(data=st.data())
def test_a_scan_sends_the_requests_that_were_predicted(
    fetch_bytes: int,
    is_cached: bool,
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    cache_dir = tmp_path_factory.mktemp("indexes") if is_cached else None
    scan = data.draw(scans(fetch_bytes, cache_dir))
    if scan is None:
        return
    explained = scan.explain()
    for _ in scan:
        pass
    stats = scan.stats
    assert stats.planned == explained
    assert stats.requests <= explained.reading
    assert stats.requests == explained.reading or not explained.is_exact
    assert explained.is_exact or fetch_bytes < _MIB


@pytest.mark.parametrize("fetch_bytes", [64 * _KIB, 16 * _MIB])
@settings(max_examples=30)
@given(data=st.data(), needed=st.integers(0, 300), stops=st.booleans())
def test_the_first_records_take_no_more_than_was_predicted(
    fetch_bytes: int,
    data: st.DataObject,
    needed: int,
    stops: bool,
) -> None:
    scan = data.draw(scans(fetch_bytes, None))
    if scan is None:
        return
    explained = scan.explain(needed)
    found = 0
    for batch in scan.read_gradually(needed):
        found += len(batch)
        if stops and found >= needed:
            break
    assert scan.stats.requests <= explained.reading


@pytest.mark.parametrize("variant", ["plain", "zstd", "encrypted", "zstd-encrypted"])
@given(data=st.data())
def test_a_planned_fetch_is_what_a_fetch_sends_and_returns(
    variant: str, data: st.DataObject
) -> None:
    one = sample(variant, "txn")
    counter = RequestCounter()
    plain = one.open()
    storage = plain.with_observer(counter)
    segment = plain.describe(one.metadata)
    size = segment.size or 0
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
    manifest = plain.fetch_all_indexes(segment).layout
    layout = data.draw(st.sampled_from((b"", manifest)))
    before = data.draw(st.none() | st.just(plain.plan_fetch(segment, 0, 1)))
    planned = plain.plan_fetch(segment, start, end, layout=layout, after=before)
    found = storage.fetch_log_ahead(segment, start, end, layout=layout)
    assert counter.counts == planned.requests
    assert planned.end - start == len(found)


def test_manifests_are_asked_for_unless_they_are_cached(tmp_path: Path) -> None:
    one, name = _logs()[0]
    whole = _open(one, 16 * _MIB).topic(name).scan(on_gap="skip").explain()
    assert whole.reading.by_verb == {
        "get": whole.segments,
        "get_range": whole.segments,
    }
    assert whole.explaining.by_verb == {"get": whole.segments}
    kept = _open(one, 16 * _MIB, tmp_path).topic(name).scan(on_gap="skip").explain()
    assert kept.reading.by_verb == {"get_range": whole.segments}
    assert kept.explaining.requests == 0
