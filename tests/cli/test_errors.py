"""Errors of the command: one line on stderr, and a stable exit code."""

import io
import logging
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.commands import Outcome, Run, run_process, start_process
from cli.readers import start_program
from support.child_process import GIVE_UP_PRIVILEGES
from support.stores import files_of
from tieredfs.cli.exit_codes import EXIT_CODES
from tieredfs.errors import ErrorKind, StorageUnavailableError
from tieredfs.tier import Tier

FIRST_LOG = "*/00000000000000000000-*.log"
LATER_LOG = "two-partitions-1-*/00000000000000000116-*.log"
FULL = Path("/dev/full")


def check_failure(done: Outcome, code: int, *said: str) -> None:
    """Check that a command failed as promised: in one line, of the promised shape."""
    assert len(done.err) == 1, done.err
    (line,) = done.err
    name, kind, message = line.split(": ", 2)
    assert (name, bool(message)) == ("tieredfs", True)
    assert EXIT_CODES[ErrorKind(kind.replace(" ", "_"))] == code, line
    for part in said:
        assert part in line
    assert done.code == code, line


@pytest.fixture
def damaged(three: str, tmp_path: Path) -> Path:
    """A copy of a tier, to be damaged."""
    folder = tmp_path / "tier"
    shutil.copytree(three, folder)
    return folder


def test_every_kind_of_error_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(ErrorKind)
    assert set(EXIT_CODES.values()) <= {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ErrorKind.INVALID_ARGUMENT, 2),
        (ErrorKind.UNSUPPORTED_OPERATION, 2),
        (ErrorKind.NOT_FOUND, 3),
        (ErrorKind.CORRUPT_DATA, 4),
        (ErrorKind.STORAGE_UNAVAILABLE, 5),
        (ErrorKind.DEADLINE_EXCEEDED, 5),
        (ErrorKind.STORAGE_FULL, 1),
        (ErrorKind.PERMISSION_DENIED, 6),
    ],
)
def test_the_promised_exit_codes_do_not_change(kind: ErrorKind, code: int) -> None:
    assert EXIT_CODES[kind] == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing command"),
        (["cache"], "invalid argument: Missing command"),
        (["demo", "--url", ""], "the URL of a store is empty"),
        (["ls", ""], "the URL of a store is empty"),
        (["push", "", "URL"], "the URL of a store is empty"),
        (["pull", "URL", ""], "the URL of a store is empty"),
        (["nosuch"], "No such command 'nosuch'"),
        (["ls"], "Missing argument 'URL'"),
        (["cat", "URL"], "Missing argument 'TOPIC'"),
        (["ls", "--nosuch", "URL"], "No such option '--nosuch'"),
        (["ls", "URL", "plain", "more"], "unexpected extra argument"),
        (["cat", "URL", "plain", "--format", "xml"], "'xml' is not one of 'text'"),
        (["cat", "URL", "plain", "--encoding", "x"], "'x' is not one of 'utf8'"),
        (["cat", "URL", "plain", "--limit", "-1"], "--limit"),
        (["cat", "URL", "plain", "--partition", "-1"], "--partition"),
        (["cat", "URL", "plain", "--from", "yesterday"], "'yesterday'"),
        (["cat", "URL", "plain", "--from", "2023-99-99"], "2026-11-01T00:00:00Z"),
        (["cat", "URL", "plain", "--to", "-5"], "'-5'"),
        (["cat", "URL", "plain", "--from", "@"], "'@'"),
        (["cat", "URL", "plain", "--from", "@soon"], "'@soon'"),
        (["cat", "URL", "plain", "--from", "@999999999999999"], "a calendar holds"),
        (["cat", "URL", "plain", "--from", "300", "--to", "200"], "300 is after --to"),
        (
            ["cat", "URL", "plain", "--from", "2026-01-01", "--to", "@1"],
            "--from 2026-01-01T00:00:00+00:00 is after --to 1970-01-01",
        ),
        (["cat", "URL", "plain", "--columns", "nosuch"], "columns nosuch"),
        (["cat", "URL", "plain", "--columns", "x"], "timestamp_type is timestampType"),
        (["cat", "URL", "plain", "--columns", "key,key"], "columns key, key"),
        (["cat", "URL", "plain", "--columns", ""], "choose from key, value"),
        (["cat", "URL", "plain", "--key", "x", "--encoding", "hex"], "is not hex"),
        (["cat", "URL", "plain", "--key", "é", "--encoding", "base64"], "not base64"),
        (["cat", "URL", "plain", "--on-gap", "guess"], "'raise', 'skip'"),
        (["cat", "URL", "plain", "--from", "9" * 5000], "not a time: '9999"),
        (["cat", "URL", "plain", "--from", "20/11/2023"], ", earliest or latest)"),
        (
            ["explain", "URL", "plain", "--to", "20/11/2023"],
            "@1793491200000 or latest",
        ),
        (["cat", "URL", "plain", "--to", "earliest"], "'earliest'"),
        (["cat", "URL", "plain", "--partition", "x"], "'x' is not an integer"),
        (["cat", "URL", "plain", "--limit", "1.5"], "'1.5' is not an integer"),
        (["push", "URL", "URL", "--concurrency", "x"], "'x' is not an integer"),
        (["conformance", "URL", "--seed", "x"], "'x' is not an integer"),
        (["cat", "URL", "plain", "--json", "--format", "text"], "jsonl"),
        (["ls", "URL", "--deadline", "0"], "--deadline"),
        (["ls", "URL", "--deadline", "nan"], "--deadline"),
        (["ls", "URL", "--deadline", "1e300"], "--deadline"),
        (["ls", "URL", "--deadline", "soon"], "--deadline"),
        (["ls", "URL", "--plugin", "kafka-locl"], "did you mean 'kafka-local'"),
        (["ls", "nosuch+file:///x"], "no plugin is called 'nosuch'"),
        (["ls", "kafka-locl+file://URL"], "did you mean 'kafka-local'"),
        (["demo", "--plugin", "kafka-log"], "No such option '--plugin'"),
        (["ls", "kafka-log+URL", "--plugin", "kafka-local"], "the URL names plugin"),
        (["ls", "URL", "--plugin-options", '{"nosuch": 1}'], "no option 'nosuch'"),
        (["ls", "URL", "../x"], "invalid topic name '../x'"),
        (["cat", "URL", "../x"], "invalid topic name '../x'"),
        (["cat", "URL", ".."], "invalid topic name '..'"),
        (["cat", "URL", "a/b"], "invalid topic name 'a/b'"),
        (["ls", "nosuch://x"], "nosuch://x: Protocol not known: nosuch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_2(
    arguments: list[str], said: str, run: Run, plain: str
) -> None:
    done = run(*(argument.replace("URL", plain) for argument in arguments))
    check_failure(done, 2, said)
    assert done.out == b""


