"""Every byte that a command has to say is written, or the exit code says otherwise."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

import pytest

from cli.commands import Outcome, Run, start_process, wait_until
from cli.readers import (
    FULL_AFTER,
    MAIN,
    read_when_refused,
    small_pipe,
    small_terminal,
    start_program,
    start_without,
)
from servers import Bucket
from support.damage import flipped
from support.log_directories import native, push_all, small, source_of

FULL = Path("/dev/full")
FORMATS = ["text", "jsonl", "arrow", "parquet"]
# What a container sets, and what a shell does not.
BUFFERED = {"PYTHONUNBUFFERED": ""}
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}

pytestmark = pytest.mark.skipif(
    not FULL.exists(), reason="there is no device that is always full"
)
in_every_format = pytest.mark.parametrize("form", FORMATS)
buffered_or_not = pytest.mark.parametrize(
    "env", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"]
)


def cat(url: str, form: str) -> tuple[str, ...]:
    return "cat", url, "plain", "--format", form, "--encoding", "hex"


def check_incomplete(code: int, err: list[str], why: str) -> None:
    """Check that a command said in one line that its output is not whole."""
    said = f"tieredfs: error: standard output is incomplete: {why}"
    assert (code, err) == (1, [said])


def ended(process: subprocess.Popen[bytes]) -> Outcome:
    """Wait for the end of a process whose standard output is ours."""
    with process:
        _, err = process.communicate(timeout=60)
    return Outcome(process.returncode, b"", err.decode().splitlines())


@pytest.fixture
def logdir(tmp_path: Path) -> str:
    """A log directory with one partition: three closed segments and the active one."""
    small(tmp_path / "broker")
    return str(tmp_path / "broker")


@pytest.fixture
def tier(logdir: str, tmp_path: Path) -> str:
    """The closed segments of ``logdir`` in the native layout."""
    push_all(source_of(Path(logdir)), native(Bucket(str(tmp_path / "tier"), {})))
    return str(tmp_path / "tier")


@pytest.fixture
def damaged(tier: str) -> str:
    """A tier with a damaged segment."""
    path = sorted(Path(tier).rglob("*.segment"))[1]
    path.write_bytes(flipped(path.read_bytes(), 100))
    return tier


@pytest.fixture
def output(tmp_path: Path) -> Iterator[FileIO]:
    """A file for standard output."""
    with FileIO(tmp_path / "output", "wb") as file:
        yield file


COMMANDS = [
    ["ls", "TIER"],
    ["ls", "TIER", "t"],
    ["ls", "TIER", "--json"],
    ["cat", "TIER", "t"],
    ["cat", "TIER", "t", "--json"],
    ["cat", "TIER", "t", "--format", "arrow"],
    ["cat", "TIER", "t", "--format", "parquet"],
    ["push", "LOGDIR", "TIER"],
    ["push", "LOGDIR", "TIER", "--json"],
    ["pull", "TIER", "BACK"],
    ["pull", "TIER", "BACK", "--json"],
    ["verify", "TIER"],
    ["verify", "TIER", "--json"],
    ["cache", "show"],
    ["cache", "verify"],
    ["cache", "clear", "--json"],
    ["plugins"],
    ["plugins", "--json"],
    ["demo", "--json"],
    ["--help"],
    ["cat", "--help"],
    ["--version"],
]
of_every_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture
def words(tier: str, logdir: str, tmp_path: Path) -> Callable[[list[str]], list[str]]:
    """Put the places of this test into a command."""
    places = {"TIER": tier, "LOGDIR": logdir, "BACK": str(tmp_path / "back")}
    return lambda command: [places.get(word, word) for word in command]


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """An environment with a cache of its own, and without Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "scratch").mkdir()
    return {
        "PATH": str(programs),
        "JAVA_HOME": "",
        "TMPDIR": str(tmp_path / "scratch"),
        "TIEREDFS_CACHE_DIR": str(tmp_path / "cache"),
        **UNBUFFERED,
    }


