"""A push or pull that a disk does not hold ends with an error, and leaves nothing half.

The kernel stands in for a full disk: no file may grow past a size.
"""

import json
from pathlib import Path

import pytest

from cli.commands import Run
from cli.readers import FULL_AFTER, start_program
from servers import Bucket
from support.log_directories import closed_files, native, push_all, small, source_of
from support.stores import files_of

# Nothing is small enough to be held in memory.
SPOOLED = (
    "from tieredfs.storage import spool_log\n"
    "from tieredfs.storage.segment_log import spool\n"
    "spool_log.MAX_MEMORY_BYTES = spool.MAX_MEMORY_BYTES = 0\n"
)


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


def run_full(
    before: str, room: int, *arguments: str, scratch: Path, code: int
) -> list[str]:
    """Run a command that fails for want of room; return what it said."""
    scratch.mkdir()
    before += FULL_AFTER.format(room)
    env = {"TMPDIR": str(scratch)}
    with start_program(before, *arguments, env=env) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert files_of(scratch) == {}
    return err.decode().splitlines()


def test_a_push_of_more_than_a_file_may_hold_is_2_and_leaves_no_half_object(
    run: Run, logdir: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    arguments = ("push", logdir, str(target))
    (said,) = run_full("", 300, *arguments, scratch=tmp_path / "tmp", code=2)
    assert said.startswith("tieredfs: unsupported operation: put ")
    assert "File too large" in said
    assert files_of(target) == {}
    assert run(*arguments).code == 0
    assert run("verify", str(target), "--deep").code == 0


def test_a_pull_of_more_than_a_file_may_hold_is_2_and_leaves_whole_files(
    run: Run, tier: str, logdir: str, tmp_path: Path
) -> None:
    target = tmp_path / "back"
    arguments = ("pull", tier, str(target))
    (said,) = run_full("", 100, *arguments, scratch=tmp_path / "tmp", code=2)
    assert said.startswith("tieredfs: unsupported operation: put ")
    assert "File too large" in said
    left = files_of(target)
    assert run(*arguments).code == 0
    assert left.items() <= files_of(target).items()
    assert closed_files(Path(logdir)).items() <= files_of(target).items()


def test_a_push_that_compresses_names_the_full_directory_of_temporary_files(
    logdir: str, tmp_path: Path
) -> None:
    target, scratch = tmp_path / "target", tmp_path / "tmp"
    options = ("--plugin-options", '{"compression": "zstd"}')
    (said,) = run_full(
        SPOOLED, 100, "push", logdir, str(target), *options, scratch=scratch, code=1
    )
    assert said.startswith("tieredfs: storage full: ")
    assert f"no temporary file can be written in {scratch}: File too large; " in said
    assert "set TMPDIR" in said
    assert files_of(target) == {}


def test_a_missing_directory_of_temporary_files_is_1_and_says_to_set_tmpdir(
    logdir: str, tmp_path: Path
) -> None:
    """Nor can a file be made in any of those that are tried in its place."""
    before = (
        SPOOLED + "import tempfile\ntempfile._candidate_tempdir_list = lambda: "
        f"[{str(tmp_path / 'missing')!r}]\n"
    )
    options = ("--plugin-options", '{"compression": "zstd"}')
    with start_program(before, "push", logdir, str(tmp_path / "to"), *options) as done:
        _, err = done.communicate(timeout=60)
    (line,) = err.decode().splitlines()
    assert line.startswith("tieredfs: storage full: no temporary file can be written")
    assert "set TMPDIR to a directory" in line
    assert done.returncode == 1


def test_a_pull_from_afar_names_the_full_directory_of_temporary_files(
    logdir: str, tmp_path: Path, s3_bucket: Bucket
) -> None:
    push_all(source_of(Path(logdir)), native(s3_bucket))
    target, scratch = tmp_path / "target", tmp_path / "tmp"
    options = ("--storage-options", json.dumps(s3_bucket.storage_options))
    arguments = ("pull", s3_bucket.url, str(target), *options)
    (said,) = run_full(SPOOLED, 100, *arguments, scratch=scratch, code=1)
    assert said.startswith("tieredfs: storage full: ")
    assert f"no temporary file can be written in {scratch}: File too large; " in said
    assert not [name for name in files_of(target) if name.endswith(".log")]
