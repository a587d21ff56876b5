"""``tieredfs report``: what it draws, and how it ends."""

import json
import os
import stat
from pathlib import Path

import pytest

from cli.commands import Run, run_process, run_with_terminal, start_process
from servers import Bucket
from support.damage import flipped
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import ID, log_of, native, push_all, recorded, source_of
from support.segments import segment
from support.stores import files_of, fill, open_store

LEADER_CHANGES = str(KAFKA / "leader-changes" / REMOTE)
COMPACTED = str(KAFKA / "compacted" / LOCAL)
STDOUT = frozenset({"stdout"})
WIDE = {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}


def tier_with(root: Path, *starts: int) -> str:
    """Make a tier of a topic whose segments of ten offsets begin at these."""
    files: dict[str, bytes] = {}
    for start in starts:
        files |= segment(f"t-0-{ID}", start, log_of(start, 10))
    fill(open_store(Bucket(str(root), {})), files)
    return str(root)


def bars(text: str, symbols: str) -> list[str]:
    """Return the lines that are only made of these."""
    return [line for line in text.splitlines() if line and not set(line) - set(symbols)]


def test_the_overlap_of_a_change_of_leaders_is_seen_and_said() -> None:
    done = run_process("report", LEADER_CHANGES, env=WIDE)
    assert (done.code, done.err) == (0, [])
    above, below = bars(done.text, "█░ ")
    # 413 offsets in 98 columns: the overlap is the offsets 4,339 to 4,543.
    shared = range(round(48 * 98 / 413), round(253 * 98 / 413))
    assert {above[2 + at] for at in shared} == {"█"}
    assert {below[2 + at] for at in shared[1:-1]} == {"░"}
    assert below.count("░") == pytest.approx(len(shared), abs=1)
    assert "overlap: 205 offsets: 4,339 to 4,543 in 2 segments" in done.text
    assert "served by the one from 4,291" in done.text
    assert "leader epochs: 2 from 4,291; 3 from 4,662" in done.text


def test_the_holes_of_a_cleaned_log_are_seen_and_said() -> None:
    done = run_process("report", COMPACTED, env=WIDE)
    assert (done.code, done.err) == (0, [])
    (bar,) = bars(done.text, "·▁▂▃▄▅▆▇█ ")
    # The last segment was not cleaned: 28 offsets of 1,425.
    assert bar.count("█") == 2
    assert bar.endswith("██")
    assert len(set(bar)) > 4
    assert "holes: 1,055 offsets of 1,425 (74 %) have no record any more" in done.text


def test_missing_offsets_are_seen_and_said_and_the_exit_code_is_that_of_the_error(
    tmp_path: Path,
) -> None:
    done = run_process("report", tier_with(tmp_path, 0, 20), "t", env=WIDE)
    assert done.code == 4
    (bar,) = bars(done.text, "█× ")
    assert bar.count("×") == pytest.approx(98 / 3, abs=1)
    assert "missing: 10 offsets: 10 to 19" in done.text
    (error,) = done.err
    assert error.startswith("tieredfs: corrupt data: ")
    assert "10 to 19" in error


def test_a_single_missing_offset_of_many_is_seen(tmp_path: Path) -> None:
    url = tier_with(tmp_path, *range(0, 5000, 10), *range(5001, 9001, 10))
    done = run_process("report", url, "t", env=WIDE)
    assert "missing: 1 offset: 5,000" in done.text
    marks = [line for line in done.text.splitlines() if "×" in line and "╵" in line]
    assert marks[0].index("×") == 2 + 98 * 5000 // 9001
    assert "\n  up to 10 segments begin in a column\n" in done.text


@pytest.mark.parametrize("columns", [40, 60, 100, 160])
def test_no_bar_is_wider_than_the_terminal(columns: int) -> None:
    done = run_process("report", COMPACTED, env={**WIDE, "COLUMNS": str(columns)})
    (bar,) = bars(done.text, "·▁▂▃▄▅▆▇█ ")
    assert len(bar) == columns
    labels = [line for line in done.text.splitlines() if "└" in line]
    assert labels
    assert all(len(line) <= columns for line in labels)