class TestFullDisks:
    @of_every_command
    def test_a_full_disk_ends_every_command_with_an_error(
        self,
        command: list[str],
        words: Callable[[list[str]], list[str]],
        alone: dict[str, str],
    ) -> None:
        with FileIO(FULL, "wb") as full:
            process = start_process(*words(command), stdout=full.fileno(), env=alone)
            done = ended(process)
        check_incomplete(done.code, done.err, "No space left on device")

    @in_every_format
    @buffered_or_not
    def test_output_that_fits_but_for_a_few_bytes_ends_with_an_error(
        self,
        env: dict[str, str],
        form: str,
        run: Run,
        plain: str,
        output: FileIO,
    ) -> None:
        whole = run(*cat(plain, form)).out
        room = len(whole) - 10
        full = FULL_AFTER.format(room)
        done = ended(
            start_program(full, *cat(plain, form), stdout=output.fileno(), env=env)
        )
        check_incomplete(done.code, done.err, "File too large")
        # The file is as long as it may be, and what is in it is right.
        assert Path(str(output.name)).read_bytes() == whole[:room]

    @buffered_or_not
    def test_what_only_closing_finds_out_ends_with_an_error(
        self, env: dict[str, str], tier: str, output: FileIO
    ) -> None:
        # As on NFS, where writing fills a cache, and closing sends it to the server.
        before = (
            "import errno, os\n"
            "close = os.close\n"
            "def failing(descriptor):\n"
            "    is_output = os.path.sameopenfile(descriptor, 1)\n"
            "    close(descriptor)\n"
            "    if is_output:\n"
            "        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))\n"
            "os.close = failing\n"
        )
        arguments = ("cat", tier, "t")
        done = ended(start_program(before, *arguments, stdout=output.fileno(), env=env))
        check_incomplete(done.code, done.err, os.strerror(122))

    def test_the_errors_of_a_push_are_shown_though_its_table_cannot_be(
        self, logdir: str, tmp_path: Path
    ) -> None:
        log = sorted(Path(logdir).glob("t-0/*.log"))[1]
        log.write_bytes(flipped(log.read_bytes(), 100))
        with FileIO(FULL, "wb") as full:
            arguments = ("push", logdir, str(tmp_path / "tier"))
            done = ended(start_process(*arguments, stdout=full.fileno()))
        assert done.code == 4
        assert done.err[0].startswith("tieredfs: corrupt")
        assert done.err[1].endswith("incomplete: No space left on device")

    @buffered_or_not
    def test_an_error_keeps_its_exit_code_when_it_cannot_be_shown(
        self, env: dict[str, str], tier: str
    ) -> None:
        with FileIO(FULL, "wb") as full:
            process = start_process("ls", tier, "x", stderr=full.fileno(), env=env)
            assert process.communicate(timeout=60)[0] == b""
        assert process.returncode == 3

    @buffered_or_not
    def test_a_warning_that_cannot_be_shown_is_1_and_costs_no_record(
        self, env: dict[str, str], run: Run, plain: str, output: FileIO
    ) -> None:
        arguments = ("cat", plain, "plain")
        whole = run(*arguments).out
        with FileIO(FULL, "wb") as full:
            done = start_process(
                *arguments, stdout=output.fileno(), stderr=full.fileno(), env=env
            )
            assert done.wait(60) == 1
        assert Path(str(output.name)).read_bytes() == whole


