"""``tieredfs scrub``, as people and programs use it."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
import s3fs

from cli.commands import Run
from servers import Bucket
from support.stores import files_of, fill, open_store
from tieredfs import ObjectStore, StorageUnavailableError
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import WRITES, WatchedStore

FIRST, SECOND, _ = PARTITIONS
TWO_DAYS = 2 * 86400


def leave_half(store: ObjectStore) -> set[str]:
    """Store a segment, and let the copy of another one die; return what that left."""
    whole, half = sample(FIRST, 0), sample(SECOND, 0)
    KafkaLocal(store).copy_log_segment(whole.metadata, whole.data)
    before = {entry.key for entry in store.list()}
    with suppress(StorageUnavailableError):
        dying = WatchedStore.over(store, WRITES, limit=2)
        KafkaLocal(dying).copy_log_segment(half.metadata, half.data)
    return {entry.key for entry in store.list()} - before


def make_older(folder: Path, seconds: int) -> None:
    for path in folder.rglob("*"):
        at = path.stat().st_mtime - seconds
        os.utime(path, (at, at))


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return tmp_path / "tier"


def test_nothing_is_left_over(run: Run, plain: str) -> None:
    for more in ((), ("plain",)):
        done = run("scrub", plain, *more)
        assert (done.code, done.err) == (0, [])
        assert done.text == f"nothing is left over in {plain}\n"
    done = run("scrub", plain, "--json")
    assert json.loads(done.out) == {
        "url": plain,
        "leftovers": [],
        "uploads": None,
        "errors": [],
    }


def test_what_is_left_over_is_shown_and_stays(run: Run, tier: Path) -> None:
    left = leave_half(ObjectStore(str(tier)))
    before = files_of(tier)
    done = run("scrub", str(tier))
    assert (done.code, done.err) == (4, [])
    head, *lines = done.text.splitlines()
    assert head.split() == ["PARTITION", "STATE", "SINCE", "BYTES", "OBJECT", "WHY"]
    assert {line.split()[4] for line in lines} == left
    for line in lines:
        assert line.split()[:2] == [str(SECOND), "FOUND"]
        assert "has no leader_epoch_checkpoint, log, snapshot" in line
    assert run("scrub", str(tier), FIRST.topic).code == 4
    assert files_of(tier) == before


def test_programs_are_told_the_same(run: Run, tier: Path) -> None:
    left = leave_half(ObjectStore(str(tier)))
    done = run("scrub", str(tier), "--json")
    assert done.code == 4
    found = json.loads(done.out)["leftovers"]
    assert {one["key"] for one in found} == left
    for one in found:
        status = (tier / one["key"]).stat()
        assert one["partition"] == str(SECOND)
        assert one["topic_id"] == SECOND.topic_id
        assert one["state"] == "found"
        assert one["bytes"] == status.st_size
        assert one["modified"] == status.st_mtime_ns // 1_000_000


def test_only_what_is_old_is_deleted(run: Run, tier: Path) -> None:
    left = leave_half(ObjectStore(str(tier)))
    done = run("scrub", str(tier), "--delete")
    assert done.code == 4
    assert "KEPT" in done.text
    make_older(tier, TWO_DAYS)
    whole = files_of(tier).keys() - left
    assert run("scrub", str(tier), "--delete", "--older-than", "3d").code == 4
    assert left <= files_of(tier).keys()
    done = run("scrub", str(tier), "--delete", "--json")
    assert (done.code, done.err) == (0, [])
    assert {one["state"] for one in json.loads(done.out)["leftovers"]} == {"deleted"}
    assert json.loads(done.out)["uploads"] == []
    assert files_of(tier).keys() == whole
    assert run("scrub", str(tier), "--delete").text.startswith("nothing is left over")


def test_the_clock_of_this_machine_makes_nothing_old(
    run: Run, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_half(ObjectStore(str(tier)))
    before, now = files_of(tier), time.time
    monkeypatch.setattr(time, "time", lambda: now() + TWO_DAYS)
    done = run("scrub", str(tier), "--delete")
    assert done.code == 4
    assert "KEPT" in done.text
    assert "DELETED" not in done.text
    assert files_of(tier) == before


@pytest.mark.parametrize("age", ["0", "0s", "0h"])
def test_all_are_deleted_on_request(run: Run, tier: Path, age: str) -> None:
    leave_half(ObjectStore(str(tier)))
    done = run("scrub", str(tier), "--delete", "--older-than", age)
    assert done.code == 0
    assert "DELETED" in done.text


def test_a_log_that_may_be_the_only_copy_is_kept(run: Run, tier: Path) -> None:
    one = sample(FIRST, 0)
    storage = KafkaLocal(ObjectStore(str(tier)))
    storage.copy_log_segment(one.metadata, one.data)
    (gone,) = tier.rglob("*.timeindex")
    gone.unlink()
    before = files_of(tier)
    done = run("scrub", str(tier), "--delete", "--older-than", "0")
    assert done.code == 4
    assert "ONLY_COPY" in done.text
    assert files_of(tier) == before


def test_what_an_append_left_where_there_is_no_partition(run: Run, tier: Path) -> None:
    one = sample(FIRST, 0)
    store = WatchedStore.over(ObjectStore(str(tier)), WRITES, limit=1)
    with suppress(StorageUnavailableError):
        SingleObject(store).append_log_segment(one.metadata, one.data)
    for more in ((), (FIRST.topic,)):
        done = run("scrub", str(tier), *more)
        assert done.code == 4
        assert f"staged for an append to {FIRST}" in done.text
    assert run("scrub", str(tier), "--delete", "--older-than", "0").code == 0
    assert not files_of(tier)


def test_usage(run: Run, plain: str, tmp_path: Path) -> None:
    for age in ("1", "1x", "-1h", "1.5h", "h", "", "9999999d99", "36501d"):
        done = run("scrub", plain, "--delete", "--older-than", age)
        assert (done.code, done.out) == (2, b"")
    assert run("scrub", plain, "--older-than", "1d").code == 2
    assert run("scrub", plain, "nowhere").code == 3
    assert run("scrub", str(tmp_path / "nothing")).code == 3


def test_a_layout_that_is_read_only(run: Run, data: Path) -> None:
    logs = str(data / "kafka" / "epochs" / "raw-log-dir")
    assert run("scrub", logs).code == 0
    done = run("scrub", logs, "--delete")
    assert done.code == 2
    assert "read only" in done.err[0]


def test_leftovers_and_unfinished_uploads_in_a_bucket(
    run: Run, s3_bucket: Bucket
) -> None:
    left = leave_half(open_store(s3_bucket))
    given = (s3_bucket.url, "--storage-options", json.dumps(s3_bucket.storage_options))
    done = run("scrub", *given, "--json")
    found = json.loads(done.out)["leftovers"]
    assert {one["key"] for one in found} == left
    assert all(one["modified"] > 1_700_000_000_000 for one in found)
    assert run("scrub", *given, "--delete").code == 4
    done = run("scrub", *given, "--delete", "--older-than", "0")
    assert (done.code, done.err) == (0, [])
    assert not left.intersection(entry.key for entry in open_store(s3_bucket).list())


def test_an_unfinished_upload_is_aborted_when_it_is_old(
    run: Run, s3_bucket: Bucket
) -> None:
    leave_half(open_store(s3_bucket))
    given = (s3_bucket.url, "--storage-options", json.dumps(s3_bucket.storage_options))
    client = s3fs.S3FileSystem(skip_instance_cache=True, **s3_bucket.storage_options)
    bucket, _, prefix = s3_bucket.url.removeprefix("s3://").partition("/")
    key = f"{prefix}/large.log".lstrip("/")
    client.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    assert json.loads(run("scrub", *given, "--json").out)["uploads"] is None
    done = run("scrub", *given, SECOND.topic, "--delete", "--json")
    assert json.loads(done.out)["uploads"] is None
    assert json.loads(run("scrub", *given, "--delete", "--json").out)["uploads"] == []
    done = run("scrub", *given, "--delete", "--older-than", "0")
    assert "aborted an unfinished upload of " in done.text
    assert done.text.rstrip().endswith("/large.log")
    done = run("scrub", *given, "--delete", "--older-than", "0", "--json")
    assert json.loads(done.out)["uploads"] == []


def test_foreign_objects_are_no_leftovers(run: Run, tier: Path) -> None:
    leave_half(ObjectStore(str(tier)))
    notes = {f"{FIRST}-{FIRST.topic_id}/notes.txt": b"mine", "other/a.b": b"mine"}
    fill(ObjectStore(str(tier)), notes)
    run("scrub", str(tier), "--delete", "--older-than", "0")
    assert notes.items() <= files_of(tier).items()