def test_colours_are_for_terminals() -> None:
    _, seen = run_with_terminal("report", LEADER_CHANGES, on=STDOUT)
    assert "\x1b[" in seen
    assert "\x1b[" not in run_process("report", LEADER_CHANGES).text


def test_an_encoding_without_blocks_gets_other_characters() -> None:
    done = run_process("report", COMPACTED, env={**WIDE, "PYTHONIOENCODING": "ascii"})
    assert done.code == 0
    (bar,) = bars(done.text, ".-=# ")
    assert len(set(bar)) > 3
    assert r"\u25" not in done.text


def test_without_a_topic_every_topic_is_drawn(run: Run, tmp_path: Path) -> None:
    for topic in ("plain", "txn"):
        fill(open_store(Bucket(str(tmp_path), {})), files_of(KAFKA / topic / REMOTE))
    done = run("report", str(tmp_path))
    assert done.code == 0
    assert "plain-0  offsets" in done.text
    assert "txn-0  offsets" in done.text
    told = json.loads(run("report", str(tmp_path), "--json").out)
    assert [topic["topic"] for topic in told["topics"]] == ["plain", "txn"]


def test_programs_get_every_figure(run: Run) -> None:
    done = run("report", LEADER_CHANGES, "leader-changes", "--json")
    assert (done.code, done.err) == (0, [])
    told = json.loads(done.out)
    assert (told["url"], told["errors"]) == (LEADER_CHANGES, [])
    ((partition,),) = (topic["partitions"] for topic in told["topics"])
    ((overlap,), epochs) = partition["overlaps"], partition["leader_epochs"]
    assert overlap.pop("served_by") == "eM1Dk2yLS7-OkzxEPwl-lA"
    assert overlap == {"start_offset": 4339, "end_offset": 4544, "segments": 2}
    assert epochs == [
        {"epoch": 2, "start_offset": 4291, "end_offset": 4662},
        {"epoch": 3, "start_offset": 4662, "end_offset": 4704},
    ]
    rest = {k: partition[k] for k in partition.keys() - {"overlaps", "leader_epochs"}}
    assert rest == {
        "partition": 0,
        "start_offset": 4291,
        "end_offset": 4704,
        "first_timestamp": 1720000742979,
        "max_timestamp": 1720000807162,
        "segments": 3,
        "bytes": 270823,
        "stored_bytes": 273072,
        "emptied_offsets": 0,
        "gaps": [],
    }


def test_figures_agree_with_those_of_ls(run: Run, three: str) -> None:
    (topic,) = json.loads(run("report", three, "--json").out)["topics"]
    listed = json.loads(run("ls", three, "two-partitions", "--json").out)
    for drawn, row in zip(topic["partitions"], listed["partitions"], strict=True):
        assert {name: drawn[name] for name in row} == row


def test_a_damaged_segment_hides_nothing_else(run: Run, tmp_path: Path) -> None:
    logdir, tier = recorded("compacted", tmp_path / "broker"), tmp_path / "tier"
    push_all(source_of(logdir), native(Bucket(str(tier), {})))
    victim = sorted(tier.rglob("*.segment"))[1]
    victim.write_bytes(flipped(victim.read_bytes(), 70))
    done = run("report", str(tier))
    assert done.code == 4
    assert "1 error: see below" in done.text
    assert "compacted-0  offsets 0 to 1,396" in done.text
    (error,) = done.err
    assert victim.name in error


