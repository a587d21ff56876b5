"""``tieredfs migrate``, as people and programs use it."""

import json
from pathlib import Path

import pytest

from cli.commands import Run, run_with_terminal
from servers import Bucket
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.stores import files_of, fill
from tieredfs import ObjectStore, TopicIdPartition, Uuid, open_tier
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import sample

TXN = str(KAFKA / "txn" / REMOTE)
EPOCHS = str(KAFKA / "epochs" / REMOTE)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A folder that is not there."""
    return str(tmp_path / "target")


def test_a_tier_is_moved_to_the_native_layout(run: Run, url: str) -> None:
    done = run("migrate", TXN, url)
    assert (done.code, done.err) == (0, [])
    head, row = done.text.splitlines()
    columns = "PARTITION SEGMENTS COPIED PRESENT CHANGED FAILED REBUILT BYTES"
    assert " ".join(head.split()) == columns
    assert row.split() == ["txn-0", "22", "22", "0", "0", "0", "0", "257,893"]
    moved, tiered = open_tier(url).topic("txn"), open_tier(TXN).topic("txn")
    assert moved.scan().to_table().equals(tiered.scan().to_table())
    assert run("migrate", TXN, url).text.splitlines()[1].split()[1:4] == [
        "22",
        "0",
        "22",
    ]


def test_one_of_several_topics_of_one_name_is_chosen(
    run: Run, url: str, tmp_path: Path
) -> None:
    source = SingleObject(ObjectStore(str(tmp_path / "source")))
    ids = ["BBBBBBBBBBBBBBBBBBBBBA", "CCCCCCCCCCCCCCCCCCCCCA"]
    for topic_id in ids:
        one = sample(TopicIdPartition("orders", 0, Uuid(topic_id)), 0)
        source.copy_log_segment(one.metadata, one.data)
    done = run(
        "migrate", source.store.url, url, "orders", "--topic-id", ids[1], "--json"
    )
    assert done.code == 0
    assert [row["topic_id"] for row in json.loads(done.out)["partitions"]] == ids[1:]
    done = run("migrate", source.store.url, url, "--topic-id", "D" * 21 + "A")
    assert done.code == 3


def test_programs_are_told_the_same(run: Run, url: str) -> None:
    done = run("migrate", TXN, url, "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out) == {
        "url": url,
        "dry_run": False,
        "partitions": [
            {
                "partition": "txn-0",
                "topic_id": "dao62lTOQsGBPyjJLrpQKw",
                "segments": 22,
                "copied": 22,
                "present": 0,
                "changed": 0,
                "failed": 0,
                "rebuilt": 0,
                "bytes": 257893,
            }
        ],
        "errors": [],
    }


def test_a_layout_and_its_options_are_those_of_the_target(run: Run, url: str) -> None:
    assert run("migrate", TXN, f"{url}/a", "--layout", "kafka-local").code == 0
    assert files_of(Path(url, "a")).keys() == files_of(Path(TXN)).keys()
    options = ("--layout-options", '{"compression": "zstd"}')
    assert run("migrate", TXN, f"{url}/b", *options).code == 0
    assert run("migrate", TXN, f"{url}/c").code == 0

    def size(place: str) -> int:
        return sum(len(data) for data in files_of(Path(url, place)).values())

    assert size("b") < size("c")
    assert run("migrate", f"{url}/b", f"kafka-local+{url}/d").code == 0
    assert files_of(Path(url, "d")) == files_of(Path(url, "a"))


def test_a_plan_writes_nothing(run: Run, url: str) -> None:
    done = run("migrate", TXN, url, "--dry-run")
    assert (done.code, done.err) == (0, [])
    head, row = done.text.splitlines()
    assert head.startswith("PARTITION  TO COPY  PRESENT")
    assert row.split() == ["txn-0", "22", "0", "257,893", "198", "22"]
    assert not Path(url).exists()
    (planned,) = json.loads(run("migrate", TXN, url, "-n", "--json").out)["partitions"]
    assert planned == {
        "partition": "txn-0",
        "topic_id": "dao62lTOQsGBPyjJLrpQKw",
        "segments": 22,
        "present": 0,
        "bytes": 257893,
        "reads": 198,
        "writes": 22,
    }


def test_a_range_and_a_topic(run: Run, url: str) -> None:
    where = ("txn", "--from", "100", "--to", "200")
    done = run("migrate", TXN, url, *where)
    assert done.text.splitlines()[1].split()[1] == "2"
    listed = run("ls", url, "txn", "--segments", "--json")
    found = [one["start_offset"] for one in json.loads(listed.out)["segments"]]
    assert found == [76, 163]
    assert run("migrate", TXN, url, "nowhere").code == 3
    assert run("migrate", TXN, url, "txn", "--from", "9", "--to", "8").code == 2
    assert run("migrate", TXN, url, "txn", "--from", "-5").code == 2
    assert run("migrate", TXN, url, "--from", "2030-01-01", "--json").code == 0


def test_one_place_is_refused(run: Run, url: str) -> None:
    run("migrate", EPOCHS, url)
    for other in (url, f"{url}/below", f"kafka-local+{url}", f"file://{url}"):
        done = run("migrate", url, other)
        assert (done.code, done.out) == (2, b"")
        assert done.err[0].startswith("tieredfs: invalid argument: ")


def test_a_damaged_segment_is_an_error_line_and_the_rest_is_copied(
    run: Run, url: str, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    fill(ObjectStore(str(damaged)), files_of(Path(TXN)))
    log = sorted(damaged.rglob("*.log"))[3]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    done = run("migrate", str(damaged), url)
    assert done.code == 4
    assert done.text.splitlines()[1].split()[:6] == [
        "txn-0",
        "22",
        "21",
        "0",
        "0",
        "1",
    ]
    (line,) = done.err
    assert line.startswith("tieredfs: corrupt batch: ")
    assert log.stem in line


def test_what_a_layout_cannot_store_is_exit_code_2(run: Run, url: str) -> None:
    source = str(KAFKA / "compacted" / LOCAL)
    done = run("migrate", source, url, "--layout", "kafka-local")
    assert done.code == 2
    assert all("its log is compacted" in line for line in done.err)


def test_from_one_bucket_to_another(run: Run, s3_bucket: Bucket, url: str) -> None:
    options = json.dumps(s3_bucket.storage_options)
    there = run("migrate", TXN, s3_bucket.url, "--target-storage-options", options)
    assert (there.code, there.err) == (0, [])
    here = run("migrate", s3_bucket.url, url, "--storage-options", options)
    assert (here.code, here.err) == (0, [])
    moved = open_tier(url).topic("txn").scan().to_table()
    assert moved.equals(open_tier(TXN).topic("txn").scan().to_table())


def test_progress_is_shown_on_a_terminal(url: str) -> None:
    done, seen = run_with_terminal("migrate", TXN, url, on=frozenset({"stderr"}))
    assert done.code == 0
    assert f"migrate {TXN}"[:20] in seen
    assert done.text.startswith("PARTITION  ")