@pytest.mark.parametrize("option", ["--storage-options", "--plugin-options"])
@pytest.mark.parametrize(
    "value",
    ['{"secret": "hunter2"', '["hunter2"]', "hunter2", "[" * 100_000, "9" * 5000],
    ids=lambda value: value[:20],
)
def test_json_that_is_none_is_2_and_is_not_shown(
    option: str, value: str, run: Run, plain: str
) -> None:
    done = run("ls", plain, option, value)
    check_failure(done, 2, option, "not")
    assert "hunter2" not in done.err[0]


@pytest.mark.parametrize(
    "options",
    [
        '{"config_kwargs": "hunter2hunter2"}',
        '{"secret": "hunter2hunter2", "client_kwargs": {"nosuch": 1}}',
        '{"key": 1, "secret": "hunter2hunter2", "endpoint_url": "http://127.0.0.1:9"}',
    ],
)
def test_storage_options_that_the_client_cannot_use_are_2_and_are_not_shown(
    options: str, run: Run
) -> None:
    done = run("ls", "s3://bucket/x", "--storage-options", options, "--deadline", "1")
    check_failure(done, 2, "s3://bucket/x")
    assert "hunter2" not in done.err[0]


def test_a_url_shows_no_password_in_an_error(run: Run) -> None:
    done = run("ls", "s3://key:hunter2@bucket/x", "--deadline", "1")
    assert done.code in {2, 6}
    assert "hunter2" not in "".join(done.err)


