"""The command on a terminal, in a pipe, and asked about itself."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import Run, run_process, run_with_terminal, start_process

STDOUT, STDERR = frozenset({"stdout"}), frozenset({"stderr"})
TOPIC = "two-partitions"
VERBS = ["cat", "demo", "ls", "plugins", "pull", "push", "report", "verify"]


def cat(url: str, form: str = "jsonl") -> tuple[str, ...]:
    return "cat", url, TOPIC, "--format", form, "--encoding", "hex"


@pytest.mark.parametrize("form", ["jsonl", "arrow"])
def test_a_bar_is_shown_on_a_terminal_while_records_go_to_a_pipe(
    form: str, three: str
) -> None:
    done, seen = run_with_terminal(*cat(three, form), on=STDERR)
    assert done.code == 0
    assert done.out == run_process(*cat(three, form)).out
    assert TOPIC in seen
    assert "━" in seen


def test_the_bar_is_gone_when_the_work_is_done(three: str) -> None:
    _, seen = run_with_terminal(*cat(three), on=STDERR)
    assert seen.endswith(("\x1b[2K", "\x1b[?25h"))


def test_ls_shows_on_a_terminal_how_many_partitions_it_has_looked_at(
    three: str,
) -> None:
    done, seen = run_with_terminal("ls", three, TOPIC, on=STDERR)
    assert done.out == run_process("ls", three, TOPIC).out
    assert TOPIC in seen
    assert "3/3" in seen


def test_a_table_is_whole_whatever_terminal_there_is_said_to_be(three: str) -> None:
    table = run_process("ls", three, TOPIC, "--segments")
    # As build servers set both: colours, on a terminal that can do nothing.
    dumb = {"TERM": "dumb", "FORCE_COLOR": "1"}
    done = run_process("ls", three, TOPIC, "--segments", env=dumb)
    assert done.code == 0
    assert re.sub(r"\x1b\[[0-9;]*m", "", done.text) == table.text


@pytest.mark.parametrize("verb", ["cat", "ls"])
def test_no_bar_is_shown_in_pipes(verb: str, three: str) -> None:
    done = run_process(*cat(three)) if verb == "cat" else run_process(verb, three)
    assert (done.code, done.err) == (0, [])


def test_no_bar_is_shown_when_the_records_are_on_the_terminal(three: str) -> None:
    both = STDOUT | STDERR
    done, seen = run_with_terminal(*cat(three), "--limit", "2", on=both)
    assert done.code == 0
    assert len(seen.splitlines()) == 2
    assert [json.loads(line)["offset"] for line in seen.splitlines()] == [0, 1]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_binary_is_refused_on_a_terminal(form: str, three: str) -> None:
    done, seen = run_with_terminal(*cat(three, form), on=STDOUT)
    assert (done.code, seen) == (2, "")
    reason = f"--format {form} is not for a terminal: redirect it to a file"
    assert done.err == [f"tieredfs: invalid argument: {reason}"]


def test_text_is_not_refused_on_a_terminal(three: str) -> None:
    done, seen = run_with_terminal(*cat(three, "text"), "--limit", "3", on=STDOUT)
    assert (done.code, done.err) == (0, [])
    assert len(seen.splitlines()) == 3


def test_tables_have_no_escape_sequences_in_a_pipe(three: str) -> None:
    assert b"\x1b" not in run_process("ls", three, TOPIC).out


@pytest.mark.parametrize("form", ["text", "jsonl", "arrow", "parquet"])
def test_a_reader_that_has_had_enough_ends_the_command_quietly(
    form: str, plain: str
) -> None:
    how = ("--format", form, "--encoding", "hex")
    with start_process("cat", plain, "plain", *how) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(20)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["cat", "--help"], ["plugins"], ["ls", "URL"]], ids=str
)
def test_a_reader_that_was_never_there_ends_the_command_quietly(
    arguments: list[str], three: str
) -> None:
    its_end, ours = os.pipe()
    os.close(its_end)
    try:
        words = (three if word == "URL" else word for word in arguments)
        with start_process(*words, stdout=ours) as process:
            _, err = process.communicate(timeout=20)
    finally:
        os.close(ours)
    assert (process.returncode, err) == (0, b"")


def test_nothing_but_records_is_on_standard_output(plain: str) -> None:
    done = run_process("cat", plain, "plain", "--json")
    assert len(done.err) == 1  # not all of it is UTF-8
    assert [json.loads(line)["offset"] for line in done.out.splitlines()] == list(
        range(599)
    )


def test_the_installed_script_and_the_module_are_the_same(three: str) -> None:
    arguments = ["ls", three, TOPIC, "--json"]
    module = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "tieredfs", *arguments], capture_output=True, check=True
    )
    assert module.stdout == run_process(*arguments).out


def test_the_version_is_that_of_the_package(run: Run) -> None:
    done = run("--version")
    version = importlib.metadata.version("tieredfs")
    assert (done.code, done.text, done.err) == (0, f"tieredfs {version}\n", [])


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_commands(option: str, run: Run) -> None:
    done = run(option)
    assert (done.code, done.err) == (0, [])
    _, _, commands = done.text.partition("Commands:\n")
    assert {line.split()[0] for line in commands.splitlines()} >= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help_and_takes_json(verb: str, run: Run) -> None:
    done = run(verb, "--help")
    assert (done.code, done.err) == (0, [])
    assert done.text.startswith(f"Usage: tieredfs {verb} ")
    assert "--json" in done.text


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("ls", ["--storage-options", "--deadline", "--plugin", "--plugin-options"]),
        ("cat", ["--storage-options", "--deadline", "--plugin", "--plugin-options"]),
        ("ls", ["--no-cache"]),
        ("cat", ["--no-cache"]),
        ("demo", ["--storage-options", "--deadline"]),
    ],
)
def test_every_command_that_reaches_a_store_takes_its_options(
    verb: str, options: list[str], run: Run
) -> None:
    words = run(verb, "--help").text.split()
    assert set(options) <= set(words)


def test_help_needs_no_client_and_no_spark(tmp_path: Path) -> None:
    for name in ("s3fs", "pyspark", "boto3", "botocore"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    done = run_process("ls", "--help", env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.err) == (0, [])
