"""``tieredfs report``: what it draws, and how it ends."""

import errno
import json
import os
import re
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


@pytest.fixture(scope="module")
def long_tier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tier of hundreds of segments, where one offset is missing."""
    root = tmp_path_factory.mktemp("tier")
    return tier_with(root, *range(0, 5000, 10), *range(5001, 9001, 10))


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


def test_a_single_missing_offset_of_many_is_seen(long_tier: str) -> None:
    done = run_process("report", long_tier, "t", env=WIDE)
    assert "missing: 1 offset: 5,000" in done.text
    marks = [line for line in done.text.splitlines() if "×" in line and "╵" in line]
    assert marks[0].index("×") == 2 + 98 * 5000 // 9001
    assert "\n  up to 10 segments begin in a column\n" in done.text


@pytest.mark.parametrize("columns", [10, 20, 40, 60, 100, 160])
def test_no_bar_is_wider_than_the_terminal(columns: int) -> None:
    done = run_process("report", COMPACTED, env={**WIDE, "COLUMNS": str(columns)})
    (bar,) = bars(done.text, "·▁▂▃▄▅▆▇█ ")
    assert len(bar) == columns
    labels = [line for line in done.text.splitlines() if "└" in line]
    assert labels or columns < 40
    assert all(len(line) <= columns for line in labels)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int, long_tier: str) -> None:
    for words in ([LEADER_CHANGES], [COMPACTED], [long_tier, "t"]):
        done = run_process("report", *words, env={**WIDE, "COLUMNS": str(columns)})
        assert max(map(len, done.text.splitlines())) <= columns


def test_epochs_have_colours_that_a_terminal_of_eight_colours_tells_apart(
    tmp_path: Path,
) -> None:
    files: dict[str, bytes] = {}
    for epoch, start in enumerate(range(0, 60, 10)):
        begun = [(n, 10 * n) for n in range(epoch + 1)]
        log = log_of(start, 10, epoch=epoch)
        files |= segment(f"t-0-{ID}", start, log, epochs=begun)
    fill(open_store(Bucket(str(tmp_path), {})), files)
    done, seen = run_with_terminal(
        "report", str(tmp_path), "t", on=STDOUT, env={"TERM": "xterm"}
    )
    assert done.code == 0
    bar = next(line for line in seen.splitlines() if "█" in line)
    assert len(set(re.findall(r"\x1b\[(\d+)m█", bar))) == 6


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
    first, *_ = listed = partition["segment_list"]
    assert [one["start_offset"] for one in listed] == [4291, 4339, 4635]
    assert first["served"] == [{"start_offset": 4291, "end_offset": 4544}]
    lists = {"overlaps", "leader_epochs", "segment_list"}
    rest = {k: partition[k] for k in partition.keys() - lists}
    assert rest == {
        "partition": 0,
        "start_offset": 4291,
        "end_offset": 4704,
        "first_timestamp": 1720000742979,
        "max_timestamp": 1720000807162,
        "segments": 3,
        "unreadable_segments": 0,
        "bytes": 270823,
        "stored_bytes": 273072,
        "emptied_offsets": 0,
        "gaps": [],
    }


def test_programs_get_every_segment_and_where_its_holes_are(run: Run) -> None:
    done = run("report", COMPACTED, "--json")
    (partition,) = json.loads(done.out)["topics"][0]["partitions"]
    listed = partition["segment_list"]
    assert len(listed) == partition["segments"] == 7
    rows = json.loads(run("ls", COMPACTED, "compacted", "--segments", "--json").out)
    for one, row in zip(listed, rows["segments"], strict=True):
        assert {"partition": 0, **one} == {**one, **row}
    lost = [
        hole["end_offset"] - hole["start_offset"] - hole["records"]
        for one in listed
        for hole in one["holes"]
    ]
    assert sum(lost) == partition["emptied_offsets"] == 1055
    last = listed[-1]
    assert (last["records"], last["holes"]) == (28, [])
    assert last["leader_epochs"] == [
        {"epoch": 0, "start_offset": 1397, "end_offset": 1425}
    ]


def test_programs_get_each_gap_as_an_error(run: Run, tmp_path: Path) -> None:
    done = run("report", tier_with(tmp_path, 0, 20, 40), "t", "--json")
    told = json.loads(done.out)
    ((partition,),) = (topic["partitions"] for topic in told["topics"])
    assert done.code == 4
    assert len(partition["gaps"]) == len(told["errors"]) == len(done.err) == 2


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


def test_of_a_damaged_manifest_it_is_said_what_is_not_known(
    run: Run, tmp_path: Path
) -> None:
    logdir, tier = recorded("compacted", tmp_path / "broker"), tmp_path / "tier"
    push_all(source_of(logdir), native(Bucket(str(tier), {})))
    victim = sorted(tier.rglob("*.segment"))[1]
    victim.write_bytes(flipped(victim.read_bytes(), -60))
    done = run("report", str(tier))
    assert done.code == 4
    said = "holes: not known: 1 of 6 segments has no known number of records"
    assert said in done.text
    said = "leader epochs: 0 from 0; not known from 386; 0 from 766"
    assert said in done.text


def test_a_segment_that_is_cut_is_drawn_as_missing_among_the_others(
    run: Run, tmp_path: Path
) -> None:
    logdir, tier = recorded("compacted", tmp_path / "broker"), tmp_path / "tier"
    push_all(source_of(logdir), native(Bucket(str(tier), {})))
    victim = sorted(tier.rglob("*.segment"))[1]
    victim.write_bytes(victim.read_bytes()[:100])
    page = tmp_path / "page.html"
    done = run("report", str(tier))
    assert done.code == 4
    assert "compacted-0  offsets 0 to 1,396" in done.text
    assert "5 segments and 1 that cannot be read" in done.text
    assert "missing: 380 offsets: 386 to 765" in done.text
    (bar,) = bars(done.text, "·▁▂▃▄▅▆▇█× ")
    assert bar.count("×") == pytest.approx(380 * (len(bar) - 2) / 1397, abs=1)
    (error,) = done.err
    assert victim.name in error
    assert run("report", str(tier), "--html", str(page)).code == 4
    assert page.read_text().count('class="block e0 served"><title>segment from') == 5
    assert "<title>missing: 386 to 765</title>" in page.read_text()


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
        (["--html", "-", "--json"], 2),
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


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_reader_of_the_page_that_has_gone_ends_the_command_quietly(name: str) -> None:
    its_end, ours = os.pipe()
    os.close(its_end)
    try:
        words = ("report", LEADER_CHANGES, "--html", name)
        with start_process(*words, stdout=ours) as process:
            _, err = process.communicate(timeout=60)
    finally:
        os.close(ours)
    assert (process.returncode, err) == (0, b"")


class TestThePageThatIsWritten:
    def test_a_dash_is_standard_output(self, run: Run, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        run("report", LEADER_CHANGES, "--html", str(page))
        done = run("report", LEADER_CHANGES, "--html", "-")
        assert (done.code, done.out, done.err) == (0, page.read_bytes(), [])

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("", "--html: the name of the file is empty"),
            ("s3://bucket/page.html", "--html: s3://bucket/page.html is not a local"),
            ("s3://user:secret@b/x", "is not a local file"),
        ],
    )
    def test_what_is_not_a_local_file_is_said_to_be_none(
        self, run: Run, name: str, said: str
    ) -> None:
        done = run("report", LEADER_CHANGES, "--html", name)
        assert done.code == 2
        assert said in done.err[0]
        assert "secret" not in done.err[0]

    def test_a_link_that_leads_nowhere_is_named_as_the_user_names_it(
        self, run: Run, tmp_path: Path
    ) -> None:
        link = tmp_path / "link.html"
        link.symlink_to(tmp_path / "no" / "page.html")
        done = run("report", LEADER_CHANGES, "--html", str(link))
        assert done.code == 2
        assert f"--html: {link} is a link" in done.err[0]
        assert list(tmp_path.iterdir()) == [link]

    def test_an_error_names_the_file_and_not_the_one_that_was_staged(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "staged")

        monkeypatch.setattr(os, "fsync", fail)
        page = tmp_path / "page.html"
        done = run("report", LEADER_CHANGES, "--html", str(page))
        assert done.code == 1
        assert done.err == [f"tieredfs: error: {page}: No space left on device"]
        assert list(tmp_path.iterdir()) == []

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