def test_logs_that_are_elsewhere_are_not_read_and_their_holes_not_known(
    run: Run, in_s3: Bucket, credentials: tuple[str, str]
) -> None:
    done = run("report", in_s3.url, *credentials)
    assert (done.code, done.err) == (0, [])
    assert done.text.count("holes: not known") == 3
    assert bars(done.text, "▒ ")
    assert not bars(done.text, "█ ")
    (topic,) = json.loads(run("report", in_s3.url, *credentials, "--json").out)[
        "topics"
    ]
    assert [one["emptied_offsets"] for one in topic["partitions"]] == [None] * 3
    assert [one["end_offset"] for one in topic["partitions"]] == [255, 225, 250]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nosuch"], 3),
        (["--topic-id", ID], 2),
        (["--wide"], 2),
        (["--html", "."], 2),
        (["--html", "nosuch/page.html"], 2),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line(words: list[str], code: int, run: Run) -> None:
    done = run("report", LEADER_CHANGES, *words)
    assert (done.code, done.out, len(done.err)) == (code, b"", 1)


def test_where_nothing_is_there_is_nothing_to_draw(run: Run, tmp_path: Path) -> None:
    done = run("report", str(tmp_path / "no"), "--html", str(tmp_path / "page.html"))
    assert (done.code, len(done.err)) == (3, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error() -> None:
    with (
        Path("/dev/full").open("wb") as full,
        start_process("report", LEADER_CHANGES, stdout=full.fileno()) as process,
    ):
        _, err = process.communicate()
    assert process.returncode == 1
    assert b"standard output is incomplete" in err


class TestThePageThatIsWritten:
    def test_it_is_named_and_nothing_else_is_left_beside_it(
        self, run: Run, tmp_path: Path
    ) -> None:
        page = tmp_path / "page.html"
        done = run("report", LEADER_CHANGES, "--html", str(page))
        assert (done.code, done.err) == (0, [])
        said = f"{page}: 1 topic, 1 partition, 3 segments, "
        assert done.text.startswith(said)
        assert list(tmp_path.iterdir()) == [page]
        assert page.read_text().startswith("<!DOCTYPE html>")

    def test_it_can_be_read_by_those_whom_the_umask_lets(
        self, run: Run, tmp_path: Path
    ) -> None:
        page = tmp_path / "page.html"
        before = os.umask(0o027)
        try:
            run("report", LEADER_CHANGES, "--html", str(page))
        finally:
            os.umask(before)
        assert stat.S_IMODE(page.stat().st_mode) == 0o640

    def test_it_takes_the_place_of_the_last_one_with_its_permissions(
        self, run: Run, tmp_path: Path
    ) -> None:
        page, link = tmp_path / "page.html", tmp_path / "link.html"
        page.write_text("old")
        page.chmod(0o604)
        link.symlink_to(page)
        assert run("report", LEADER_CHANGES, "--html", str(link)).code == 0
        assert link.is_symlink()
        assert "leader-changes" in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o604

    def test_the_last_one_stays_where_the_report_cannot_be_made(
        self, run: Run, tmp_path: Path
    ) -> None:
        page = tmp_path / "page.html"
        page.write_text("old")
        assert run("report", LEADER_CHANGES, "nosuch", "--html", str(page)).code == 3
        assert page.read_text() == "old"
        assert list(tmp_path.iterdir()) == [page]

    def test_it_goes_into_a_pipe_as_it_is(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with start_process("report", LEADER_CHANGES, "--html", str(pipe)) as process:
            text = pipe.read_text()
            process.communicate()
        assert process.returncode == 0
        assert text.endswith("</html>\n")
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_json_comes_with_it(self, run: Run, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        done = run("report", LEADER_CHANGES, "--json", "--html", str(page))
        assert json.loads(done.out)["url"] == LEADER_CHANGES
        assert page.exists()

    def test_what_is_wrong_is_on_it_and_in_the_exit_code(
        self, run: Run, tmp_path: Path
    ) -> None:
        page = tmp_path / "page.html"
        url = tier_with(tmp_path / "tier", 0, 20)
        done = run("report", url, "--html", str(page))
        assert done.code == 4
        assert done.err[0].removeprefix("tieredfs: corrupt data: ") in page.read_text()