def test_a_filesystem_whose_package_is_missing_is_2_with_the_line_that_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gcsfs", "gcsfs.core"):  # another test may have brought them
        monkeypatch.setitem(sys.modules, name, None)
    ours = "tieredfs.objects.backends.gcs.client"
    monkeypatch.delitem(sys.modules, ours, raising=False)
    done = run("ls", "gs://bucket/x")
    check_failure(done, 2, "gs://bucket/x", "pip install 'tieredfs[gcs]'")


def test_what_a_client_logs_is_not_shown(
    run: Run, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(_: object) -> list[str]:
        logging.getLogger("some.client").warning("many\nlines")
        raise StorageUnavailableError("the store is gone")

    # Without the handlers that pytest has put there.
    monkeypatch.setattr(logging.getLogger("some"), "propagate", False)
    monkeypatch.setattr(Tier, "topics", warn)
    before = logging.lastResort
    check_failure(run("ls", plain), 5, "the store is gone")
    assert logging.lastResort is before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "/nowhere/at-all"], "not found: /nowhere/at-all"),
        (["ls", "memory://nowhere-at-all"], "not found: memory://nowhere-at-all"),
        (["ls", "URL", "nosuch"], "not found: topic 'nosuch' in "),
        (["cat", "URL", "nosuch"], "not found: topic 'nosuch' in "),
        (["cat", "URL", "plain", "--topic-id", "A" * 22], "not found: topic 'plain'"),
        (["cat", "URL", "plain", "--partition", "7"], "partition 7 of 'plain'"),
        (["cat", "URL", "plain", "--from", "600"], "offset 600 is out of range"),
        (["cat", "URL", "plain", "--from", "9" * 20], "9 is out of range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_there_is_3(
    arguments: list[str], said: str, run: Run, plain: str
) -> None:
    done = run(*(argument.replace("URL", plain) for argument in arguments))
    check_failure(done, 3, said)
    assert done.out == b""


def flip_record(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 0x40
    path.write_bytes(data)


def claim_two_gib(path: Path) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 8, (1 << 31) - 1)
    path.write_bytes(data)


def cut_batch(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip_record, claim_two_gib])
def test_a_damaged_segment_is_4_and_is_named(
    damage: Callable[[Path], None], run: Run, damaged: Path
) -> None:
    (log,) = damaged.glob(f"two-partitions-1-{FIRST_LOG}")
    damage(log)
    done = run("cat", str(damaged), "two-partitions", "--partition", "1")
    check_failure(done, 4, f"{log.parent.name}/{log.stem}")
    assert done.out == b""


@pytest.mark.parametrize("form", ["text", "jsonl", "arrow", "parquet"])
def test_damage_after_some_records_is_4_in_every_format(
    form: str, damaged: Path
) -> None:
    (log,) = damaged.glob(LATER_LOG)
    flip_record(log)
    how = ("--format", form, "--encoding", "hex")
    done = run_process("cat", str(damaged), "two-partitions", *how)
    check_failure(done, 4, log.stem)


def test_a_parquet_file_that_an_error_cut_short_does_not_look_whole(
    damaged: Path,
) -> None:
    (log,) = damaged.glob(LATER_LOG)
    flip_record(log)
    done = run_process("cat", str(damaged), "two-partitions", "--format", "parquet")
    assert done.code == 4
    with pytest.raises((pa.ArrowException, OSError)):
        pq.read_table(io.BytesIO(done.out))


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("form", ["text", "jsonl", "arrow", "parquet"])
def test_output_that_cannot_be_written_is_1_and_one_line(form: str, three: str) -> None:
    how = ("--format", form, "--encoding", "hex")
    with FULL.open("wb") as full:
        arguments = ("cat", three, "two-partitions", *how)
        with start_process(*arguments, stdout=full.fileno()) as process:
            _, err = process.communicate()
    check_failure(
        Outcome(process.returncode, b"", err.decode().splitlines()), 1, "No space left"
    )


