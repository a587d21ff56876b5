"""The index cache: planner and workers of a machine have one, on its disk."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from servers import ProxiedBucket
from spark.conftest import Load
from spark.oracle import TIER
from support.stores import files_of, fill
from tieredfs import ObjectStore
from tieredfs.cache import IndexCachedStorage
from tieredfs.spark.options import parse_options
from tieredfs.spark.plan import plan_tasks

TOPIC = "o3.beta"
INDEXES = r"\.(index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"


@pytest.fixture
def given(s3_proxied: ProxiedBucket) -> Mapping[str, str]:
    """Options for a topic in a bucket, each of whose requests is seen."""
    files = files_of(TIER)
    fill(
        ObjectStore(s3_proxied.url, s3_proxied.storage_options),
        {key: data for key, data in files.items() if key.startswith(f"{TOPIC}-")},
    )
    s3_proxied.proxy.clear()
    return {
        "subscribe": TOPIC,
        "storage_options": json.dumps(s3_proxied.storage_options),
        "startingOffsets": json.dumps({TOPIC: {"0": 7}}),
        "minPartitions": "6",
    }


def test_a_worker_takes_the_indexes_that_others_have_fetched(
    load: Load, given: Mapping[str, str], s3_proxied: ProxiedBucket, tmp_path: Path
) -> None:
    cached = {**given, "cache_dir": str(tmp_path)}
    asked = []
    for _ in range(3):
        assert load(cached, s3_proxied.url).count() == 120 - 7
        asked.append(len(s3_proxied.proxy.requests("GET", INDEXES)))
        s3_proxied.proxy.clear()
    assert asked[0] > 0
    assert asked[1:] == [0, 0]


def test_tasks_take_the_indexes_that_the_planner_has_fetched(
    given: Mapping[str, str], s3_proxied: ProxiedBucket, tmp_path: Path
) -> None:
    timed = {name: text for name, text in given.items() if name != "startingOffsets"}
    timed |= {"cache_dir": str(tmp_path), "startingTimestamp": "1"}
    options = parse_options({**timed, "path": s3_proxied.url})
    tasks = plan_tasks(options, ("offset",))
    assert s3_proxied.proxy.requests("GET", INDEXES)
    s3_proxied.proxy.clear()
    assert sum(batch.num_rows for task in tasks for _, batch in task.read()) == 120
    assert not s3_proxied.proxy.requests("GET", INDEXES)


def test_a_task_that_travels_has_the_default_directory_of_its_planner(
    given: Mapping[str, str],
    s3_proxied: ProxiedBucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "default"))
    options = parse_options({**given, "path": s3_proxied.url})
    sent = pickle.dumps(plan_tasks(options, ("offset",))[0])
    task = pickle.loads(sent)  # noqa: S301 - our own
    storage = task.scans[0].storage
    assert isinstance(storage, IndexCachedStorage)
    assert storage.cache.directory == tmp_path / "default"
