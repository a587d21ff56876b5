"""``tieredfs ls``: topics, and the partitions of a topic."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cli.commands import Outcome, Run, expected_records, run_process
from servers import Bucket
from support.child_process import GIVE_UP_PRIVILEGES
from support.kafka_data import KAFKA, REMOTE
from support.log_directories import log_of, recorded, write_log
from support.segments import segment
from support.stores import KINDS, files_of, fill, make_place, open_store
from support.wire import WireRecord, encode_batch
from tieredfs import open_tier
from tieredfs.errors import StorageUnavailableError
from tieredfs.log.read.reader import TieredReader

COLUMNS = [
    "PARTITION",
    "START",
    "END",
    "FIRST",
    "LAST",
    "SEGMENTS",
    "BYTES",
    "STORED",
]
TOPICS = ["plain", "txn", "two-partitions", "epochs"]


def partitions_of(topic: str) -> list[dict[str, Any]]:
    """Return what Kafka's consumer and the files themselves say of a topic."""
    said = json.loads((KAFKA / topic / "consumer.json").read_text())
    found = []
    for number, held in sorted(said["read_uncommitted"].items()):
        files = list((KAFKA / topic / REMOTE).glob(f"{topic}-{number}-*/*"))
        logs = [file for file in files if file.suffix == ".log"]
        found.append(
            {
                "partition": int(number),
                "start_offset": held["beginningOffset"],
                "end_offset": held["endOffset"],
                "segments": len(logs),
                "bytes": sum(log.stat().st_size for log in logs),
                "stored_bytes": sum(file.stat().st_size for file in files),
            }
        )
    return found


