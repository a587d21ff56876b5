"""``tieredfs verify``, as people and programs use it."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from cli.commands import Outcome, Run, run_process, run_with_terminal
from cli.readers import start_program
from servers import Bucket
from support.child_process import GIVE_UP_PRIVILEGES
from support.damage import flipped
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import (
    ID,
    log_of,
    native,
    push_all,
    recorded,
    small,
    source_of,
    write_log,
)
from tieredfs import open_tier

STDERR = frozenset({"stderr"})


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A tier with a topic of three segments."""
    small(tmp_path / "broker")
    push_all(source_of(tmp_path / "broker"), native(Bucket(str(tmp_path / "tier"), {})))
    return str(tmp_path / "tier")


def objects(url: str) -> list[Path]:
    return sorted(Path(url).rglob("*.segment"))


@pytest.mark.parametrize("how", [[], ["--shallow"], ["--deep"]], ids=str)
def test_what_is_whole_is_a_table_and_exit_code_0(
    how: list[str], run: Run, url: str
) -> None:
    done = run("verify", url, *how)
    assert (done.code, done.err) == (0, [])
    assert [line.split() for line in done.text.splitlines()] == [
        ["PARTITION", "TOPIC", "ID", "SEGMENTS", "BYTES", "SUPERSEDED", "PROBLEMS"],
        ["t-0", ID, "3", "656", "0", "0"],
    ]


@pytest.mark.parametrize(
    ("how", "depth"),
    [([], "indexes"), (["--shallow"], "listing"), (["--deep"], "everything")],
)
def test_programs_are_told_what_was_read_and_what_is_wrong(
    how: list[str], depth: str, run: Run, url: str
) -> None:
    objects(url)[1].unlink()
    done = run("verify", url, "t", "--json", *how)
    assert (done.code, done.err) == (4, [])
    told = json.loads(done.out)
    assert (told["url"], told["depth"]) == (url, depth)
    assert told["partitions"] == [
        {
            "partition": "t-0",
            "topic_id": ID,
            "segments": 2,
            "bytes": 434,
            "superseded": 0,
            "problems": 1,
        }
    ]
    assert told["problems"] == [
        {
            "partition": "t-0",
            "topic_id": ID,
            "kind": "corrupt_data",
            "detail": f"{url}: t-0: no segment holds the offsets 10 to 19",
        }
    ]


def test_people_are_told_each_problem_in_a_line(run: Run, url: str) -> None:
    first, second, _ = objects(url)
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(flipped(second.read_bytes(), 70))
    done = run("verify", url, "--deep")
    assert (done.code, done.err) == (4, [])
    _, row, *problems = done.text.splitlines()
    assert row.split() == ["t-0", ID, "2", "444", "0", "2"]
    assert problems[0].startswith("corrupt object: ")
    assert first.name in problems[0]
    assert problems[1].startswith("corrupt batch: ")
    assert second.name in problems[1]


@pytest.mark.parametrize("how", [[], ["--deep"]], ids=str)
def test_a_bad_file_that_segments_share_is_named_once(
    how: list[str], run: Run, tmp_path: Path
) -> None:
    logdir = recorded("epochs", tmp_path / "broker")
    checkpoint = logdir / "epochs-0" / "leader-epoch-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes() + b"more")
    done = run("verify", str(logdir), *how, "--json")
    assert (done.code, done.err) == (4, [])
    told = json.loads(done.out)
    (problem,) = told["problems"]
    assert str(checkpoint) in problem["detail"]
    assert told["partitions"][0]["segments"] > 1
    assert told["partitions"][0]["problems"] == 1


def test_each_depth_sees_what_it_reads(run: Run, url: str) -> None:
    victim = objects(url)[1]
    whole = victim.read_bytes()
    log, end = flipped(whole, 70), flipped(whole, len(whole) - 1)
    for data, codes in ((whole, "000"), (log, "004"), (end, "044"), (whole[1:], "444")):
        victim.write_bytes(data)
        found = [
            run("verify", url, *how).code for how in (["--shallow"], [], ["--deep"])
        ]
        assert "".join(map(str, found)) == codes


