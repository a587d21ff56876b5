"""``Scan.explain`` of the first records: what reading in growing steps asks for.

That it is never exceeded is in ``tests/proofs/proof_requests.py``.
"""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from support.kafka_data import KAFKA, LOCAL
from support.log_directories import source_of, topic_of
from tier.large_logs import pushed, write_large
from tieredfs import ObjectStore, Options, Scan
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject


class TestTheFirstRecords:
    """Of one segment of 14 MB, in which each offset has a record."""

    @pytest.fixture
    def scan(self, memory: ObjectStore) -> Scan:
        """Plan to read it."""
        write_large(memory)
        return topic_of(SingleObject(ObjectStore(memory.url))).scan([0], 1)

    @pytest.mark.parametrize("needed", [1, 20, 100, 279, 1000])
    def test_take_what_is_expected_where_each_offset_has_one(
        self, scan: Scan, needed: int
    ) -> None:
        explained = scan.explain(needed)
        found = 0
        for batch in scan.read_gradually(needed):
            found += len(batch)
            if found >= needed:
                break
        assert scan.stats.requests == explained.expected

    @pytest.mark.parametrize("needed", [0, 1, 20])
    def test_take_at_most_what_reading_on_to_the_end_takes(
        self, scan: Scan, needed: int
    ) -> None:
        explained = scan.explain(needed)
        assert not explained.is_exact
        for _ in scan.read_gradually(needed):
            pass
        stats = scan.stats
        assert explained.expected.size < stats.requests.size
        assert stats.requests <= explained.reading

    @pytest.mark.parametrize("needed", [1, 5, 100, 278])
    def test_take_at_most_the_log_and_a_short_fetch_and_an_index_for_each_step(
        self, scan: Scan, needed: int
    ) -> None:
        whole, bound = scan.explain().reading, scan.explain(needed).reading
        index = max(p.segment.size or 0 for p in scan.plan) // 400  # at most
        steps = 5  # for 1, 4, 16, 64 and 256 of 279 offsets
        assert bound.size <= whole.size + (steps + 1) * index
        assert bound.requests <= whole.requests + 2 * steps + 1

    def test_are_not_predicted_to_take_less_where_more_are_needed(
        self, scan: Scan
    ) -> None:
        found = [scan.explain(needed) for needed in (0, 1, 5, 100, 278, 279)]
        assert not any(each.is_exact for each in found)
        assert all(a.reading <= b.reading for a, b in pairwise(found))

    def test_are_exact_where_there_are_fewer_offsets(self, scan: Scan) -> None:
        explained = scan.explain(280)
        assert explained.is_exact
        assert explained.reading == explained.expected == scan.explain().reading
        for _ in scan.read_gradually(280):
            pass
        assert scan.stats.requests == explained.reading

    def test_are_not_read_to_explain_them(self, scan: Scan) -> None:
        assert scan.explain(1).explaining.size < 20_000


@pytest.mark.parametrize("fetch_bytes", [64 << 10, 256 << 10])
@pytest.mark.parametrize("needed", [1, 20, 100, 150, 299])
def test_of_a_segment_of_several_requests_only_those_of_the_first_records_are_expected(
    tmp_path: Path, memory: ObjectStore, fetch_bytes: int, needed: int
) -> None:
    pushed(tmp_path, memory, [2_000] * 300)
    options = Options(fetch_bytes=fetch_bytes)
    scan = topic_of(SingleObject(ObjectStore(memory.url, options=options))).scan()
    explained = scan.explain(needed)
    found = 0
    for batch in scan.read_gradually(needed):
        found += len(batch)
        if found >= needed:
            break
    assert scan.stats.requests == explained.expected
    assert explained.expected.size < needed * 2_100 + fetch_bytes + 10_000


def test_a_broker_is_not_asked_after_a_log_that_ends_before_the_first_records_do(
    tmp_path: Path,
) -> None:
    shutil.copytree(KAFKA / "compacted" / LOCAL, tmp_path, dirs_exist_ok=True)
    scan = topic_of(source_of(tmp_path), "compacted").scan([0], 813, 1146)
    explained = scan.explain(1)
    next(scan.read_gradually(1))
    assert scan.stats.requests == explained.expected


def test_the_indexes_that_steps_ask_for_are_counted(
    tmp_path: Path, memory: ObjectStore
) -> None:
    scan = pushed(tmp_path, memory, [50_000] * 60, KafkaLocal).scan()
    explained = scan.explain(1)
    for _ in scan.read_gradually(1):
        pass
    assert scan.stats.requests.by_verb["get"] == 3
    assert scan.stats.requests <= explained.reading


def test_holes_make_the_first_records_take_more_than_expected(tmp_path: Path) -> None:
    shutil.copytree(KAFKA / "compacted" / LOCAL, tmp_path, dirs_exist_ok=True)
    scan = topic_of(source_of(tmp_path), "compacted").scan()
    explained = scan.explain(300)
    found = 0
    for batch in scan.read_gradually(300):
        found += len(batch)
        if found >= 300:
            break
    assert explained.expected.requests < scan.stats.requests.requests
    assert scan.stats.requests <= explained.reading
