"""Tasks: planned without a request, of about one size, and exact."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tieredfs import Tier, open_tier
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.objects.observer import RequestEvent
from tieredfs.spark import plan
from tieredfs.spark.filters import Wanted
from tieredfs.spark.options import SourceOptions, parse_options
from tieredfs.spark.plan import plan_query, plan_tasks
from tieredfs.spark.positions import Position
from tieredfs.spark.tasks import Task, make_tasks

SEGMENTS, RECORDS = 4, 1000


class Verbs:
    """The verbs of all requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_request(self, event: RequestEvent) -> None:
        self.seen.append(event.verb)


@pytest.fixture
def url(tmp_path: Path) -> str:
    tier = open_tier(tmp_path, plugin="single-object")
    topic = tier.create_topic("t")
    for first in range(0, SEGMENTS * RECORDS, RECORDS):
        stamps = pa.array(range(first, first + RECORDS), pa.timestamp("ms", tz="UTC"))
        values = [f"{n}".encode() * 50 for n in range(RECORDS)]
        topic.append(pa.table({"value": values, "timestamp": stamps}))
    return str(tmp_path)


@pytest.fixture
def requests(url: str, monkeypatch: pytest.MonkeyPatch) -> Verbs:
    verbs = Verbs()
    storage = open_tier(url).storage.with_observer(verbs)
    monkeypatch.setattr(plan, "open_source", lambda _: Tier(storage))
    return verbs


def options(url: str, **given: str) -> SourceOptions:
    return parse_options({"path": url, "subscribe": "t", **given})


def offsets_of(tasks: list[Task]) -> list[int]:
    return [
        offset
        for task in tasks
        for _, batch in task.read()
        for offset in batch["offset"].to_pylist()
    ]


def within(start: int, end: int) -> dict[str, str]:
    return {
        "startingOffsets": f'{{"t": {{"0": {start}}}}}',
        "endingOffsets": f'{{"t": {{"0": {end}}}}}',
    }


@pytest.mark.parametrize(
    "given",
    [{}, within(1500, 2700), within(10, 11), {"minPartitions": "9"}],
    ids=["everything", "inside segments", "one record", "divided"],
)
def test_a_plan_by_offsets_takes_nothing_but_listings(
    given: dict[str, str], url: str, requests: Verbs
) -> None:
    tasks = plan_tasks(options(url, **given), ("offset",))
    assert set(requests.seen) == {"list"}
    start, end = (
        (0, 4000)
        if "startingOffsets" not in given
        else (
            int(given["startingOffsets"][11:-2]),
            int(given["endingOffsets"][11:-2]),
        )
    )
    assert offsets_of(tasks) == list(range(start, end))


def test_a_time_takes_two_requests_more(url: str, requests: Verbs) -> None:
    tasks = plan_tasks(options(url, startingTimestamp="2500"), ("offset",))
    assert [verb for verb in requests.seen if verb != "list"] == ["get_range"] * 2
    assert offsets_of(tasks) == list(range(2500, 4000))


@pytest.mark.parametrize("target", [1, 1000, 7_001, 60_000, 1 << 20])
@pytest.mark.parametrize("bounds", [(0, 4000), (333, 3777), (1999, 2001)], ids=str)
def test_tasks_of_any_size_have_each_record_once_and_in_order(
    target: int, bounds: tuple[int, int], url: str
) -> None:
    (whole,) = plan_tasks(options(url, **within(*bounds)), ("offset",))
    tasks = make_tasks(whole.scans, target)
    assert offsets_of(tasks) == list(range(*bounds))


def test_a_segment_with_more_than_the_target_is_cut_into_even_parts(url: str) -> None:
    (whole,) = plan_tasks(options(url), ("offset",))
    size = whole.size // SEGMENTS
    tasks = make_tasks(whole.scans, size // 4)
    counts = [len(offsets_of([task])) for task in tasks]
    assert len(tasks) == pytest.approx(4 * SEGMENTS, abs=SEGMENTS)
    assert max(counts) <= RECORDS // 4 + 1


def test_of_a_segment_of_which_little_is_asked_for_there_is_one_task(url: str) -> None:
    (whole,) = plan_tasks(options(url, **within(100, 110)), ("offset",))
    assert len(make_tasks(whole.scans, whole.size // 10)) == 1


def test_small_topics_share_a_task(url: str) -> None:
    other = open_tier(url).create_topic("u")
    other.append(pa.table({"value": [b"v"]}))
    both = replace(options(url), topics=("t", "u"))
    (task,) = plan_tasks(both, ("offset",))
    assert [topic for topic, _ in task.read()] == ["t", "u"]


def test_each_of_many_small_scans_is_measured_only_a_few_times(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = plan_tasks(options(url, **within(100, 110)), ("offset",))
    (scan,) = whole.scans
    size = whole.size
    measured: list[ScanPlan] = []

    def measure(plan: ScanPlan) -> int:
        measured.append(plan)
        return size

    monkeypatch.setattr(ScanPlan, "size", property(measure))
    tasks = make_tasks([scan] * 500, 50 * size)
    assert [len(task.scans) for task in tasks] == [50] * 10
    assert len(measured) <= 5 * 500


def test_a_start_after_all_records_reads_nothing_with_the_strategy_latest(
    url: str,
) -> None:
    late = {
        "startingTimestamp": "4000",
        "startingOffsetsByTimestampStrategy": "latest",
    }
    (planned,) = plan_query(options(url, **late))
    assert (planned.resolved.start, planned.resolved.end) == (4000, 4000)
    assert plan_tasks(options(url, **late), ("offset",)) == []


@pytest.mark.parametrize(
    ("time", "start"), [(-1, 4000), (-2, 0), (0, 0), (3999, 3999)], ids=str
)
def test_times_below_zero_are_latest_and_earliest(
    time: int, start: int, url: str
) -> None:
    starting = Position("startingTimestamp", time, {}, is_time=True)
    (planned,) = plan_query(replace(options(url), starting=starting))
    assert planned.resolved.start == start


def test_segments_that_are_too_old_for_a_filter_are_not_read(url: str) -> None:
    tasks = plan_tasks(options(url), ("offset",), Wanted(since=2500))
    assert offsets_of(tasks) == list(range(2000, 4000))
    tasks = plan_tasks(options(url, minPartitions="8"), ("offset",), Wanted(since=2500))
    assert offsets_of(tasks) == list(range(2000, 4000))


def test_what_a_task_shows_is_short(url: str) -> None:
    (task,) = plan_tasks(options(url), ("offset",))
    assert len(repr(task)) < 200
