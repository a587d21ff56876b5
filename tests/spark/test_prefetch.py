"""Partitions of one task: the next ones are fetched while one is read."""

from collections.abc import Iterator
from threading import Barrier, BrokenBarrierError

import pyarrow as pa
import pytest

from support.distant import distant
from tieredfs import CorruptDataError, ObjectStore, Tier, open_tier
from tieredfs.objects.observer import RequestEvent
from tieredfs.spark import plan
from tieredfs.spark.options import parse_options
from tieredfs.spark.plan import plan_tasks
from tieredfs.spark.tasks import Task

PARTITIONS = 12
RECORDS = 50


class Together:
    """Holds up the first requests for logs until so many of them are under way."""

    def __init__(self, count: int) -> None:
        self.met = 0
        self.logs = 0
        self._count = count
        self._barrier = Barrier(count, timeout=30)

    def on_request(self, event: RequestEvent) -> None:
        if event.verb != "get_range":
            return
        self.logs += 1
        if self.logs <= self._count:
            try:
                self._barrier.wait()
            except BrokenBarrierError:
                return
            self.met += 1


@pytest.fixture
def url(memory: ObjectStore) -> str:
    topic = open_tier(memory.url, plugin="single-object").create_topic(
        "t", partitions=PARTITIONS
    )
    for number in range(PARTITIONS):
        values = [f"{number} {n}".encode() for n in range(RECORDS)]
        topic.append(pa.table({"value": values}), number)
    return distant(memory.url)


def watched_task(
    url: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> tuple[Task, Together]:
    """Return a task whose first requests for logs wait until so many are under way."""
    together = Together(count)
    storage = open_tier(url).storage.with_observer(together)
    monkeypatch.setattr(plan, "open_source", lambda _: Tier(storage))
    task = task_of(url)
    together.logs = 0
    return task, together


def task_of(url: str) -> Task:
    (task,) = plan_tasks(parse_options({"path": url, "subscribe": "t"}), ("value",))
    return task


def values_of(task: Task) -> Iterator[bytes]:
    for _, batch in task.read():
        yield from batch["value"].to_pylist()


def expected(partitions: int = PARTITIONS) -> list[bytes]:
    return [f"{p} {n}".encode() for p in range(partitions) for n in range(RECORDS)]


def test_requests_for_several_partitions_are_under_way_together(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, together = watched_task(url, monkeypatch, 3)
    assert list(values_of(task)) == expected()
    assert together.met == 3


def test_a_task_that_is_ended_early_begins_no_more_than_a_few(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, together = watched_task(url, monkeypatch, 0)
    batches = task.read()
    assert next(batches)[1].num_rows == RECORDS
    batches.close()  # type: ignore[attr-defined] # it is a generator
    assert together.logs <= 5


def test_an_error_comes_after_the_partitions_before_it(
    url: str, memory: ObjectStore
) -> None:
    task = task_of(url)
    key = next(
        one.key
        for one in memory.list()
        if "/7/" in one.key and one.key.endswith(".segment")
    )
    data = bytearray(memory.get(key))
    data[70] ^= 1
    memory.put(key, bytes(data), overwrite=True)
    found: list[bytes] = []
    with pytest.raises(CorruptDataError):
        found.extend(values_of(task))
    assert found == expected(7)
