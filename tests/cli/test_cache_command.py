"""``tieredfs cache``, and what the other commands keep on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cache.made import (
    bytes_of,
    content_of,
    entry_size,
    files_in,
    made_segment,
    open_cache,
)
from cli.commands import Run, run_process
from servers import Bucket
from support.child_process import GIVE_UP_PRIVILEGES
from support.damage import flipped
from support.log_directories import small, source_of
from support.stores import files_of
from tieredfs import ObjectStore
from tieredfs.cache import RemoteIndexCache
from tieredfs.log.push.push import push
from tieredfs.log.push.push_record import PushRecord
from tieredfs.storage.layouts.single_object.layout import SingleObject

BOUND = 10 * entry_size()


@pytest.fixture
def kept(tmp_path: Path) -> RemoteIndexCache:
    """A cache of three segments, with room for ten."""
    _, cache = open_cache(tmp_path, max_bytes=BOUND)
    for number in range(3):
        cache.get(made_segment(number))
    return cache


@pytest.fixture
def setting(kept: RemoteIndexCache, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The setting that names its directory."""
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(kept.directory))
    return kept.directory


def test_show_is_a_table_for_people_and_json_for_programs(
    run: Run, setting: Path
) -> None:
    done = run("cache", "show")
    assert (done.code, done.err) == (0, [])
    head, row = done.text.splitlines()
    assert head.split() == ["DIRECTORY", "SEGMENTS", "BYTES", "AT", "MOST"]
    assert row.split()[-3:] == ["3", f"{3 * entry_size():,}", f"{BOUND:,}"]
    done = run("cache", "show", "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out) == {
        "directory": str(setting),
        "entries": 3,
        "bytes": 3 * entry_size(),
        "bound": BOUND,
    }


@pytest.mark.parametrize("command", ["show", "verify", "clear"])
def test_what_is_there_counts_although_the_account_of_it_is_lost(
    run: Run, setting: Path, command: str
) -> None:
    (setting / "tieredfs-ledger").unlink()
    done = run("cache", command, "--json")
    assert (done.code, json.loads(done.out)["entries"]) == (0, 3)
    assert len(files_in(setting)) == (0 if command == "clear" else 3)


@pytest.mark.parametrize("command", ["show", "verify", "clear"])
def test_a_directory_that_may_not_be_used_is_named_and_exits_with_6(
    setting: Path, command: str
) -> None:
    for file in setting.iterdir():
        file.chmod(0)
    setting.chmod(0o500 if command == "verify" else 0)
    program = GIVE_UP_PRIVILEGES + "from tieredfs.cli import main; main()"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program, "cache", command],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        setting.chmod(0o700)
    (line,) = done.stderr.splitlines()
    assert line.startswith("tieredfs: ")
    assert "Permission denied" in line
    assert str(setting) in line
    assert done.returncode == 6


def test_a_directory_can_be_named(run: Run, kept: RemoteIndexCache) -> None:
    done = run("cache", "show", "--json", "--cache-dir", str(kept.directory))
    assert json.loads(done.out)["entries"] == 3


def test_showing_and_verifying_change_nothing(run: Run, setting: Path) -> None:
    leftover = setting / f"{2**31 - 1}-{'0' * 16}.tmp"
    leftover.write_bytes(b"1")

    def state() -> dict[str, tuple[int, bytes]]:
        found = sorted(setting.iterdir())
        return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in found}

    before = state()
    run("cache", "show")
    run("cache", "verify")
    assert state() == before