def test_records_before_the_damage_are_whole_lines(run: Run, damaged: Path) -> None:
    (log,) = damaged.glob(LATER_LOG)
    flip_record(log)
    how = ("--partition", "1", "--encoding", "hex")
    done = run("cat", str(damaged), "two-partitions", *how)
    check_failure(done, 4, log.stem)
    assert done.out == b"" or done.out.endswith(b"\n")
    shown = [int(line.split(b"\t")[1]) for line in done.out.splitlines()]
    assert shown == list(range(len(shown)))


@pytest.mark.parametrize("damage", [claim_two_gib, cut_batch])
def test_ls_of_a_log_whose_end_is_damaged_is_4(
    damage: Callable[[Path], None], run: Run, damaged: Path
) -> None:
    for log in damaged.glob("two-partitions-1-*/*.log"):
        damage(log)
    done = run("ls", str(damaged), "two-partitions")
    check_failure(done, 4, "/two-partitions-1-")


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_of_zeros_is_4_and_is_named(
    suffix: str, run: Run, damaged: Path
) -> None:
    (index,) = damaged.glob(f"two-partitions-2-*/00000000000000000000-*.{suffix}")
    index.write_bytes(bytes(index.stat().st_size))
    done = run("ls", str(damaged), "two-partitions")
    check_failure(done, 4, f"{index.parent.name}/{index.stem}")


def test_a_folder_of_strangers_files_is_4_and_says_what_is_there(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    done = run("ls", str(tmp_path))
    check_failure(done, 4, str(tmp_path), "holiday.jpg", "kafka-local")


def test_a_strangers_name_cannot_steer_the_terminal_or_break_the_line(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a\x1b[2J\n\x9bb").write_bytes(b"")
    done = run("ls", str(tmp_path))
    check_failure(done, 4, "a\\x1b[2J \\x9bb")
    assert done.err[0].isprintable()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("OSError(5, 'Input/output error')", "error: Input/output error"),
        ("OSError(28, 'No space left', 'a/b')", "error: a/b: No space left"),
        ("OSError('just words')", "error: just words"),
        ("PermissionError(1, 'Not so', 'a')", "permission denied: a: Not so"),
        ("TieredFSError('no kind of its own')", "error: no kind of its own"),
        ("ClosedError('the store')", "closed: the store"),
    ],
)
def test_an_error_of_no_command_in_particular_has_the_shape_of_all(
    error: str, line: str, plain: str
) -> None:
    before = (
        "import tieredfs.tier\n"
        "from tieredfs import ClosedError, TieredFSError\n"
        "def failing(*_):\n"
        f"    raise {error}\n"
        "tieredfs.tier.Tier.topics = failing\n"
    )
    with start_program(before, "ls", plain) as process:
        _, err = process.communicate(timeout=60)
    assert err.decode() == f"tieredfs: {line}\n"


def test_a_damaged_tier_is_left_as_it_is(run: Run, damaged: Path) -> None:
    (log,) = damaged.glob(f"two-partitions-1-{FIRST_LOG}")
    flip_record(log)
    before = files_of(damaged)
    run("cat", str(damaged), "two-partitions")
    assert files_of(damaged) == before


def test_a_file_that_may_not_be_read_is_6(damaged: Path) -> None:
    program = GIVE_UP_PRIVILEGES + (
        "import sys\n"
        "from tieredfs.cli import main\n"
        "main(['cat', sys.argv[1], 'two-partitions', '--limit', '1000'])\n"
    )
    (log,) = damaged.glob(f"two-partitions-1-{FIRST_LOG}")
    log.chmod(0)
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, str(damaged)], capture_output=True, check=False
    )
    said = ended.stderr.decode().splitlines()
    check_failure(Outcome(ended.returncode, ended.stdout, said), 6, log.name)


def test_a_process_ends_with_the_code_and_one_line(plain: str) -> None:
    check_failure(run_process("ls", plain, "nosuch"), 3, "not found: topic 'nosuch'")
    check_failure(run_process("ls", plain, "../x"), 2, "invalid topic name")


def test_a_message_that_begins_with_the_word_of_its_kind_has_its_kind_before_it() -> (
    None
):
    done = run_process("ls", "/", "--plugin", "os:path")
    check_failure(done, 2, "plugin 'os:path' is not")
