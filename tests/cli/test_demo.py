"""``tieredfs demo``: the main job, with figures that are true."""

import json
import os
import shlex
import shutil
import uuid
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from cli.commands import Outcome, Run, run_process
from cli.readers import start_program
from servers import Bucket, ProxiedBucket
from support.child_process import GIVE_UP_PRIVILEGES
from support.kafka_data import KAFKA, REMOTE
from support.stores import files_of

PARTITIONS = {"0": 255, "1": 225, "2": 250}
TOPIC = "two-partitions"
MIN_BYTES = 160_000  # of the segments that the demo puts into a store


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """An environment without Java, whose temporary files are this test's own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    return {"PATH": str(programs), "JAVA_HOME": "", "TMPDIR": str(tmp_path)}


@pytest.fixture
def memory() -> Iterator[str]:
    """A place in this process's memory, of this test's own."""
    name = f"demo-{uuid.uuid4().hex}"
    yield f"memory://{name}"
    MemoryFileSystem().rm(f"/{name}", recursive=True)


def answer_of(done: Outcome) -> Any:  # noqa: ANN401 - JSON
    assert (done.code, done.err) == (0, [])
    return json.loads(done.out)


def options_of(place: Bucket | ProxiedBucket) -> tuple[str, str]:
    return "--storage-options", json.dumps(place.storage_options)


def check_steps(steps: list[Mapping[str, Any]]) -> None:
    """Check what was read against what Kafka's consumer said of the topic."""
    put, again, listed, opened, whole, from_offset, from_time, fetch, *found = steps
    assert [s["records"] for s in (put, again, listed, opened, *found)] == [None] * 6
    assert put["bytes"] >= MIN_BYTES
    assert again["bytes"] == 0
    assert whole["records"] == sum(PARTITIONS.values())
    assert from_offset["records"] == 255 - 127
    assert "from offset 127" in from_offset["asked"]
    assert 0 < from_time["records"] < whole["records"]
    assert 0 < fetch["records"] < from_offset["records"]
    for step in steps:
        assert step["requests"] > 0
        assert step["milliseconds"] >= 0
    for step in (whole, from_offset, from_time, fetch):
        assert step["bytes"] > 0
    cold, warm = found  # after a restart no index is asked for
    assert cold["requests"] >= warm["requests"] + len(PARTITIONS)


def table_of(text: str) -> list[list[str]]:
    """Return the words of the table's lines, without the last column."""
    lines = text.splitlines()
    (first,) = (n for n, line in enumerate(lines) if line.startswith("WHAT WAS ASKED"))
    return [line.split()[:-1] for line in lines[first : lines.index("", first)]]


def check_commands(done: Outcome, *options: str) -> None:
    """Check that the commands to try next do what they look like."""
    _, _, after = done.text.partition("\nTry next")
    commands = after.splitlines()[1:]
    assert len(commands) >= 3
    for command in commands:
        name, *arguments = shlex.split(command.partition(">")[0])
        assert name == "tieredfs"
        tried = run_process(*arguments, *options)
        assert (tried.code, bool(tried.out)) == (0, True)


def test_the_data_ships_with_the_package_and_is_small() -> None:
    data = Path(str(files("tieredfs") / "demo_data"))
    assert 0 < sum(map(len, files_of(data).values())) < 300_000


def test_the_requests_in_the_table_are_those_that_a_server_sees(
    s3_proxied: ProxiedBucket, no_java: dict[str, str]
) -> None:
    where = ("--url", f"{s3_proxied.url}/demo", *options_of(s3_proxied))
    answer = answer_of(run_process("demo", "--json", *where, env=no_java))
    check_steps(answer["steps"])
    said = sum(step["requests"] for step in answer["steps"])
    assert said == len(s3_proxied.proxy.requests())
    puts = s3_proxied.proxy.requests("PUT")
    listings = 3 + 1  # what is there already of each partition; what has expired
    found_out = 1  # that nothing is, and so no layout
    assert answer["steps"][0]["requests"] == len(puts) + listings + found_out
    assert answer["steps"][1]["requests"] == listings


def test_the_table_in_the_readme_is_true_but_for_the_times(
    no_java: dict[str, str],
) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    shown = table_of(readme.read_text())
    assert len(shown) == 11
    assert shown == table_of(run_process("demo", env=no_java).text)


def test_without_java_the_demo_ends_well_and_says_what_to_install(
    no_java: dict[str, str],
) -> None:
    answer = answer_of(run_process("demo", "--json", env=no_java))
    check_steps(answer["steps"])
    assert answer["spark"]["counts"] is None
    assert "openjdk-17-jre-headless" in answer["spark"]["note"]
    assert "\n" not in answer["spark"]["note"]


def test_without_java_the_text_has_one_line_on_it_and_commands_that_work(
    no_java: dict[str, str],
) -> None:
    done = run_process("demo", env=no_java)
    assert (done.code, done.err) == (0, [])
    lines = done.text.splitlines()
    assert sum("openjdk-17-jre-headless" in line for line in lines) == 1
    assert "WHAT WAS ASKED" in done.text
    check_commands(done)