@pytest.mark.parametrize(
    "how", [["--shallow", "--deep"], ["--deep", "--shallow"]], ids=str
)
def test_two_depths_are_refused_before_anything_is_read(
    how: list[str], run: Run, url: str
) -> None:
    done = run("verify", url, *how)
    assert (done.code, done.out) == (2, b"")
    said = "--shallow and --deep exclude each other: omit one"
    assert done.err == [f"tieredfs: invalid argument: {said}"]


@pytest.mark.parametrize(
    "path", [Path("txn") / REMOTE, Path("epochs") / LOCAL], ids=str
)
def test_kafkas_own_layouts_are_verified(path: Path, run: Run) -> None:
    done = run("verify", str(KAFKA / path), "--deep", "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out)["problems"] == []


def test_what_is_in_s3(run: Run, tmp_path: Path, s3_bucket: Bucket) -> None:
    small(tmp_path / "broker")
    push_all(source_of(tmp_path / "broker"), native(s3_bucket))
    options = ("--storage-options", json.dumps(s3_bucket.storage_options))
    done = run("verify", s3_bucket.url, *options, "--deep")
    assert (done.code, done.err) == (0, [])


@pytest.mark.parametrize(
    ("words", "code"),
    [(["nosuch"], 3), ([""], 3), (["--plugin", "nosuch"], 2), (["--wide"], 2)],
    ids=str,
)
def test_what_cannot_be_is_one_line(
    words: list[str], code: int, run: Run, url: str
) -> None:
    done = run("verify", url, *words)
    assert (done.code, done.out, len(done.err)) == (code, b"", 1)


def test_where_nothing_is_there_is_nothing_to_verify(run: Run, tmp_path: Path) -> None:
    done = run("verify", str(tmp_path / "no"))
    assert (done.code, len(done.err)) == (3, 1)


def test_a_bar_is_shown_on_a_terminal_and_none_in_a_pipe(url: str) -> None:
    done, seen = run_with_terminal("verify", url, "--deep", on=STDERR)
    assert done.code == 0
    assert "verify" in seen
    done = run_process("verify", url, "--deep")
    assert (done.code, done.err) == (0, [])


def test_segments_that_others_supersede_are_named_and_are_no_problem(
    run: Run, url: str, tmp_path: Path
) -> None:
    """Those of a replica of the partition which rolls its segments elsewhere."""
    logs = {0: log_of(0, 15), 15: log_of(15, 15), 30: b""}
    write_log(tmp_path / "other", logs)
    tier = native(Bucket(url, {}))
    push_all(source_of(tmp_path / "other"), tier)
    done = run("verify", url, "--deep", "--json")
    assert (done.code, done.err) == (0, [])
    told = json.loads(done.out)
    assert told["partitions"][0]["superseded"] == 3
    named = [(Path(o["segment"]).name, Path(o["by"]).name) for o in told["superseded"]]
    begins = [tuple(int(name[21:41]) for name in pair) for pair in named]
    assert begins == [(0, 0), (10, 0), (20, 15)]
    assert told["problems"] == []


def test_an_object_that_may_not_be_read_hides_nothing_else(url: str) -> None:
    closed, damaged, _ = objects(url)
    closed.chmod(0)
    done = _without_privileges("verify", url, "--deep")
    assert (done.code, done.err) == (6, [])
    problems = {s.partition(":")[0] for s in done.text.splitlines() if ": " in s}
    assert problems == {"permission denied"}
    damaged.write_bytes(flipped(damaged.read_bytes(), 70))
    done = _without_privileges("verify", url, "--deep")
    assert (done.code, done.err) == (4, [])
    said = [line.partition(":")[0] for line in done.text.splitlines()]
    assert "permission denied" in said
    assert "corrupt batch" in said


def test_a_topic_that_may_not_be_listed_is_an_error_until_others_are_named(
    url: str,
) -> None:
    open_tier(url).create_topic("closed").append(pa.table({"value": [b"a"]}))
    (Path(url) / "closed").chmod(0)
    done = _without_privileges("verify", url)
    assert (done.code, done.out, len(done.err)) == (6, b"", 1)
    assert f"permission denied: list {url}/closed/" in done.err[0]
    assert _without_privileges("verify", url, "t").code == 0


def _without_privileges(*arguments: str) -> Outcome:
    """Run the command as one whom the mode of a file binds."""
    with start_program(GIVE_UP_PRIVILEGES, *arguments) as process:
        out, err = process.communicate()
    return Outcome(process.returncode, out, err.decode().splitlines())