def test_verify_says_that_all_is_as_written(run: Run, setting: Path) -> None:
    done = run("cache", "verify", "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out) == {"entries": 3, "problems": []}
    done = run("cache", "verify")
    assert (done.code, done.text) == (0, "3 segments, 0 of them not as written\n")
    assert len(files_in(setting)) == 3


def test_verify_names_what_is_wrong_and_exits_with_4(run: Run, setting: Path) -> None:
    first, second, third = files_in(setting)
    first.write_bytes(flipped(first.read_bytes(), entry_size() - 100))
    second.write_bytes(b"")
    done = run("cache", "verify", "--json")
    assert (done.code, done.err) == (4, [])
    told = json.loads(done.out)
    assert told["entries"] == 3
    assert [one["entry"] for one in told["problems"]] == [first.stem, second.stem]
    assert "checksum" in told["problems"][0]["detail"]
    done = run("cache", "verify")
    assert (done.code, len(done.text.splitlines())) == (4, 3)
    second.write_bytes(third.read_bytes())
    told = json.loads(run("cache", "verify", "--json").out)
    assert "another entry" in told["problems"][1]["detail"]


def test_what_verify_found_is_repaired_when_it_is_next_asked_for(
    run: Run, setting: Path, tmp_path: Path
) -> None:
    for file in files_in(setting):
        file.write_bytes(b"damaged")
    _, cache = open_cache(tmp_path, max_bytes=BOUND)
    for number in range(3):
        segment = made_segment(number)
        assert bytes_of(cache.get(segment).indexes) == content_of(segment)
    assert run("cache", "verify").code == 0


def test_clear_removes_all_and_says_how_much(run: Run, setting: Path) -> None:
    done = run("cache", "clear", "--json")
    assert (done.code, done.err) == (0, [])
    removed = {"entries": 3, "bytes": 3 * entry_size(), "pushed": 0}
    assert json.loads(done.out) == removed
    assert files_in(setting) == []
    done = run("cache", "clear")
    said = "removed 0 segments, 0 bytes, and the push records of 0 partitions\n"
    assert (done.code, done.text) == (0, said)
    told = json.loads(run("cache", "show", "--json").out)
    assert (told["entries"], told["bound"]) == (0, BOUND)


def test_clear_removes_what_pushes_noted_and_nothing_foreign(
    run: Run, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    small(tmp_path / "broker")
    source = source_of(tmp_path / "broker")
    (partition,) = source.list_partitions()
    # Logs that have just changed are not noted: by this clock they have not.
    record = PushRecord(kept / "pushed", min_age_ns=-(10**18))
    push(
        source,
        SingleObject(ObjectStore(str(tmp_path / "tier"))),
        [partition],
        record=record,
    )
    assert len(files_of(kept)) == 1
    words = ("cache", "clear", "--json", "--cache-dir", str(kept))
    assert json.loads(run(*words).out) == {"entries": 0, "bytes": 0, "pushed": 1}
    assert list(kept.iterdir()) == []
    (kept / "pushed").mkdir()
    (kept / "pushed" / "mine.json").touch()
    assert json.loads(run(*words).out) == {"entries": 0, "bytes": 0, "pushed": 0}
    assert [path.name for path in kept.rglob("*.json")] == ["mine.json"]


@pytest.mark.parametrize("verb", ["show", "verify", "clear"])
def test_a_url_is_no_directory(run: Run, verb: str) -> None:
    done = run("cache", verb, "--cache-dir", "s3://bucket/cache")
    assert (done.code, done.out, len(done.err)) == (2, b"", 1)
    assert "cache directory s3://bucket/cache: give a path" in done.err[0]


@pytest.mark.parametrize("verb", ["show", "verify", "clear"])
def test_an_empty_directory_name_is_not_the_working_directory(
    run: Run, setting: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(setting)
    done = run("cache", verb, "--cache-dir", "")
    assert (done.code, done.out) == (2, b"")
    (line,) = done.err
    assert line == (
        "tieredfs: invalid argument: Invalid value for '--cache-dir': it is empty: "
        "give a directory, or omit it"
    )
    assert len(files_in(setting)) == 3


@pytest.mark.parametrize("verb", ["show", "verify", "clear"])
@pytest.mark.parametrize("place", ["", "nowhere"], ids=["off", "never used"])
def test_where_nothing_is_kept_there_is_nothing_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, place: str
) -> None:
    setting = str(tmp_path / place) if place else ""
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", setting)
    done = run("cache", verb, "--json")
    assert (done.code, done.err) == (0, [])
    assert json.loads(done.out)["entries"] == 0
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    done = run_process("cache", "show", "--cache-dir", str(tmp_path / "file"))
    assert (done.code, done.out, len(done.err)) == (2, b"", 1)


def test_reading_from_a_store_keeps_indexes_where_the_setting_says(
    run: Run,
    in_s3: Bucket,
    credentials: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = (
        "cat",
        in_s3.url,
        "two-partitions",
        "--from",
        "12",
        "--encoding",
        "hex",
        *credentials,
    )
    without = run(*words)
    assert (without.code, without.err) == (0, [])
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "kept"))
    for _ in range(2):
        done = run(*words)
        assert (done.code, done.out, done.err) == (0, without.out, [])
    told = json.loads(run("cache", "show", "--json").out)
    assert told["entries"] > 0
    assert run("cache", "verify").code == 0


def test_a_command_that_is_to_keep_nothing_keeps_nothing_and_warns_of_nothing(
    run: Run,
    in_s3: Bucket,
    credentials: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    for directory in ("kept", "file/kept"):  # one that cannot be is no warning, either
        monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / directory))
        for verb, *how in (("ls",), ("cat", "--encoding", "hex")):
            words = (verb, in_s3.url, "two-partitions", *credentials, *how)
            done = run(*words, "--no-cache")
            assert (done.code, done.err) == (0, [])
            assert not (tmp_path / "kept").exists()


def test_commands_that_check_read_the_store_and_not_the_cache(
    run: Run,
    in_s3: Bucket,
    credentials: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "kept"))
    back = str(tmp_path / "back")
    assert run("verify", in_s3.url, *credentials).code == 0
    assert run("pull", in_s3.url, back, *credentials).code == 0
    assert run("push", back, f"{in_s3.url}/archive", *credentials).code == 0
    assert json.loads(run("cache", "show", "--json").out)["entries"] == 0


def test_a_directory_that_cannot_be_is_a_warning_and_the_answer_is_the_same(
    run: Run,
    in_s3: Bucket,
    credentials: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("cat", in_s3.url, "two-partitions", "--encoding", "hex", *credentials)
    without = run(*words)
    (tmp_path / "file").write_bytes(b"1")
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "file" / "kept"))
    done = run(*words)
    assert (done.code, done.out) == (0, without.out)
    (warning,) = done.err
    assert warning.startswith("tieredfs: warning: indexes are not cached")


def test_local_files_are_not_kept_twice(
    run: Run, plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIEREDFS_CACHE_DIR", str(tmp_path / "kept"))
    assert run("cat", plain, "plain").code == 0
    assert not (tmp_path / "kept").exists()