def test_without_pyspark_the_note_is_the_line_that_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tieredfs.cli.demo.find_spec", lambda _: None)
    spark = answer_of(run("demo", "--json", "--url", str(tmp_path / "demo")))["spark"]
    assert spark["counts"] is None
    assert "pip install 'tieredfs[spark]'" in spark["note"]


def test_in_memory_spark_is_left_out_with_a_reason(run: Run, memory: str) -> None:
    answer = answer_of(run("demo", "--json", "--url", memory))
    check_steps(answer["steps"])
    assert answer["spark"]["counts"] is None
    assert "memory://" in answer["spark"]["note"]


def test_in_memory_nothing_is_suggested_that_another_process_cannot_see(
    run: Run, memory: str
) -> None:
    done = run("demo", "--url", memory)
    assert (done.code, done.err) == (0, [])
    _, _, after = done.text.partition("Try next")
    assert [line.strip() for line in after.splitlines()[1:]] == ["tieredfs demo"]


def test_a_place_with_a_space_is_quoted_in_the_commands(
    no_java: dict[str, str], tmp_path: Path
) -> None:
    done = run_process("demo", "--url", str(tmp_path / "a place"), env=no_java)
    assert (done.code, done.err) == (0, [])
    check_commands(done)


@pytest.mark.parametrize("form", [(), ("--json",)], ids=str)
def test_with_credentials_the_commands_say_so_and_no_secret_is_shown(
    form: tuple[str, ...], s3_bucket: Bucket, no_java: dict[str, str]
) -> None:
    where = ("--url", f"{s3_bucket.url}/demo", *options_of(s3_bucket))
    done = run_process("demo", *form, *where, env=no_java)
    assert (done.code, done.err) == (0, [])
    if not form:
        assert "Try next, with the same --storage-options:" in done.text
        check_commands(done, *options_of(s3_bucket))
    for name in ("key", "secret"):
        assert s3_bucket.storage_options[name] not in done.text


def test_a_demo_can_be_repeated_in_the_same_place(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tieredfs.cli.demo.find_spec", lambda _: None)
    url = str(tmp_path / "demo")
    first, second = (answer_of(run("demo", "--json", "--url", url)) for _ in "12")
    pushed, *read = second["steps"]
    assert pushed["bytes"] == 0
    for key in ("asked", "records", "requests"):
        assert [s[key] for s in first["steps"][1:]] == [s[key] for s in read]


def test_a_plugin_that_prints_does_not_print_into_the_answer(
    no_java: dict[str, str], tmp_path: Path
) -> None:
    info = tmp_path / "loud-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[tieredfs.plugins]\nloud = loud:Layout\n")
    module = "tieredfs.storage.layouts.kafka_log"
    source = f"from {module} import KafkaLog as Layout\nprint('loud')\n"
    (tmp_path / "loud.py").write_text(source)
    env = no_java | {"PYTHONPATH": str(tmp_path)}
    (tmp_path / "demo").mkdir()
    stored = tmp_path / "demo" / "@tieredfs"  # so that a layout is to be found out
    stored.mkdir()
    (stored / "x").write_bytes(b"1")
    done = run_process("demo", "--json", "--url", str(tmp_path / "demo"), env=env)
    assert (done.code, done.err[0]) == (0, "loud")
    assert json.loads(done.out)["steps"]


@pytest.mark.xdist_group("spark")
def test_spark_counts_the_records_by_partition_in_a_store_of_the_users(
    s3_proxied: ProxiedBucket, tmp_path: Path
) -> None:
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        reason = "Spark needs Java 17: apt-get install openjdk-17-jre-headless (Debian)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    where = ("--url", f"{s3_proxied.url}/demo", *options_of(s3_proxied))
    env = {"TMPDIR": str(tmp_path)}
    answer = answer_of(run_process("demo", "--json", *where, env=env, seconds=110))
    check_steps(answer["steps"])
    assert answer["spark"] == {"counts": PARTITIONS, "note": None}
    assert (answer["url"], answer["topic"]) == (f"{s3_proxied.url}/demo", TOPIC)
    said = sum(step["requests"] for step in answer["steps"])
    before_spark = s3_proxied.proxy.requests()[:said]
    assert len([r for r in before_spark if r.method == "PUT"]) == len(
        s3_proxied.proxy.requests("PUT")
    )
    assert len(s3_proxied.proxy.requests()) > said  # Spark has read from it too


def test_a_demo_in_a_place_of_the_users_measures_its_own_topic_in_their_layout(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tieredfs.cli.demo.find_spec", lambda _: None)
    shutil.copytree(KAFKA / "plain" / REMOTE, tmp_path, dirs_exist_ok=True)
    answer = answer_of(run("demo", "--json", "--url", str(tmp_path)))
    check_steps(answer["steps"])
    assert answer["topic"] == TOPIC
    assert run("ls", str(tmp_path)).text == f"plain\n{TOPIC}\n"


def test_a_place_that_may_not_be_written_to_is_said_to_be_so(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0o555)
    with start_program(GIVE_UP_PRIVILEGES, "demo", "--url", str(place)) as process:
        _, err = process.communicate()
    assert process.returncode == 6
    assert err.startswith(b"tieredfs: permission denied: ")
