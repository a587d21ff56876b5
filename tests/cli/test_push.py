"""``tieredfs push``, as people and programs use it."""

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Run, run_process, run_with_terminal, start_process, wait_until
from cli.readers import start_program
from servers import Bucket, ProxiedBucket
from support.child_process import GIVE_UP_PRIVILEGES
from support.damage import flipped
from support.kafka_data import KAFKA, REMOTE
from support.log_directories import (
    ID,
    OTHER_ID,
    check_records,
    log_of,
    native,
    recorded,
    small,
    source_of,
    topic_of,
    write_log,
)
from tieredfs.objects import ObjectStore, RateLimit

STDERR = frozenset({"stderr"})
HEAD = "PARTITION  SEGMENTS  COPIED  PRESENT  CHANGED  FAILED  REBUILT"


@pytest.fixture
def logdir(tmp_path: Path) -> str:
    """A log directory with one partition: three closed segments and the active one."""
    small(tmp_path / "broker")
    return str(tmp_path / "broker")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A folder that is not there."""
    return str(tmp_path / "tier")


def rows(out: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out)["partitions"]
    return found


def files_held(process: int, folder: Path) -> list[str]:
    """Return the files below a folder that a process has open."""
    held = []
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            held.append(str(descriptor.readlink()))
    return [name for name in held if name.startswith(f"{folder}/")]


def given(place: Bucket | ProxiedBucket) -> tuple[str, ...]:
    return place.url, "--storage-options", json.dumps(place.storage_options)


def test_what_is_not_there_is_put_in_the_native_layout(
    run: Run, logdir: str, url: str
) -> None:
    done = run("push", logdir, url)
    assert (done.code, done.err) == (0, [])
    head, row = done.text.splitlines()
    assert head.startswith(HEAD)
    # Beside these logs is no index but the checkpoint: three are made of each.
    assert row.split()[:7] == ["t-0", "3", "3", "0", "0", "0", "9"]
    assert (
        native(Bucket(url, {})).list_partitions()
        == source_of(Path(logdir)).list_partitions()
    )
    done = run("push", logdir, url)
    assert done.text.splitlines()[1].split()[:7] == ["t-0", "3", "0", "3", *"000"]


def test_programs_are_told_the_same(run: Run, logdir: str, url: str) -> None:
    done = run("push", logdir, url, "--json")
    assert (done.code, done.err) == (0, [])
    size = sum(f.stat().st_size for f in sorted(Path(logdir).glob("*/*.log"))[:3])
    assert json.loads(done.out) == {
        "url": url,
        "dry_run": False,
        "partitions": [
            {
                "partition": "t-0",
                "segments": 3,
                "copied": 3,
                "present": 0,
                "changed": 0,
                "failed": 0,
                "rebuilt": 9,
                "repaired": 0,
                "bytes": size,
            }
        ],
        "errors": [],
    }


@pytest.mark.parametrize("topic", ["epochs", "txn"])
def test_cat_gives_the_records_that_kafka_reads(
    topic: str, run: Run, s3_bucket: Bucket, tmp_path: Path
) -> None:
    root = recorded(topic, tmp_path / "broker")
    assert run("push", str(root), *given(s3_bucket)).code == 0
    check_records(native(s3_bucket), topic)
    how = ("--format", "jsonl", "--encoding", "hex")
    from_s3 = run("cat", *given(s3_bucket), topic, *how)
    broker = run("cat", str(root), topic, *how)
    assert from_s3.err == []
    lines = from_s3.out.splitlines()
    assert lines == broker.out.splitlines()[: len(lines)]


def test_only_the_topics_that_are_named(run: Run, logdir: str, url: str) -> None:
    for name in ("u-0", "u-1", "__x-0"):
        write_log(
            Path(logdir), {0: log_of(0), 10: b""}, partition=name, topic_id=OTHER_ID
        )
    done = run("push", logdir, url, "--topic", "u", "--topic", "__x", "--json")
    assert [row["partition"] for row in rows(done.out)] == ["__x-0", "u-0", "u-1"]
    done = run("push", logdir, url, "--json")
    assert [row["partition"] for row in rows(done.out)] == ["t-0", "u-0", "u-1"]


def test_the_active_segment_when_it_is_asked_for(
    run: Run, logdir: str, url: str
) -> None:
    done = run("push", logdir, url, "--active", "--json")
    assert rows(done.out)[0]["copied"] == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["LOGDIR", "URL", "--topic", "nosuch"], 3, "not found: topic 'nosuch'"),
        (["LOGDIR/nosuch", "URL"], 3, "not found: LOGDIR/nosuch does not exist"),
        (["LOGDIR", "URL", "--plugin", "nosuch"], 2, "'nosuch'"),
        (["LOGDIR", "URL", "--plugin", "kafka-log"], 2, "read only"),
        (["LOGDIR", "single-object+URL", "--plugin", "kafka-local"], 2, "the option"),
        (["LOGDIR", "URL", "--plugin-options", '{"compression": "lz4"}'], 2, "zstd"),
        (["LOGDIR"], 2, "Missing argument 'URL'"),
    ],
    ids=["topic", "logdir", "plugin", "read only", "two", "option", "missing"],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str], code: int, said: str, run: Run, logdir: str, url: str
) -> None:
    words = [a.replace("LOGDIR", logdir).replace("URL", url) for a in arguments]
    done = run("push", *words)
    assert (done.code, done.out) == (code, b"")
    assert len(done.err) == 1
    assert done.err[0].startswith("tieredfs: ")
    assert said.replace("LOGDIR", logdir) in done.err[0]
    assert not Path(url).exists()


def test_a_place_with_strangers_files_is_refused(
    run: Run, logdir: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    done = run("push", logdir, str(tmp_path / "mine"))
    assert (done.code, len(done.err)) == (4, 1)
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == ["notes.txt"]


@pytest.mark.parametrize("layout", ["", "single-object+", "kafka-local+"])
@pytest.mark.parametrize("folder", ["", "/x"])
def test_a_bucket_that_is_not_there_is_what_is_not_found(
    layout: str, folder: str, run: Run, logdir: str, s3_bucket: Bucket
) -> None:
    url = f"s3://no-such-bucket-0123456789{folder}"
    missing = Bucket(f"{layout}{url}", s3_bucket.storage_options)
    done = run("push", logdir, *given(missing))
    assert (done.code, done.out) == (3, b"")
    assert done.err == [
        f"tieredfs: not found: {url}: there is no such bucket",
    ]


def test_an_archive_that_is_not_there_is_what_is_not_found(
    run: Run, logdir: str, tmp_path: Path
) -> None:
    url = f"zip://::file://{tmp_path}/none.zip"
    done = run("push", logdir, url)
    assert (done.code, done.out) == (3, b"")
    assert done.err == [f"tieredfs: not found: {url}"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["push", "dry run"])
def test_a_file_is_no_place_to_push_to(
    run: Run, logdir: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    for scheme, place in product(("", "file://"), ("file", "file/below", "/dev/full")):
        done = run("push", logdir, f"{scheme}{tmp_path / place}", *options)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        name = place.removesuffix("/below")
        assert done.err[0].endswith(f"{tmp_path / name} is a file: give a directory")


class TestWhatIsNoLogDirectory:
    """What is given instead of it, and what the line says to give."""

    @pytest.fixture
    def said(self, run: Run, url: str) -> Callable[[Path], str]:
        def push(given: Path) -> str:
            done = run("push", str(given), url)
            assert (done.code, done.out, len(done.err)) == (3, b"", 1)
            assert not Path(url).exists()
            return done.err[0]

        return push

    def test_a_path_that_is_not_there(
        self, said: Callable[[Path], str], tmp_path: Path
    ) -> None:
        line = said(tmp_path / "nosuch")
        missing = f"{tmp_path}/nosuch does not exist"
        assert line.startswith(f"tieredfs: not found: {missing}: ")
        assert "give the broker's log directory (log.dirs)" in line

    @pytest.mark.parametrize("topic", ["t", "a-topic-1.x"])
    def test_the_folder_of_a_partition(
        self, topic: str, said: Callable[[Path], str], tmp_path: Path
    ) -> None:
        write_log(tmp_path / "logs", {0: log_of(0), 10: b""}, partition=f"{topic}-12")
        line = said(tmp_path / "logs" / f"{topic}-12")
        assert "which is one partition" in line
        assert line.endswith(f": give {tmp_path}/logs with --topic {topic}")

    def test_a_file(self, said: Callable[[Path], str], logdir: str) -> None:
        assert " is a file: give " in said(Path(logdir) / "t-0" / f"{0:020d}.log")

    @pytest.mark.parametrize("layout", ["single-object", "kafka-local"])
    def test_an_archive(
        self,
        layout: str,
        said: Callable[[Path], str],
        run: Run,
        logdir: str,
        tmp_path: Path,
    ) -> None:
        archive = tmp_path / "archive"
        assert run("push", logdir, str(archive), "--plugin", layout).code == 0
        line = said(archive)
        assert f"in {archive}, which is a tier of the layout {layout}: " in line
        assert line.endswith("move it to another place with tieredfs migrate")

    @pytest.mark.parametrize("name", ["a-topic/x.txt", "x.txt"])
    def test_a_directory_of_something_else(
        self, name: str, said: Callable[[Path], str], tmp_path: Path
    ) -> None:
        (tmp_path / "other" / name).parent.mkdir(parents=True)
        (tmp_path / "other" / name).touch()
        line = said(tmp_path / "other")
        assert f"a topic in {tmp_path}/other: give " in line


def test_it_goes_on_in_the_layout_that_is_there(
    run: Run, tmp_path: Path, logdir: str
) -> None:
    kafkas = f"kafka-local+{tmp_path / 'kafka'}"
    assert run("push", logdir, kafkas).code == 0
    done = run("push", logdir, str(tmp_path / "kafka"), "--active", "--json")
    assert (rows(done.out)[0]["present"], rows(done.out)[0]["copied"]) == (3, 1)
    names = {path.suffix for path in (tmp_path / "kafka").rglob("*.*")}
    assert ".log" in names
    assert ".segment" not in names


def test_an_option_of_the_layout_is_taken(run: Run, tmp_path: Path) -> None:
    root = recorded("epochs", tmp_path / "broker")
    sizes = []
    for name, options in (("plain", "{}"), ("zstd", '{"compression": "zstd"}')):
        url = tmp_path / name
        assert run("push", str(root), str(url), "--plugin-options", options).code == 0
        sizes.append(sum(f.stat().st_size for f in url.rglob("*.segment")))
        assert run("verify", str(url), "--deep").code == 0
    assert sizes[1] < sizes[0]


def test_a_named_layout_that_lacks_something_is_not_taken_for_an_empty_place(
    logdir: str, url: str, tmp_path: Path
) -> None:
    (tmp_path / "lacking.py").write_text(
        "from tieredfs import NotFoundError\n"
        "from tieredfs.storage.layouts.kafka_local import KafkaLocal\n"
        "class Layout(KafkaLocal):\n"
        "    def __init__(self, store): raise NotFoundError('no key file')\n"
    )
    env = {"PYTHONPATH": str(tmp_path)}
    done = run_process("push", logdir, url, "--plugin", "lacking:Layout", env=env)
    assert (done.code, done.err) == (3, ["tieredfs: not found: no key file"])
    assert not Path(url).exists()


class TestCompression:
    def test_logs_are_stored_smaller_and_read_as_ever(
        self, run: Run, tmp_path: Path
    ) -> None:
        root = recorded("epochs", tmp_path / "broker")
        url = str(tmp_path / "tier")
        done = run("push", str(root), url, "--compression", "zstd", "--json")
        assert (done.code, done.err) == (0, [])
        logs = sum(row["bytes"] for row in rows(done.out))
        stored = sum(f.stat().st_size for f in Path(url).rglob("*.segment"))
        assert stored < logs
        assert run("verify", url, "--deep").code == 0
        check_records(native(Bucket(url, {})), "epochs")

    def test_it_is_the_option_of_the_layout(
        self, run: Run, logdir: str, tmp_path: Path
    ) -> None:
        sizes = []
        for name, words in (
            ("a", ["--compression", "zstd"]),
            ("b", ["--plugin-options", '{"compression": "zstd"}']),
            ("c", ["--compression", "zstd", "--plugin", "single-object"]),
        ):
            assert run("push", logdir, str(tmp_path / name), *words).code == 0
            files = (tmp_path / name).rglob("*.segment")
            sizes.append(sorted(file.stat().st_size for file in files))
        assert sizes[0] == sizes[1] == sizes[2]

    @pytest.mark.parametrize("is_there", [False, True])
    def test_a_layout_that_cannot_hold_it_says_so_and_gets_nothing(
        self, is_there: bool, run: Run, logdir: str, url: str
    ) -> None:
        place = f"kafka-local+{url}"
        if is_there:
            assert run("push", logdir, place).code == 0
            place = url
        before = sorted(Path(url).rglob("*"))
        done = run("push", logdir, place, "--active", "--compression", "zstd")
        assert (done.code, done.out) == (2, b"")
        (line,) = done.err
        assert line == (
            f"tieredfs: unsupported operation: KafkaLocal({url!r}) keeps logs as the "
            "broker wrote them: they cannot be compressed with zstd; omit compression, "
            "or give a URL at which nothing is stored yet"
        )
        assert sorted(Path(url).rglob("*")) == before

    def test_two_that_differ_are_refused(self, run: Run, logdir: str, url: str) -> None:
        words = ("--compression", "zstd", "--plugin-options", '{"compression": null}')
        done = run("push", logdir, url, *words)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "--compression zstd, but None in the plugin options" in done.err[0]
        assert not Path(url).exists()


class TestDryRuns:
    @pytest.mark.parametrize("layout", ["", "kafka-local+"])
    def test_one_says_what_a_push_then_does_and_writes_nothing(
        self, layout: str, run: Run, tmp_path: Path
    ) -> None:
        root = str(recorded("epochs", tmp_path / "broker"))
        url = f"{layout}{tmp_path / 'tier'}"
        planned = run("push", root, url, "--dry-run", "--json")
        assert (planned.code, planned.err) == (0, [])
        assert not (tmp_path / "tier").exists()
        done = run("push", root, url, "--json")
        assert json.loads(planned.out) == json.loads(done.out) | {"dry_run": True}
        assert rows(done.out)[0]["copied"] == 3

    @pytest.mark.parametrize("option", ["-n", "--dry-run"])
    def test_people_see_what_is_to_be_copied(
        self, option: str, run: Run, logdir: str, url: str
    ) -> None:
        head, row = run("push", logdir, url, option).text.splitlines()
        assert head.startswith("PARTITION  SEGMENTS  TO COPY  PRESENT  CHANGED  FAILED")
        assert row.split()[:7] == ["t-0", "3", "3", "0", "0", "0", "9"]

    def test_it_knows_what_is_there_and_what_is_corrupt(
        self, run: Run, logdir: str, url: str
    ) -> None:
        assert run("push", logdir, url).code == 0
        first, second, _ = sorted(Path(url).rglob("*.segment"))
        first.unlink()
        second.unlink()
        log = Path(logdir) / "t-0" / f"{10:020d}.log"
        log.write_bytes(flipped(log.read_bytes(), 100))
        before = sorted(Path(url).rglob("*"))
        planned = run("push", logdir, url, "--dry-run", "--json")
        assert (planned.code, len(planned.err)) == (4, 1)
        (row,) = rows(planned.out)
        assert (row["copied"], row["present"], row["failed"]) == (1, 1, 1)
        assert sorted(Path(url).rglob("*")) == before

    def test_it_only_reads_from_a_remote_store(
        self, run: Run, logdir: str, s3_proxied: ProxiedBucket
    ) -> None:
        assert run("push", logdir, *given(s3_proxied), "-n").code == 0
        assert run("push", logdir, *given(s3_proxied), "--topic", "t").code == 0
        s3_proxied.proxy.clear()
        done = run("push", logdir, *given(s3_proxied), "-n", "--active", "--json")
        assert (rows(done.out)[0]["present"], rows(done.out)[0]["copied"]) == (3, 1)
        methods = {request.method for request in s3_proxied.proxy.requests()}
        assert methods <= {"GET", "HEAD"}

    def test_what_cannot_be_written_is_refused_as_ever(
        self, run: Run, logdir: str, url: str
    ) -> None:
        done = run("push", logdir, url, "-n", "--plugin", "kafka-log")
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "read only" in done.err[0]


class TestExclude:
    @pytest.fixture
    def several(self, logdir: str) -> str:
        for name in ("tmp.a-0", "tmp.b-0", "u-0", "__x-0"):
            logs = {0: log_of(0), 10: b""}
            write_log(Path(logdir), logs, partition=name, topic_id=OTHER_ID)
        return logdir

    @pytest.mark.parametrize(
        ("words", "left"),
        [
            (["--exclude", "tmp.*"], ["t-0", "u-0"]),
            (["--exclude", "tmp.?", "--exclude", "[uv]"], ["t-0"]),
            (["--exclude", "T*", "--exclude", "tmp"], None),
            (["--topic", "__x", "--topic", "u", "--exclude", "__*"], ["u-0"]),
        ],
        ids=str,
    )
    def test_topics_that_match_are_left_out(
        self, words: list[str], left: list[str] | None, run: Run, several: str, url: str
    ) -> None:
        done = run("push", several, url, "--json", *words)
        assert (done.code, done.err) == (0, [])
        everything = ["t-0", "tmp.a-0", "tmp.b-0", "u-0"]
        found = [row["partition"] for row in rows(done.out)]
        assert found == (everything if left is None else left)

    def test_where_none_is_left_nothing_is_found(
        self, run: Run, several: str, url: str
    ) -> None:
        done = run("push", several, url, "--exclude", "*")
        assert (done.code, done.out, len(done.err)) == (3, b"", 1)
        assert done.err[0].endswith(f"a topic in {several} that --exclude leaves")
        assert not Path(url).exists()


class TestConcurrency:
    @pytest.mark.parametrize("number", [1, 3])
    def test_so_many_partitions_are_copied_at_the_same_time(
        self,
        number: int,
        run: Run,
        url: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for partition in range(6):
            logs = {0: log_of(0), 10: b""}
            write_log(tmp_path / "logs", logs, partition=f"t-{partition}")
        together = threading.Barrier(number, timeout=60)
        under_way: list[object] = []
        most = []
        put = ObjectStore.put

        def watched(
            self: ObjectStore, key: str, data: bytes, *, overwrite: bool
        ) -> None:
            under_way.append(key)
            most.append(len(under_way))
            together.wait()
            under_way.pop()
            put(self, key, data, overwrite=overwrite)

        monkeypatch.setattr(ObjectStore, "put", watched)
        words = ("--concurrency", str(number), "--json")
        done = run("push", str(tmp_path / "logs"), url, *words)
        assert [row["copied"] for row in rows(done.out)] == [1] * 6
        assert max(most) == number

    @pytest.mark.parametrize("number", ["0", "-1", "x"])
    def test_what_is_none_is_refused(
        self, number: str, run: Run, logdir: str, url: str
    ) -> None:
        done = run("push", logdir, url, "--concurrency", number)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)


class TestBandwidth:
    @pytest.mark.parametrize(
        ("given", "rate"),
        [
            ("800", 800),
            ("10B", 10),
            ("800K", 800 << 10),
            ("1.5M", 1.5 * (1 << 20)),
            ("2g", 2 << 30),
            ("1MiB", 1 << 20),
            ("1Ti", 1 << 40),
        ],
    )
    def test_what_is_sent_keeps_the_rate(
        self,
        given: str,
        rate: float,
        run: Run,
        logdir: str,
        url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        rates: list[float] = []
        slept: list[float] = []

        def make(rate: float) -> RateLimit:
            rates.append(rate)
            return RateLimit(rate, clock=lambda: 0.0, sleep=slept.append)

        monkeypatch.setattr("tieredfs.cli.push.RateLimit", make)
        assert run("push", logdir, url, "--bwlimit", given).code == 0
        assert rates == [rate]
        first, second, _ = (f.stat().st_size for f in sorted(Path(url).rglob("*.seg*")))
        assert slept == pytest.approx([first / rate, (first + second) / rate])

    @pytest.mark.parametrize("given", ["0", "0.0M", "-1", "1X", "K", "1.5.2", "nan"])
    def test_what_is_none_is_refused(
        self, given: str, run: Run, logdir: str, url: str
    ) -> None:
        done = run("push", logdir, url, "--bwlimit", given)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "is not a number of bytes a second, such as 800K or 1.5M" in done.err[0]
        assert not Path(url).exists()


class TestCorruptSegments:
    @pytest.fixture
    def damaged(self, logdir: str) -> str:
        log = Path(logdir) / "t-0" / f"{10:020d}.log"
        log.write_bytes(flipped(log.read_bytes(), 100))
        return logdir

    def test_one_fails_alone_with_a_line_and_exit_code_4(
        self, run: Run, damaged: str, url: str
    ) -> None:
        done = run("push", damaged, url)
        assert done.code == 4
        assert done.text.splitlines()[1].split()[1:6] == ["3", "2", "0", "0", "1"]
        (line,) = done.err
        assert line.startswith("tieredfs: corrupt batch: ")
        assert f"{damaged}/t-0/{10:020d}" in line

    def test_programs_are_told_why(self, run: Run, damaged: str, url: str) -> None:
        done = run("push", damaged, url, "--json")
        told = json.loads(done.out)
        assert (done.code, len(done.err)) == (4, 1)
        assert told["partitions"][0]["failed"] == 1
        (error,) = told["errors"]
        assert f"t-0/{10:020d}" in error

    def test_verify_names_the_hole_that_it_left(
        self, run: Run, damaged: str, url: str
    ) -> None:
        run("push", damaged, url)
        done = run("verify", url)
        assert done.code == 4
        assert "the offsets 10 to 19" in done.text


def test_a_damaged_segment_is_repaired_as_verify_says(
    run: Run, logdir: str, url: str
) -> None:
    run("push", logdir, url)
    victim = sorted(Path(url).rglob("*.segment"))[1]
    whole = victim.read_bytes()
    victim.write_bytes(flipped(whole, 100))
    done = run("verify", url, "--deep")
    assert done.code == 4
    assert "push --repair LOGDIR URL" in done.text.splitlines()[-1]
    done = run("push", logdir, url, "--repair", "--json")
    (row,) = rows(done.out)
    assert (done.code, row["present"], row["copied"], row["repaired"]) == (0, 2, 1, 1)
    assert victim.read_bytes() == whole
    done = run("verify", url, "--deep")
    assert (done.code, "--repair" in done.text) == (0, False)


def test_a_second_push_reads_no_log_that_has_not_changed(
    logdir: str, url: str, tmp_path: Path
) -> None:
    env = {"TIEREDFS_CACHE_DIR": str(tmp_path / "cache")}
    settled = (
        "from tieredfs.log.push import push_record; push_record._MIN_AGE_NS = -1\n"
    )
    blind = (
        "from tieredfs.storage.layouts.kafka_log import KafkaLog\n"
        "KafkaLog.stream_log = KafkaLog.fetch_log_segment = None\n"
    )
    for before, present in ((settled, 0), (blind, 3)):
        with start_program(before, "push", logdir, url, "--json", env=env) as process:
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert rows(out)[0]["present"] == present
    assert [file.parent.name for file in (tmp_path / "cache").glob("*/*")] == ["pushed"]


class TestWhatFailsDoesNotEndThePush:
    def test_a_topic_that_the_target_cannot_hold_is_counted(
        self, run: Run, tmp_path: Path
    ) -> None:
        for topic in ("compacted", "plain"):
            root = recorded(topic, tmp_path / "broker")
        done = run("push", str(root), f"kafka-local+{tmp_path / 'tier'}", "--json")
        assert (done.code, len(done.err)) == (2, 1)
        assert "its log is compacted" in done.err[0]
        found = {
            row["partition"]: (row["copied"], row["failed"]) for row in rows(done.out)
        }
        assert found.pop("compacted-0") == (0, 1)
        assert all(copied and not failed for copied, failed in found.values())

    @pytest.mark.parametrize("name", [f"{10:020d}.log", "."])
    def test_what_may_not_be_read_is_counted_and_ends_with_6(
        self, name: str, logdir: str, url: str
    ) -> None:
        write_log(
            Path(logdir), {0: log_of(0), 10: b""}, partition="u-0", topic_id=OTHER_ID
        )
        locked = Path(logdir) / "t-0" / name
        locked.chmod(0o300)
        try:
            with start_program(GIVE_UP_PRIVILEGES, "push", logdir, url, "--json") as it:
                out, err = it.communicate(timeout=60)
        finally:
            locked.chmod(0o700)
        assert it.returncode == 6
        assert b"permission denied" in err
        found = {row["partition"]: (row["copied"], row["failed"]) for row in rows(out)}
        assert found == {"t-0": (0 if name == "." else 2, 1), "u-0": (1, 0)}

    def test_the_exit_code_is_that_of_the_most_serious_failure(
        self, run: Run, tmp_path: Path
    ) -> None:
        for topic in ("compacted", "plain"):
            root = recorded(topic, tmp_path / "broker")
        log = next(iter(sorted((root / "plain-0").glob("*.log"))))
        log.write_bytes(flipped(log.read_bytes(), 100))
        done = run("push", str(root), f"kafka-local+{tmp_path / 'tier'}")
        assert (done.code, len(done.err)) == (4, 2)


class TestTerminals:
    def test_a_bar_is_shown_on_one_and_the_table_in_the_pipe(
        self, tmp_path: Path
    ) -> None:
        root = recorded("epochs", tmp_path / "broker")
        done, seen = run_with_terminal(
            "push", str(root), str(tmp_path / "x"), on=STDERR
        )
        assert done.code == 0
        assert f"push {root}"[:20] in seen
        assert "━" in seen
        assert done.text.startswith("PARTITION  ")
        assert "\x1b" not in done.text

    def test_no_bar_is_shown_in_a_pipe(self, logdir: str, url: str) -> None:
        done = run_process("push", logdir, url)
        assert (done.code, done.err) == (0, [])


class TestInterruptions:
    @pytest.mark.parametrize("done_before", [0, 1, 2])
    def test_a_push_that_is_killed_in_a_put_leaves_whole_segments_and_is_taken_up(
        self, done_before: int, run: Run, logdir: str, s3_proxied: ProxiedBucket
    ) -> None:
        rule = s3_proxied.proxy.add("PUT", r"\.segment", hang=120, skip=done_before)
        with start_process("push", logdir, *given(s3_proxied)) as process:
            try:
                wait_until(lambda: rule.hits, process)
            finally:
                process.kill()
        s3_proxied.proxy.clear()
        place = Bucket(s3_proxied.url, s3_proxied.storage_options)
        stored = native(place)
        if done_before:
            assert run("verify", *given(place), "--deep").code == 0
            found = topic_of(stored).scan().to_table()["offset"].to_pylist()
            assert found == list(range(10 * done_before))
        else:
            assert list(stored.store.list()) == []
        done = run("push", logdir, *given(place), "--json")
        (row,) = rows(done.out)
        assert (row["present"], row["copied"]) == (done_before, 3 - done_before)
        assert run("verify", *given(place), "--deep").code == 0
        assert topic_of(stored).end_offsets() == {0: 30}

    def test_ctrl_c_ends_one_that_hangs_with_130_and_one_line(
        self, logdir: str, s3_proxied: ProxiedBucket
    ) -> None:
        rule = s3_proxied.proxy.add("PUT", r"\.segment", hang=120)
        with start_process("push", logdir, *given(s3_proxied)) as process:
            try:
                wait_until(lambda: rule.hits, process)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=10)
            finally:
                process.kill()
        assert process.returncode == 130
        assert (out, err.lstrip(b"\n")) == (b"", b"tieredfs: interrupted\n")

    @pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
    @pytest.mark.parametrize("compression", ["zstd", None])
    def test_a_signal_leaves_no_temporary_file(
        self,
        number: str,
        compression: str | None,
        logdir: str,
        s3_proxied: ProxiedBucket,
        tmp_path: Path,
    ) -> None:
        """One that is needed has no name; none is needed to store logs as they are."""
        rule = s3_proxied.proxy.add("PUT", r"\.segment", hang=120)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        spooled = (
            "import signal\n"
            "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup ignores it
            "from tieredfs.storage import spool_log\n"
            "from tieredfs.storage.segment_log import spool\n"
            "spool_log.MAX_MEMORY_BYTES = spool.MAX_MEMORY_BYTES = 0\n"
        )
        options = ("--plugin-options", json.dumps({"compression": compression}))
        arguments = ("push", logdir, *given(s3_proxied), *options)
        env = {"TMPDIR": str(scratch)}
        with start_program(spooled, *arguments, env=env) as process:
            try:
                wait_until(lambda: rule.hits, process)
                assert len(files_held(process.pid, scratch)) == bool(compression)
                assert list(scratch.iterdir()) == []
                process.send_signal(getattr(signal, number))
                process.communicate(timeout=10)
            finally:
                process.kill()
        expected = 130 if number == "SIGINT" else -getattr(signal, number)
        assert process.returncode == expected
        assert list(scratch.iterdir()) == []

    @pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
    def test_a_signal_takes_back_what_was_uploaded_in_parts(
        self, number: str, logdir: str, s3_proxied: ProxiedBucket
    ) -> None:
        rule = s3_proxied.proxy.add("PUT", "partNumber", hang=120)
        in_parts = (
            "from tieredfs.objects import ObjectStore\n"
            "ObjectStore._limits = lambda self, backend, size: backend.parts\n"
        )
        arguments = ("push", logdir, *given(s3_proxied))
        with start_program(in_parts, *arguments) as process:
            try:
                wait_until(lambda: rule.hits, process)
                process.send_signal(getattr(signal, number))
                process.communicate(timeout=10)
            finally:
                process.kill()
        s3_proxied.proxy.clear()
        store = ObjectStore(s3_proxied.url, s3_proxied.storage_options)
        assert store.abort_uploads(timedelta(0)) == []

    def test_a_store_that_always_fails_is_5(
        self, run: Run, logdir: str, s3_proxied: ProxiedBucket
    ) -> None:
        s3_proxied.proxy.add("PUT", r"\.segment", status=503, skip=1)
        done = run("push", logdir, *given(s3_proxied), "--deadline", "1")
        assert (done.code, done.out, len(done.err)) == (5, b"", 1)
        s3_proxied.proxy.clear()
        done = run("push", logdir, *given(s3_proxied), "--json")
        assert (rows(done.out)[0]["present"], rows(done.out)[0]["copied"]) == (1, 2)


def test_a_second_push_puts_nothing(
    run: Run, tmp_path: Path, s3_proxied: ProxiedBucket
) -> None:
    root = recorded("txn", tmp_path / "broker")
    assert run("push", str(root), *given(s3_proxied)).code == 0
    s3_proxied.proxy.clear()
    assert run("push", str(root), *given(s3_proxied)).code == 0
    assert {request.method for request in s3_proxied.proxy.requests()} == {"GET"}


class TestPrefixes:
    def test_the_layout_of_a_log_directory_may_be_named(
        self, run: Run, logdir: str, url: str
    ) -> None:
        done = run("push", f"kafka-log+{logdir}", url, "--json")
        assert (done.code, done.err) == (0, [])
        assert rows(done.out) == rows(run("push", logdir, f"{url}2", "--json").out)

    @pytest.mark.parametrize("name", ["single-object", "kafka-local", "nosuch"])
    def test_another_one_is_refused(self, name: str, run: Run, url: str) -> None:
        done = run("push", f"{name}+s3://me:topsecret@bucket/logs", url)
        assert (done.code, done.out) == (2, b"")
        (line,) = done.err
        assert f"layout of a log directory is kafka-log, not {name}: give s3://" in line
        assert "topsecret" not in line


def test_what_a_broker_tiered_is_no_log_directory(run: Run, url: str) -> None:
    done = run("push", str(KAFKA / "txn" / REMOTE), url)
    assert (done.code, len(done.err)) == (3, 1)
    assert "a tier of the layout kafka-local" in done.err[0]
    assert not Path(url).exists()
    assert ID not in done.err[0]


def test_a_segment_that_the_cleaner_is_replacing_ends_with_5(
    run: Run, logdir: str, url: str
) -> None:
    log = Path(logdir) / "t-0" / f"{10:020d}.log"
    log.rename(log.with_suffix(".log.swap"))
    done = run("push", logdir, url)
    assert done.code == 5
    assert done.text.splitlines()[1].split()[:6] == ["t-0", "2", "1", "0", "1", "0"]
    (line,) = done.err
    assert line.startswith(f"tieredfs: storage unavailable: {log}: ")
    assert "push again" in line


def test_a_log_of_another_topic_of_the_name_ends_with_4(
    run: Run, url: str, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        logs = {0: log_of(0, value=name), 10: b""}
        write_log(tmp_path / name, logs, topic_id=None)
    assert run("push", str(tmp_path / "old"), url).code == 0
    done = run("push", str(tmp_path / "new"), url)
    assert done.code == 4
    (line,) = done.err
    assert line.startswith("tieredfs: already exists: ")
    assert "recreated" in line


def test_a_folder_of_log_directories_is_not_found(
    run: Run, url: str, tmp_path: Path
) -> None:
    for number in range(2):
        small(tmp_path / "disks" / f"data-{number}")
    done = run("push", str(tmp_path / "disks"), url)
    assert (done.code, done.out, len(done.err)) == (3, b"", 1)
    assert "give the log directory itself" in done.err[0]
    assert not Path(url).exists()


def test_nothing_is_put_into_the_log_directory(run: Run, logdir: str) -> None:
    inside = [logdir, f"{logdir}/archive", f"{logdir}/../broker/archive"]
    inside += [f"file://{place}" for place in inside]
    inside += [f"local://{logdir}/a", f"dir::{logdir}/a", f"dir://a::file://{logdir}"]
    for source, place in product((logdir, f"file://{logdir}"), inside):
        done = run("push", source, place)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "is in the log directory" in done.err[0]
    assert [path.name for path in Path(logdir).iterdir()] == ["t-0"]


def test_nothing_is_put_into_a_log_directory_in_a_bucket(
    run: Run, logdir: str, memory: ObjectStore
) -> None:
    for file in Path(logdir).rglob("*.*"):
        memory.put(str(file.relative_to(logdir)), file.read_bytes(), overwrite=False)
    before = {entry.key for entry in memory.list()}
    done = run("push", memory.url, f"{memory.url}/archive")
    assert (done.code, done.out, len(done.err)) == (2, b"", 1)
    assert "is in the log directory" in done.err[0]
    assert {entry.key for entry in memory.list()} == before


def test_a_layout_is_not_put_into_a_tier_of_another(
    run: Run, logdir: str, url: str
) -> None:
    assert run("push", logdir, url).code == 0
    before = sorted(Path(url).rglob("*"))
    for place in (("--plugin", "kafka-local", url), (f"kafka-local+{url}",)):
        done = run("push", logdir, *place)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "a tier of the layout 'single-object' is stored there" in done.err[0]
    assert sorted(Path(url).rglob("*")) == before
    assert run("push", logdir, f"single-object+{url}").code == 0


def test_a_log_directory_whose_name_is_no_text_is_pushed(tmp_path: Path) -> None:
    root = recorded("txn", Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff\xe9r")))
    for outcome in ("copied", "present"):
        done = run_process("push", str(root), str(tmp_path / "tier"), "--json")
        assert (done.code, done.err) == (0, [])
        assert rows(done.out)[0][outcome] > 0


def test_a_topic_id_that_is_damaged_is_4_and_nothing_is_pushed_as_another_topic(
    run: Run, tmp_path: Path
) -> None:
    root = recorded("txn", tmp_path / "broker")
    assert run("push", str(root), str(tmp_path / "tier")).code == 0
    (metadata,) = root.glob("*/partition.metadata")
    metadata.write_bytes(b"")
    done = run("push", str(root), str(tmp_path / "tier"), "--json")
    assert done.code == 4
    assert "partition.metadata" in " ".join(done.err)
    assert run("verify", str(tmp_path / "tier")).text.count("txn-0") == 1