class TestSlowReaders:
    @in_every_format
    @buffered_or_not
    def test_a_pipe_that_does_not_block_gets_every_byte(
        self, form: str, env: dict[str, str], run: Run, plain: str
    ) -> None:
        with small_pipe(blocking=False) as pipe:
            done, seen = read_when_refused(pipe, *cat(plain, form), env=env)
        assert (done.code, done.err) == (0, [])
        assert seen == run(*cat(plain, form)).out

    @buffered_or_not
    def test_a_terminal_that_does_not_block_gets_every_byte(
        self, env: dict[str, str], run: Run, plain: str
    ) -> None:
        arguments = cat(plain, "text")
        with small_terminal(blocking=False) as terminal:
            done, seen = read_when_refused(terminal, *arguments, env=env)
        assert (done.code, done.err) == (0, [])
        assert seen == run(*arguments).out

    @pytest.mark.parametrize(
        "command",
        [
            ["ls", "TIER", "t"],
            ["push", "LOGDIR", "TIER", "--json"],
            ["verify", "TIER"],
            ["plugins"],
            ["demo", "--url", "memory://demo"],
            ["cat", "--help"],
        ],
        ids=" ".join,
    )
    def test_every_command_waits_for_a_pipe_that_is_full(
        self,
        command: list[str],
        words: Callable[[list[str]], list[str]],
        alone: dict[str, str],
    ) -> None:
        with small_pipe(blocking=False, is_full=True) as pipe:
            done, seen = read_when_refused(pipe, *words(command), env=alone)
        assert (done.code, done.err) == (0, [])
        assert seen[:4096] == bytes(4096)
        assert len(seen) > 4096

    def test_an_error_waits_for_a_standard_error_that_is_full(self, tier: str) -> None:
        with small_pipe(blocking=False, is_full=True) as pipe:
            done, seen = read_when_refused(pipe, "ls", tier, "x", stream="stderr")
        assert done.code == 3
        assert seen[4096:].startswith(b"tieredfs: not found: topic 'x'")

    @in_every_format
    def test_a_reader_that_pauses_gets_every_byte(
        self, form: str, run: Run, plain: str
    ) -> None:
        with small_pipe() as pipe:
            process = start_process(
                *cat(plain, form), stdout=pipe.writer.fileno(), env=UNBUFFERED
            )
            wait_until(pipe.is_full, process)
            seen = pipe.read_all()
            done = ended(process)
        assert (done.code, done.err) == (0, [])
        assert seen == run(*cat(plain, form)).out

    @pytest.mark.parametrize("form", ["text", "arrow"])
    def test_a_reader_that_is_stopped_for_a_while_gets_every_byte(
        self, form: str, run: Run, plain: str, output: FileIO
    ) -> None:
        with small_pipe() as pipe:
            reader = subprocess.Popen(
                ["/bin/cat"], stdin=pipe.reader.fileno(), stdout=output.fileno()
            )
            reader.send_signal(signal.SIGSTOP)
            process = start_process(*cat(plain, form), stdout=pipe.writer.fileno())
            wait_until(pipe.is_full, process)
            pipe.writer.close()
            reader.send_signal(signal.SIGCONT)
            done = ended(process)
            assert reader.wait(60) == 0
        assert (done.code, done.err) == (0, [])
        assert Path(str(output.name)).read_bytes() == run(*cat(plain, form)).out

    def test_a_command_that_is_stopped_for_a_while_loses_nothing(
        self, run: Run, plain: str
    ) -> None:
        with small_pipe() as pipe:
            process = start_process(
                *cat(plain, "arrow"), stdout=pipe.writer.fileno(), env=UNBUFFERED
            )
            wait_until(pipe.is_full, process)
            # A write that a signal interrupts has taken a part.
            process.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGCONT)
            seen = pipe.read_all()
            done = ended(process)
        assert (done.code, done.err) == (0, [])
        assert seen == run(*cat(plain, "arrow")).out

    def test_python_u_loses_nothing(self, run: Run, plain: str) -> None:
        arguments = cat(plain, "parquet")
        with small_pipe(blocking=False) as pipe:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-u", "-m", "tieredfs", *arguments],
                stdout=pipe.writer.fileno(),
                stderr=subprocess.PIPE,
            )
            wait_until(pipe.is_full, process)
            seen = pipe.read_all()
            done = ended(process)
        assert (done.code, done.err) == (0, [])
        assert seen == run(*arguments).out


class TestReadersThatAreGone:
    @in_every_format
    def test_cat_ends_quietly_when_the_reader_it_waits_for_goes_away(
        self, form: str, plain: str
    ) -> None:
        with small_pipe(blocking=False) as pipe:
            process = start_process(
                *cat(plain, form), stdout=pipe.writer.fileno(), env=UNBUFFERED
            )
            wait_until(pipe.is_full, process)
            pipe.reader.close()
            done = ended(process)
        assert (done.code, done.err) == (0, [])

    @pytest.mark.parametrize("how", [[], ["--json"]], ids=str)
    def test_problems_that_verify_finds_are_4_though_its_reader_has_gone(
        self, how: list[str], damaged: str
    ) -> None:
        with small_pipe() as pipe:
            pipe.reader.close()
            arguments = ("verify", damaged, "--deep", *how)
            done = ended(start_process(*arguments, stdout=pipe.writer.fileno()))
        assert (done.code, done.err) == (4, [])

    def test_a_push_that_fails_says_so_though_its_reader_has_gone(
        self, logdir: str, tmp_path: Path
    ) -> None:
        log = sorted(Path(logdir).glob("t-0/*.log"))[1]
        log.write_bytes(flipped(log.read_bytes(), 100))
        with small_pipe() as pipe:
            pipe.reader.close()
            arguments = ("push", logdir, str(tmp_path / "tier"), "--json")
            done = ended(start_process(*arguments, stdout=pipe.writer.fileno()))
        assert done.code == 4
        assert len(done.err) == 1

    def test_an_error_keeps_its_exit_code_when_its_reader_has_gone(
        self, tier: str
    ) -> None:
        with small_pipe() as pipe:
            pipe.reader.close()
            process = start_process("ls", tier, "x", stderr=pipe.writer.fileno())
            assert process.communicate(timeout=60)[0] == b""
        assert process.returncode == 3

    def test_a_broken_pipe_that_is_not_the_readers_is_an_error(
        self, tier: str, output: FileIO
    ) -> None:
        before = (
            "import errno, tieredfs.tier\n"
            "def broken(*_):\n"
            "    raise BrokenPipeError(errno.EPIPE, 'Broken pipe')\n"
            "tieredfs.tier.Tier.topics = broken\n"
        )
        done = ended(start_program(before, "ls", tier, stdout=output.fileno()))
        assert (done.code, done.err) == (1, ["tieredfs: error: Broken pipe"])


