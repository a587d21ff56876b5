"""``tieredfs pull``, as people and programs use it."""

import json
from pathlib import Path

import pytest

from cli.commands import Run, run_process, run_with_terminal
from servers import Bucket
from support.damage import flipped
from support.log_directories import (
    OTHER_ID,
    closed_files,
    log_of,
    native,
    push_all,
    recorded,
    small,
    source_of,
    write_log,
)
from support.stores import files_of
from tieredfs.log.pull import pull

STDERR = frozenset({"stderr"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The log directory that was pushed."""
    return recorded("epochs", tmp_path / "broker")


@pytest.fixture
def url(root: Path, tmp_path: Path) -> str:
    """A tier with the closed segments of ``root``."""
    push_all(source_of(root), native(Bucket(str(tmp_path / "tier"), {})))
    return str(tmp_path / "tier")


@pytest.fixture
def back(tmp_path: Path) -> Path:
    """Where files are pulled to; not there yet."""
    return tmp_path / "back"


def test_files_come_back_byte_for_byte_and_a_table_says_how_many(
    run: Run, url: str, root: Path, back: Path
) -> None:
    done = run("pull", url, str(back))
    assert (done.code, done.err) == (0, [])
    head, row = done.text.splitlines()
    assert head.split() == ["PARTITION", "SEGMENTS", "CUT", "FILES", "WRITTEN", "BYTES"]
    assert row.split() == ["epochs-0", "3", "0", "12", "152,675"]
    assert closed_files(root).items() <= files_of(back).items()


def test_the_layout_of_the_directory_may_be_named_and_no_other(
    run: Run, url: str, back: Path
) -> None:
    done = run("pull", url, f"single-object+{back}")
    assert (done.code, done.out) == (2, b"")
    assert done.err[0].endswith(f"is kafka-log, not single-object: give {back}")
    assert run("pull", url, f"kafka-log+{back}").code == 0
    assert list(back.glob("*/*.log"))


def test_a_second_one_writes_nothing(run: Run, url: str, back: Path) -> None:
    run("pull", url, str(back))
    done = run("pull", url, str(back), "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out) == {
        "directory": str(back),
        "partitions": [
            {
                "partition": "epochs-0",
                "segments": 3,
                "cut": 0,
                "files": 0,
                "bytes": 152675,
            }
        ],
    }


def test_from_s3_only_the_url_is_another(
    run: Run, root: Path, back: Path, s3_bucket: Bucket
) -> None:
    push_all(source_of(root), native(s3_bucket))
    options = json.dumps(s3_bucket.storage_options)
    done = run("pull", s3_bucket.url, str(back), "--storage-options", options)
    assert (done.code, done.err) == (0, [])
    assert closed_files(root).items() <= files_of(back).items()


@pytest.mark.parametrize("at", [0, 1, 100, -1])
@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_file_that_differs_stays_and_the_line_says_where(
    at: int,
    suffix: str,
    run: Run,
    url: str,
    back: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull, "MAX_MEMORY_BYTES", 64)  # files are compared in pieces
    run("pull", url, str(back))
    file = next(iter(sorted(back.glob(f"epochs-0/*.{suffix}"))))
    whole = file.read_bytes()
    at %= len(whole)
    file.write_bytes(flipped(whole, at))
    done = run("pull", url, str(back))
    assert (done.code, done.out) == (1, b"")
    (line,) = done.err
    assert line == (
        f"tieredfs: already exists: {file}, and it differs from the pulled file at "
        f"byte {at}: remove it, or pull into an empty directory"
    )
    assert file.read_bytes() == flipped(whole, at)
    file.unlink()
    done = run("pull", url, str(back), "--json")
    assert (done.code, json.loads(done.out)["partitions"][0]["files"]) == (0, 1)
    assert file.read_bytes() == whole


def test_a_file_of_another_size_stays_and_the_line_says_so(
    run: Run, url: str, root: Path, back: Path
) -> None:
    log = back / "epochs-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_text("mine")
    done = run("pull", url, str(back))
    assert (done.code, done.out, len(done.err)) == (1, b"", 1)
    size = (root / "epochs-0" / log.name).stat().st_size
    assert f"{log}, and it has 4 bytes, the pulled file {size}: " in done.err[0]
    assert log.read_text() == "mine"


def test_a_file_is_no_directory_to_pull_into(
    run: Run, url: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    inside = [str(tmp_path / name) for name in ("file", "file/below", "file/far/below")]
    for place in (*inside, f"file://{tmp_path}/file"):
        done = run("pull", url, place)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert done.err[0].endswith("/file is a file: give a directory")


def test_a_file_in_the_way_of_a_folder_is_named(run: Run, url: str, back: Path) -> None:
    back.mkdir()
    (back / "epochs-0").touch()
    done = run("pull", url, str(back))
    assert (done.code, done.out) == (1, b"")
    (line,) = done.err
    assert line == (
        f"tieredfs: already exists: put {back}/epochs-0/partition.metadata: "
        f"FileExistsError: {back}/epochs-0 is not a directory: remove it, or write to "
        "another place"
    )


@pytest.mark.parametrize("name", [f"{0:020d}.log", "partition.metadata"])
def test_a_folder_in_the_way_of_a_file_is_named(
    name: str, run: Run, url: str, back: Path
) -> None:
    (back / "epochs-0" / name).mkdir(parents=True)
    done = run("pull", url, str(back))
    assert (done.code, done.out) == (1, b"")
    (line,) = done.err
    assert line == (
        f"tieredfs: already exists: put {back}/epochs-0/{name}: FileExistsError: "
        f"{back}/epochs-0/{name} is a directory: remove it, or write to another place"
    )


class TestWhich:
    @pytest.fixture
    def several(self, tmp_path: Path) -> str:
        """A tier with a topic of two ids, another topic, and an internal one."""
        target = native(Bucket(str(tmp_path / "several"), {}))
        small(tmp_path / "a")
        small(tmp_path / "b", topic_id=OTHER_ID)
        logs = {0: log_of(0), 10: b""}
        write_log(tmp_path / "c", logs, partition="u-0")
        write_log(tmp_path / "d", logs, partition="__x-0")
        for name in "abc":
            push_all(source_of(tmp_path / name), target)
        url = str(tmp_path / "several")
        assert run_process("push", str(tmp_path / "d"), url, "--topic", "__x").code == 0
        return url

    def test_one_topic(self, run: Run, several: str, back: Path) -> None:
        assert run("pull", several, str(back), "u").code == 0
        assert [path.name for path in back.iterdir()] == ["u-0"]
        assert run("pull", several, str(back), "__x").code == 0
        assert {path.name for path in back.iterdir()} == {"u-0", "__x-0"}

    def test_one_of_two_ids(self, run: Run, several: str, back: Path) -> None:
        done = run("pull", several, str(back))
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert OTHER_ID in done.err[0]
        assert not back.exists()
        assert run("pull", several, str(back), "--topic-id", OTHER_ID).code == 0
        assert {path.name for path in back.iterdir()} == {"t-0", "u-0", "__x-0"}
        assert OTHER_ID in (back / "t-0" / "partition.metadata").read_text()

    @pytest.mark.parametrize(
        "words", [["nosuch"], [""], ["u", "--topic-id", OTHER_ID]], ids=str
    )
    def test_none(self, words: list[str], run: Run, several: str, back: Path) -> None:
        done = run("pull", several, str(back), *words)
        assert (done.code, done.out, len(done.err)) == (3, b"", 1)
        assert not back.exists()


def test_where_nothing_is_there_is_nothing_to_pull(run: Run, tmp_path: Path) -> None:
    for url in (str(tmp_path / "no"), f"single-object+{tmp_path / 'no'}"):
        done = run("pull", url, str(tmp_path / "back"))
        assert (done.code, len(done.err)) == (3, 1)
        assert done.err[0].startswith("tieredfs: not found: ")


def test_a_bar_is_shown_on_a_terminal_and_none_in_a_pipe(url: str, back: Path) -> None:
    done, seen = run_with_terminal("pull", url, str(back), on=STDERR)
    assert done.code == 0
    assert "━" in seen
    done = run_process("pull", url, str(back))
    assert (done.code, done.err) == (0, [])