def test_the_last_timestamp_is_one_of_a_segment_that_is_read(
    run: Run, tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    first = log_of(0, 10)
    late = [WireRecord(offset, 1 << 41, b"k", b"late") for offset in range(10, 20)]
    write_log(tmp_path / "a", {0: first, 10: encode_batch(late), 20: b""})
    write_log(
        tmp_path / "b",
        {0: first, 10: log_of(10, 10, epoch=1), 20: b""},
        epochs=[(0, 0), (1, 10)],
    )
    last = []
    for name in ("a", "b"):
        assert run("push", str(tmp_path / name), archive).code == 0
        (row,) = json.loads(run("ls", archive, "t", "--json").out)["partitions"]
        last.append(row["max_timestamp"])
        topic = open_tier(archive).topic("t")
        times = topic.scan(columns=["timestamp"]).to_table()["timestamp"]
        assert row["max_timestamp"] == pc.max(times.cast(pa.int64())).as_py()
    assert last[0] > last[1]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_topics_of_a_tier_are_one_a_line(topic: str, run: Run) -> None:
    done = run("ls", str(KAFKA / topic / REMOTE))
    assert (done.code, done.text, done.err) == (0, f"{topic}\n", [])


def test_the_folder_above_the_tier_will_do(run: Run) -> None:
    fresh = KAFKA / "two-partitions"
    assert run("ls", str(fresh), "--plugin", "kafka-local").text == "two-partitions\n"


def test_topics_in_json_come_with_the_place(run: Run, plain: str) -> None:
    done = run("ls", plain, "--json")
    assert json.loads(done.out) == {"url": plain, "topics": ["plain"]}


def test_topics_are_sorted_and_internal_ones_left_out(run: Run, tmp_path: Path) -> None:
    log = encode_batch([WireRecord(0, 0)])
    store = open_store(Bucket(str(tmp_path), {}))
    for topic in ("b", "a.z", "__internal", "a-1"):
        fill(store, segment(f"{topic}-0-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    assert run("ls", str(tmp_path)).text == "a-1\na.z\nb\n"
    assert run("ls", str(tmp_path), "__internal").code == 0


@pytest.mark.parametrize("topic", TOPICS)
def test_partitions_in_json_are_what_kafka_says(topic: str, run: Run) -> None:
    done = run("ls", str(KAFKA / topic / REMOTE), topic, "--json")
    answer = json.loads(done.out)
    info = json.loads((KAFKA / topic / "topic.json").read_text())
    assert (done.code, done.err) == (0, [])
    assert (answer["topic"], answer["topic_id"]) == (topic, info["topicId"])
    known = [
        {k: v for k, v in row.items() if not k.endswith("timestamp")}
        for row in answer["partitions"]
    ]
    assert known == partitions_of(topic)


def test_the_time_span_is_that_of_the_records(run: Run, plain: str) -> None:
    stamps = [record["timestamp"] for record in expected_records("plain")]
    (row,) = json.loads(run("ls", plain, "plain", "--json").out)["partitions"]
    assert row["first_timestamp"] == stamps[0]
    assert row["max_timestamp"] == max(stamps)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_table_says_what_the_json_says(topic: str, run: Run) -> None:
    url = str(KAFKA / topic / REMOTE)
    heading, *lines = run("ls", url, topic).text.splitlines()
    assert heading.split() == COLUMNS
    answer = json.loads(run("ls", url, topic, "--json").out)
    rows, total = answer["partitions"], answer["total"]
    shown = [line.replace(",", "").split() for line in lines]
    expected = [[_shown(key, row[key]) for key in row] for row in rows]
    if len(rows) > 1:
        sums = [str(total[name]) for name in ("segments", "bytes", "stored_bytes")]
        expected.append(["total", "-", "-", "-", "-", *sums])
    assert shown == expected
    for name in ("segments", "bytes", "stored_bytes"):
        assert total[name] == sum(row[name] for row in rows)


@pytest.mark.parametrize("topic", TOPICS)
def test_segments_are_a_line_each_and_add_up_to_their_partition(
    topic: str, run: Run
) -> None:
    url = str(KAFKA / topic / REMOTE)
    done = run("ls", url, topic, "--segments", "--json")
    assert (done.code, done.err) == (0, [])
    answer = json.loads(done.out)
    whole = json.loads(run("ls", url, topic, "--json").out)
    assert answer["total"] == whole["total"]
    for row in whole["partitions"]:
        mine = [s for s in answer["segments"] if s["partition"] == row["partition"]]
        assert len(mine) == row["segments"]
        assert mine[0]["start_offset"] == row["start_offset"]
        assert max(s["end_offset"] for s in mine) == row["end_offset"]
        assert max(s["max_timestamp"] for s in mine) == row["max_timestamp"]
        for name in ("bytes", "stored_bytes"):
            assert sum(s[name] for s in mine) == row[name]
    heading, *lines = run("ls", url, topic, "--segments").text.splitlines()
    columns = "PARTITION START END LAST BYTES STORED ID"
    assert heading.split() == columns.split()
    ids = [line.split()[-1] for line in lines if line.split()[0] != "total"]
    assert ids == [segment["id"] for segment in answer["segments"]]


@pytest.mark.parametrize("option", [["--segments"], ["--topic-id", "A" * 22]])
def test_what_is_about_one_topic_needs_its_name(
    option: list[str], run: Run, plain: str
) -> None:
    done = run("ls", plain, *option)
    assert (done.code, done.out) == (2, b"")
    assert done.err == [f"tieredfs: invalid argument: {option[0]} needs a TOPIC"]


@pytest.mark.parametrize("layout", ["single-object", "kafka-log"])
def test_what_is_stored_is_what_the_objects_have(
    layout: str, run: Run, tmp_path: Path
) -> None:
    logdir = recorded("epochs", tmp_path / "broker")
    url = str(tmp_path / "archive")
    given: list[str] = []
    if layout == "single-object":
        compressed = ("--plugin-options", '{"compression": "zstd"}')
        assert run("push", str(logdir), url, *compressed).code == 0
        given = [url, "epochs"]
        stored = sum(map(len, files_of(Path(url)).values()))
    else:
        given = [str(logdir), "epochs"]
        ends = ("log", "index", "timeindex", "txnindex", "snapshot")
        stored = sum(
            len(data)
            for name, data in files_of(logdir).items()
            if name.startswith("epochs-0/") and name.endswith(ends)
        )
    total = json.loads(run("ls", *given, "--json").out)["total"]
    assert total["stored_bytes"] == stored
    assert total["bytes"] != stored


class TestALogThatCannotBeRead:
    @pytest.fixture
    def damaged(self, three: str, tmp_path: Path) -> Path:
        """A topic of three partitions; the second has a torn segment at its end."""
        folder = tmp_path / "tier"
        shutil.copytree(three, folder)
        last = max(folder.glob("two-partitions-1-*/*.log"))
        last.write_bytes(last.read_bytes()[:-1])
        return folder

    def test_the_rest_is_listed_and_the_exit_code_comes_at_the_end(
        self, run: Run, damaged: Path, three: str
    ) -> None:
        done = run("ls", str(damaged), "two-partitions")
        assert done.code == 4
        assert len(done.err) == 1
        assert done.err[0].startswith("tieredfs: corrupt ")
        assert "/two-partitions-1-" in done.err[0]
        whole = run("ls", three, "two-partitions").text.splitlines()
        lines = done.text.splitlines()
        assert (lines[1].split(), lines[3].split()) == (
            whole[1].split(),
            whole[3].split(),
        )
        assert lines[2].split()[:6] == ["1", "0", "-", "-", "-", "7"]

    def test_json_has_what_is_known_and_the_error(
        self, run: Run, damaged: Path
    ) -> None:
        done = run("ls", str(damaged), "two-partitions", "--json")
        answer = json.loads(done.out)
        assert [row["end_offset"] for row in answer["partitions"]] == [255, None, 250]
        assert answer["total"]["segments"] == 21
        (said,) = answer["errors"]
        assert said in done.err[0]

    def test_its_segments_are_listed_too(self, run: Run, damaged: Path) -> None:
        done = run("ls", str(damaged), "two-partitions", "--segments", "--json")
        assert done.code == 4
        assert len(json.loads(done.out)["segments"]) == 21

    def test_a_first_record_that_cannot_be_read_costs_its_time_only(
        self, run: Run, three: str, tmp_path: Path
    ) -> None:
        folder = tmp_path / "flipped"
        shutil.copytree(three, folder)
        first = min(folder.glob("two-partitions-1-*/*.log"))
        data = bytearray(first.read_bytes())
        data[100] ^= 0x40
        first.write_bytes(data)
        done = run("ls", str(folder), "two-partitions", "--json")
        assert (done.code, len(done.err)) == (4, 1)
        row = json.loads(done.out)["partitions"][1]
        assert (row["end_offset"], row["first_timestamp"]) == (225, None)

    def test_a_folder_that_may_not_be_read_hides_no_other(self, tmp_path: Path) -> None:
        root = recorded("epochs", tmp_path / "broker")
        for copy in ("epochs-1", "a-0"):
            shutil.copytree(root / "epochs-0", root / copy)
        closed = [root / "epochs-1", root / "a-0"]
        for folder in closed:
            folder.chmod(0)
        try:
            topics = _without_privileges("ls", str(root))
            one = _without_privileges("ls", str(root), "epochs", "--json")
            other = _without_privileges("ls", str(root), "a")
        finally:
            for folder in closed:
                folder.chmod(0o700)  # so that pytest can remove it
        assert (topics.code, topics.text, topics.err) == (0, "a\nepochs\n", [])
        assert (one.code, len(one.err)) == (6, 1)
        assert "/epochs-1/" in one.err[0]
        readable, refused = json.loads(one.out)["partitions"]
        assert (readable["end_offset"], refused["segments"]) == (600, None)
        assert (other.code, len(other.err)) == (6, 1)

    def test_the_most_serious_error_decides_the_exit_code(self, tmp_path: Path) -> None:
        root = recorded("epochs", tmp_path / "broker")
        closed, torn = root / "epochs-0", root / "epochs-1"
        shutil.copytree(closed, torn)
        log = min(torn.glob("*.log"))
        log.write_bytes(log.read_bytes()[:-1])
        closed.chmod(0)
        try:
            done = _without_privileges("ls", str(root), "epochs")
        finally:
            closed.chmod(0o700)  # so that pytest can remove it
        first, second = done.err
        assert first.startswith("tieredfs: permission denied: ")
        assert second.startswith("tieredfs: corrupt ")
        assert done.code == 4

    def test_a_store_that_does_not_answer_ends_it_with_one_error(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, three: str
    ) -> None:
        def fail(_: TieredReader, **_options: object) -> NoReturn:
            raise StorageUnavailableError("no answer")

        monkeypatch.setattr(TieredReader, "segments", fail)
        done = run("ls", three, "two-partitions")
        assert (done.code, done.out, len(done.err)) == (5, b"", 1)


def test_a_topic_that_holds_no_record_has_no_times(run: Run, tmp_path: Path) -> None:
    log = encode_batch(base_offset=0, last_offset=4)
    store = open_store(Bucket(str(tmp_path), {}))
    fill(store, segment("made-0-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    done = run("ls", str(tmp_path), "made")
    assert done.code == 0
    assert done.text.splitlines()[1].split()[:5] == ["0", "0", "5", "-", "-"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_the_same_by_changing_only_the_url(
    kind: str, run: Run, three: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(kind, request, tmp_path)
    fill(open_store(place), files_of(Path(three)))
    given = ("--storage-options", json.dumps(place.storage_options))
    done = run("ls", place.url, "two-partitions", *given)
    assert (done.code, done.err) == (0, [])
    assert done.out == run("ls", three, "two-partitions").out


def test_of_several_topics_of_one_name_the_newest_is_shown_and_one_line_says_so(
    run: Run, tmp_path: Path
) -> None:
    old, new = _two_incarnations(tmp_path)
    done = run("ls", str(tmp_path), "twice", "--json")
    assert json.loads(done.out)["topic_id"] == new
    assert len(done.err) == 1
    assert done.err[0].startswith("tieredfs: warning: ")
    assert old in done.err[0]
    assert new in done.err[0]


@pytest.mark.parametrize("command", ["ls", "cat"])
def test_the_topic_id_chooses_and_then_nothing_is_said(
    command: str, run: Run, tmp_path: Path
) -> None:
    old, new = _two_incarnations(tmp_path)
    outs = set()
    for topic_id in (old, new):
        how = ("--topic-id", topic_id, "--json")
        done = run(command, str(tmp_path), "twice", *how)
        assert (done.code, done.err) == (0, [])
        outs.add(done.out)
    assert len(outs) == 2


def _without_privileges(*arguments: str) -> Outcome:
    """Run the command as one whom the mode of a file binds."""
    program = GIVE_UP_PRIVILEGES + (
        "import sys\nfrom tieredfs.cli import main\nmain(sys.argv[1:])\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, *arguments], capture_output=True, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr.decode().splitlines())


def _two_incarnations(folder: Path) -> tuple[str, str]:
    old, new = "B" * 21 + "A", "C" * 21 + "A"
    store = open_store(Bucket(str(folder), {}))
    for topic_id, stamp in ((old, 1000), (new, 2000)):
        log = encode_batch([WireRecord(0, stamp)])
        fill(store, segment(f"twice-0-{topic_id}", 0, log, name=topic_id))
    return old, new


def _shown(key: str, value: int) -> str:
    if not key.endswith("timestamp"):
        return str(value)
    time = datetime.fromtimestamp(value / 1000, UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z"


@pytest.mark.parametrize("layout", ["kafka-local", "kafka-log", "single-object"])
def test_a_layout_that_is_named_is_not_found_where_nothing_is(
    layout: str, run: Run, tmp_path: Path
) -> None:
    done = run("ls", f"{layout}+{tmp_path}/nothing")
    assert (done.code, done.out, len(done.err)) == (3, b"", 1)
    assert "the store is empty" in done.err[0]


@pytest.mark.parametrize("layout", ["", "kafka-local+"])
def test_a_file_is_not_the_directory_of_a_tier(
    layout: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(b"records")
    done = run("ls", f"{layout}{tmp_path}/a.log")
    assert (done.code, done.out, len(done.err)) == (3, b"", 1)
    assert "it is a file, not the directory of a tier" in done.err[0]


def test_a_wrong_layout_that_is_named_is_4_and_not_an_empty_answer(run: Run) -> None:
    done = run("ls", f"kafka-log+{KAFKA / 'plain' / REMOTE}")
    assert (done.code, done.out, len(done.err)) == (4, b"", 1)
    assert "no object is of this layout" in done.err[0]


def test_a_partition_without_records_has_no_times(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{5:020d}.log").write_bytes(b"")
    done = run("ls", f"kafka-log+{tmp_path}", "t", "--json")
    (row,) = json.loads(done.out)["partitions"]
    assert (row["first_timestamp"], row["max_timestamp"]) == (None, None)


def test_an_empty_url_is_refused_rather_than_taken_for_this_folder(run: Run) -> None:
    done = run("ls", "")
    assert (done.code, len(done.err)) == (2, 1)
    assert "empty" in done.err[0]


@pytest.mark.parametrize("missing", [1, 2, 5])
def test_the_first_time_of_a_log_with_a_hole_is_known(
    missing: int, run: Run, three: str, tmp_path: Path
) -> None:
    """The hole is an error, as for all that reads the log."""
    whole = json.loads(run("ls", three, "two-partitions", "--json").out)
    tier = tmp_path / "tier"
    shutil.copytree(three, tier)
    log = sorted(tier.glob("two-partitions-0-*/*.log"))[missing]
    for file in log.parent.glob(f"{log.stem}*"):
        file.unlink()
    done = run("ls", str(tier), "two-partitions", "--json")
    answer = json.loads(done.out)
    assert [row["first_timestamp"] for row in answer["partitions"]] == [
        row["first_timestamp"] for row in whole["partitions"]
    ]
    assert (done.code, len(answer["errors"])) == (4, 1)
    assert "no segment holds the offsets" in answer["errors"][0]


@pytest.mark.parametrize("filters", ["ignore", "error", "error::UserWarning"])
def test_warnings_are_shown_whatever_python_does_with_others(
    filters: str, tmp_path: Path
) -> None:
    _, new = _two_incarnations(tmp_path)
    env = {"PYTHONWARNINGS": filters}
    done = run_process("ls", str(tmp_path), "twice", "--json", env=env)
    assert (done.code, len(done.err)) == (0, 1)
    assert done.err[0].startswith("tieredfs: warning: ")
    assert json.loads(done.out)["topic_id"] == new