class TestStreamsThatAreClosed:
    @buffered_or_not
    def test_a_closed_standard_output_is_an_error(
        self, env: dict[str, str], tier: str
    ) -> None:
        done = ended(start_without(1, "ls", tier, env=env))
        check_incomplete(done.code, done.err, "Bad file descriptor")

    def test_a_closed_standard_output_is_no_error_of_a_command_that_says_nothing(
        self, tier: str
    ) -> None:
        done = ended(start_without(1, "ls", tier, "x"))
        assert done.code == 3
        assert len(done.err) == 1

    @in_every_format
    def test_records_for_a_closed_standard_output_are_an_error(
        self, form: str, plain: str
    ) -> None:
        done = ended(start_without(1, *cat(plain, form)))
        check_incomplete(done.code, done.err, "Bad file descriptor")

    def test_no_file_of_a_command_gets_the_number_of_a_closed_stream(
        self, tier: str, tmp_path: Path
    ) -> None:
        noted = tmp_path / "noted"
        before = (
            "import tieredfs.tier\n"
            "def noting(*_):\n"
            f"    with open({str(noted)!r}, 'w') as file:\n"
            "        file.write(str(file.fileno()))\n"
            "    return ['t']\n"
            "tieredfs.tier.Tier.topics = noting\n"
        )
        shell = 'exec "$0" "$@" <&- >&- 2>&-'
        program = (sys.executable, "-c", before + MAIN, "ls", tier)
        done = subprocess.run(  # noqa: S603 - our own interpreter
            ["/bin/sh", "-c", shell, *program], check=False, timeout=60
        )
        assert done.returncode == 1
        assert int(noted.read_text()) > 2

    @pytest.mark.parametrize(
        "command",
        [
            ["ls", "TIER"],
            ["ls", "TIER", "t"],
            ["cat", "TIER", "t"],
            ["cat", "TIER", "t", "--format", "parquet"],
            ["verify", "TIER", "--json"],
            ["--help"],
        ],
        ids=" ".join,
    )
    def test_a_closed_standard_error_hides_no_answer(
        self, command: list[str], words: Callable[[list[str]], list[str]], run: Run
    ) -> None:
        arguments = words(command)
        with start_without(2, *arguments) as process:
            out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, run(*arguments).out)


class TestInterruptions:
    @pytest.mark.parametrize(
        ("form", "blocking"), [*((form, True) for form in FORMATS), ("text", False)]
    )
    def test_ctrl_c_ends_a_command_whose_reader_does_not_read(
        self, blocking: bool, form: str, plain: str
    ) -> None:
        with small_pipe(blocking=blocking) as pipe:
            process = start_process(*cat(plain, form), stdout=pipe.writer.fileno())
            wait_until(pipe.is_full, process)
            process.send_signal(signal.SIGINT)
            done = ended(process)
        assert (done.code, done.err) == (130, ["tieredfs: interrupted"])

    def test_ctrl_c_ends_a_command_that_can_not_even_say_so(self, plain: str) -> None:
        with small_pipe() as pipe, small_pipe(is_full=True) as errors:
            process = start_process(
                *cat(plain, "text"),
                stdout=pipe.writer.fileno(),
                stderr=errors.writer.fileno(),
            )
            wait_until(pipe.is_full, process)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
