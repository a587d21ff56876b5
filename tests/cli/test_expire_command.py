"""``tieredfs expire`` and ``rm``, as people and programs use them."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from cli.commands import Run, ours
from servers.process import executable
from support.log_directories import small
from support.stores import files_of
from tieredfs import ObjectStore, TopicIdPartition, Uuid, open_tier
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.states import PartitionDeleteState
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

FIRST, SECOND, _ = PARTITIONS
EACH = 20
SIZES = [len(sample(FIRST, number).log) for number in range(4)]


@pytest.fixture
def tier(tmp_path: Path) -> str:
    """A tier with a topic of two partitions, of four segments and one, from 2025."""
    url = str(tmp_path / "tier")
    storage = SingleObject(ObjectStore(url))
    for one in [*(sample(FIRST, number) for number in range(4)), sample(SECOND, 0)]:
        storage.copy_log_segment(one.metadata, one.data)
    return url


def test_what_is_too_much_is_deleted(run: Run, tier: str) -> None:
    kept = sum(SIZES[2:])
    done = run("expire", tier, "orders", "--keep-bytes", str(kept))
    assert (done.code, done.err) == (0, [])
    assert done.text == (
        "PARTITION  EARLIEST  DELETED  BYTES\n"
        f"orders-0         40        2  {sum(SIZES[:2]):,}\n"
        "orders-1          0        0      0\n"
    )
    assert open_tier(tier).topic("orders").beginning_offsets() == {0: 40, 1: 0}
    again = run("expire", tier, "orders", "--keep-bytes", str(kept), "--json")
    assert json.loads(again.out) == {
        "url": tier,
        "dry_run": False,
        "partitions": [
            {
                "partition": f"orders-{number}",
                "topic_id": FIRST.topic_id,
                "log_start": start,
                "segments": 0,
                "bytes": 0,
            }
            for number, start in enumerate([40, 0])
        ],
        "errors": [],
    }


def test_what_is_too_old_is_deleted(run: Run, tier: str) -> None:
    assert run("expire", tier, "--older-than", "36500d").code == 0
    assert len(open_tier(tier).topic("orders").partitions) == 2
    assert run("expire", tier, "--older-than", "1d").code == 0
    assert run("ls", tier).code == 3


def test_a_topic_of_which_all_has_expired_is_no_error(run: Run, tier: str) -> None:
    """An expiry that cron runs must not begin to fail then."""
    young = pa.table({"value": [b"young"]})
    open_tier(tier).create_topic("young").append(young)
    for segments in (4, 0):
        done = run("expire", tier, "orders", "--older-than", "1d", "--json")
        assert (done.code, done.err) == (0, [])
        rows = json.loads(done.out)["partitions"]
        assert rows[0]["segments"] == segments
    done = run("expire", tier, "--older-than", "1d", "--json")
    rows = json.loads(done.out)["partitions"]
    assert [row["partition"] for row in rows] == ["orders-0", "orders-1", "young-0"]
    assert run("expire", tier, "no-such-topic", "--older-than", "1d").code == 3


def test_a_tier_of_which_all_has_expired_is_no_error_and_can_be_removed(
    run: Run, tier: str
) -> None:
    for segments in (4, 0):
        done = run("expire", tier, "--older-than", "1d", "--json")
        assert (done.code, done.err) == (0, [])
        rows = json.loads(done.out)["partitions"]
        assert [row["partition"] for row in rows] == ["orders-0", "orders-1"]
        assert rows[0]["segments"] == segments
    assert run("expire", tier, "orders", "--older-than", "1d", "-n").code == 0
    assert run("rm", tier, "orders", "--yes").code == 0
    assert run("expire", tier, "--older-than", "1d").code == 3


def test_a_dry_run_deletes_nothing(run: Run, tier: str) -> None:
    before = files_of(Path(tier))
    done = run("expire", tier, "--older-than", "1d", "--dry-run")
    assert done.code == 0
    assert "TO DELETE" in done.text
    assert f"orders-0         80          4  {sum(SIZES):,}" in done.text
    assert files_of(Path(tier)) == before


@pytest.mark.parametrize("limits", [[], ["--dry-run"], ["--single-writer"]])
def test_it_has_to_be_said_what_is_kept(run: Run, tier: str, limits: list[str]) -> None:
    done = run("expire", tier, *limits)
    assert done.code == 2
    assert "--older-than, --keep-bytes" in done.err[0]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("0", 0),
        ("12", 12),
        ("12B", 12),
        ("1K", 1024),
        ("1KiB", 1024),
        ("1KB", 1000),
        ("1.5MB", 1_500_000),
        ("1TiB", 1 << 40),
        ("2P", 2 << 50),
    ],
)
def test_a_size_has_the_units_that_people_write(
    run: Run, tier: str, size: str, expected: int
) -> None:
    """All that is too much for the smaller of two limits is deleted."""
    done = run("expire", tier, "--keep-bytes", size, "--dry-run", "--json")
    assert done.code == 0
    deleted = json.loads(done.out)["partitions"][0]["segments"]
    remaining, count = sum(SIZES), 0
    for each in SIZES:
        if remaining - each < expected:
            break
        remaining, count = remaining - each, count + 1
    assert deleted == count


@pytest.mark.parametrize("size", ["", "-1", "1iB", "1 MB", "1mb", "MB", "1e3", "9999P"])
def test_what_is_not_a_size_is_refused(run: Run, tier: str, size: str) -> None:
    done = run("expire", tier, f"--keep-bytes={size}")
    assert done.code == 2


def test_a_partition_that_a_manager_leads_is_5_and_the_others_expire(
    run: Run, tier: str
) -> None:
    led = LedPartition(Heartbeat(ObjectStore(tier), "manager"), FIRST)
    led.lead(1, "led", lambda state: state)
    done = run("expire", tier, "--older-than", "1d")
    assert done.code == 5
    (said,) = done.err
    assert said.startswith("tieredfs: fenced: orders-0: manager is in charge, with ")
    assert said.endswith("leader epoch 1, as this one, and is alive")
    assert open_tier(tier).topic("orders").partitions == (0,)
    assert run("expire", tier, "--older-than", "1d", "--single-writer").code == 0


def test_a_log_directory_is_not_expired(run: Run, tmp_path: Path) -> None:
    small(tmp_path)
    done = run("expire", f"kafka-log+{tmp_path}", "--older-than", "1d")
    assert done.code == 2
    assert "read only" in done.err[0]


class TestRm:
    def test_a_topic_is_gone(self, run: Run, tier: str) -> None:
        other = sample(TopicIdPartition("other", 0, Uuid("AAAAAAAAAAAAAAAAAAAAAQ")), 0)
        SingleObject(ObjectStore(tier)).copy_log_segment(other.metadata, other.data)
        done = run("rm", tier, "orders", "--yes")
        assert (done.code, done.err) == (0, [])
        assert done.text == f"deleted topic 'orders' in {tier}: 2 partitions\n"
        assert open_tier(tier).topics() == ["other"]
        assert all("orders" not in key for key in files_of(Path(tier)))

    def test_programs_get_what_was_deleted(self, run: Run, tier: str) -> None:
        done = run("rm", tier, "orders", "-y", "--json")
        assert json.loads(done.out) == {
            "url": tier,
            "topic": "orders",
            "deleted": ["orders-0", "orders-1"],
        }

    def test_without_a_terminal_it_deletes_nothing_unless_told(
        self, run: Run, tier: str
    ) -> None:
        before = files_of(Path(tier))
        done = run("rm", tier, "orders")
        assert done.code == 2
        assert "add --yes" in done.err[0]
        assert files_of(Path(tier)) == before

    @pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 2), (b"\n", 2)])
    def test_on_a_terminal_it_asks(self, tier: str, answer: bytes, code: int) -> None:
        before = files_of(Path(tier))
        ours_end, theirs = pty.openpty()
        os.write(ours_end, answer)
        done = subprocess.run(  # noqa: S603 - our own command
            [executable("tieredfs"), "rm", tier, "orders"],
            env=ours(),
            stdin=theirs,
            capture_output=True,
            timeout=60,
            check=False,
        )
        os.close(theirs)
        os.close(ours_end)
        assert done.returncode == code
        size = sum(SIZES) + len(sample(SECOND, 0).log)
        asked = f"Delete topic 'orders' in {tier} (2 partitions, {size} bytes)?"
        assert asked in done.stderr.decode()
        assert (files_of(Path(tier)) == before) == (code != 0)

    def test_a_topic_that_is_not_there_is_3_and_the_nearest_is_named(
        self, run: Run, tier: str
    ) -> None:
        done = run("rm", tier, "order", "--yes")
        assert done.code == 3
        assert "did you mean 'orders'?" in done.err[0]

    def test_of_several_topics_of_one_name_one_has_to_be_chosen(
        self, run: Run, tmp_path: Path
    ) -> None:
        url = str(tmp_path / "tier")
        storage = KafkaLocal(ObjectStore(url))
        ids = [Uuid("AAAAAAAAAAAAAAAAAAAAAQ"), Uuid("BAAAAAAAAAAAAAAAAAAAAA")]
        for each in ids:
            one = sample(TopicIdPartition("t", 0, each), 0)
            storage.copy_log_segment(one.metadata, one.data)
        done = run("rm", url, "t", "--yes")
        assert done.code == 2
        assert all(each in done.err[0] for each in ids)
        assert run("rm", url, "t", "--yes", "--topic-id", ids[0]).code == 0
        assert [p.topic_id for p in storage.list_partitions()] == ids[1:]
        wrong = run("rm", url, "t", "--yes", "--topic-id", ids[0])
        assert wrong.code == 3
        assert ids[1] in wrong.err[0]

    def test_one_that_a_manager_leads_stays(self, run: Run, tier: str) -> None:
        led = LedPartition(Heartbeat(ObjectStore(tier), "manager"), FIRST)
        led.lead(1, "led", lambda state: state)
        done = run("rm", tier, "orders", "--yes")
        assert done.code == 5
        assert open_tier(tier).topic("orders").partitions == (0, 1)


def test_what_has_expired_is_not_pushed_again(run: Run, tmp_path: Path) -> None:
    url, logs = str(tmp_path / "tier"), tmp_path / "logs"
    small(logs)
    push = ("push", str(logs), url, "--json")
    pushed = json.loads(run(*push).out)["partitions"][0]
    assert pushed["copied"] == 3
    assert run("expire", url, "--older-than", "1d").code == 0
    again = run(*push)
    assert again.code == 0
    (row,) = json.loads(again.out)["partitions"]
    assert (row["copied"], row["segments"]) == (0, 0)
    assert run("ls", url).code == 3


@pytest.mark.parametrize("layout", ["single-object", "kafka-local"])
def test_what_has_expired_is_not_migrated_again(
    run: Run, tier: str, tmp_path: Path, layout: str
) -> None:
    url = str(tmp_path / "copy")
    migrate = ("migrate", tier, url, "--layout", layout, "--json")
    assert json.loads(run(*migrate).out)["partitions"][0]["copied"] == 4
    assert run("expire", url, "--keep-bytes", str(sum(SIZES[2:]))).code == 0
    planned = json.loads(run(*migrate, "--dry-run").out)["partitions"][0]
    assert (planned["segments"], planned["present"]) == (0, 2)
    again = json.loads(run(*migrate).out)["partitions"][0]
    assert (again["copied"], again["present"], again["segments"]) == (0, 2, 2)
    back = str(tmp_path / "back")
    assert run("migrate", url, back).code == 0
    assert run("expire", back, "--keep-bytes", str(SIZES[3])).code == 0
    row = json.loads(run("migrate", url, back, "--json").out)["partitions"][0]
    assert (row["copied"], row["present"], row["segments"]) == (0, 1, 1)


@pytest.mark.parametrize("verb", ["push", "migrate"])
def test_nothing_is_copied_to_a_topic_that_is_being_deleted(
    run: Run, tmp_path: Path, verb: str
) -> None:
    url, logs = str(tmp_path / "tier"), tmp_path / "logs"
    small(logs)
    assert run("push", str(logs), url).code == 0
    (partition,) = open_tier(url).storage.list_partitions()
    led = LedPartition(Heartbeat(ObjectStore(url), "dead"), partition)
    marked = PartitionDeleteState.DELETE_PARTITION_MARKED
    led.lead(0, "marked", lambda state: state.with_deletion(marked))
    done = run(verb, str(logs), url)
    assert done.code == 5
    assert "t-0 is being deleted" in done.err[0]
