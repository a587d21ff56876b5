"""``tieredfs ls``: topics, and the partitions of a topic."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Run, expected_records
from logs import KAFKA, KINDS, REMOTE, files_of, fill, make_place, open_store, segment
from servers import Bucket
from wire import WireRecord, encode_batch

COLUMNS = ["PARTITION", "START", "END", "FIRST", "LAST", "SEGMENTS", "BYTES"]
TOPICS = ["plain", "txn", "two-partitions", "epochs"]


def partitions_of(topic: str) -> list[dict[str, Any]]:
    """Return what Kafka's consumer and the files themselves say of a topic."""
    said = json.loads((KAFKA / topic / "consumer.json").read_text())
    found = []
    for number, held in sorted(said["read_uncommitted"].items()):
        logs = list((KAFKA / topic / REMOTE).glob(f"{topic}-{number}-*/*.log"))
        found.append(
            {
                "partition": int(number),
                "start_offset": held["beginningOffset"],
                "end_offset": held["endOffset"],
                "segments": len(logs),
                "bytes": sum(log.stat().st_size for log in logs),
            }
        )
    return found


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
    rows = json.loads(run("ls", url, topic, "--json").out)["partitions"]
    shown = [line.replace(",", "").split() for line in lines]
    assert shown == [[_shown(key, row[key]) for key in row] for row in rows]


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
    assert "there is nothing" in done.err[0]


def test_a_wrong_layout_that_is_named_is_4_and_not_an_empty_answer(run: Run) -> None:
    done = run("ls", f"kafka-log+{KAFKA / 'plain' / REMOTE}")
    assert (done.code, done.out, len(done.err)) == (4, b"", 1)
    assert "nothing of this layout" in done.err[0]


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
