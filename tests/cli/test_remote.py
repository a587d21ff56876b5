"""The command against a real S3 that fails, hangs and refuses."""

import json
import signal
import time
from pathlib import Path

import pytest

from cli.commands import Outcome, Run, run_process, start_process, wait_until
from servers import Bucket, ProxiedBucket
from servers.ports import free_ports
from support.kafka_data import LOCAL
from support.stores import files_of, fill, open_store

TOPIC = "two-partitions"


@pytest.fixture
def proxied(s3_proxied: ProxiedBucket, three: str) -> ProxiedBucket:
    """The topic in a bucket behind a proxy that has seen nothing yet."""
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    fill(open_store(place), files_of(Path(three)))
    s3_proxied.proxy.clear()
    return s3_proxied


def given(place: Bucket | ProxiedBucket, **changed: object) -> tuple[str, ...]:
    """Return the URL, and the option that reaches it."""
    return place.url, "--storage-options", json.dumps(place.storage_options | changed)


def check_failure(done: Outcome, code: int, *said: str) -> None:
    assert len(done.err) == 1, done.err
    assert done.err[0].startswith("tieredfs: ")
    for part in said:
        assert part in done.err[0]
    assert (done.code, done.out) == (code, b"")


def test_a_store_that_always_answers_503_is_5(run: Run, proxied: ProxiedBucket) -> None:
    proxied.proxy.add(status=503)
    done = run("ls", *given(proxied), "--deadline", "1")
    check_failure(done, 5, proxied.url)


def test_a_store_that_answers_503_a_few_times_is_asked_again(
    run: Run, proxied: ProxiedBucket
) -> None:
    rule = proxied.proxy.add(status=503, times=2)
    done = run("ls", *given(proxied))
    assert (done.code, done.text, done.err) == (0, f"{TOPIC}\n", [])
    assert rule.hits == 2


def test_a_store_that_hangs_is_5_when_the_deadline_has_passed(
    run: Run, proxied: ProxiedBucket
) -> None:
    assert run("ls", *given(proxied)).code == 0  # imports the client
    proxied.proxy.add(hang=60)
    start = time.monotonic()
    done = run("ls", *given(proxied), "--deadline", "1")
    seconds = time.monotonic() - start
    check_failure(done, 5, "deadline exceeded: ", proxied.url, "1 s")
    assert 1 <= seconds < 2.5


def test_a_store_that_hangs_during_a_read_is_5(
    run: Run, proxied: ProxiedBucket
) -> None:
    proxied.proxy.add("GET", r"\.log", hang=60)
    done = run("cat", *given(proxied), TOPIC, "--deadline", "1")
    check_failure(done, 5, "deadline exceeded: ", ".log")


def test_a_port_that_refuses_is_5(run: Run, proxied: ProxiedBucket) -> None:
    (port,) = free_ports(1)
    refused = given(proxied, endpoint_url=f"http://127.0.0.1:{port}")
    done = run("ls", *refused, "--deadline", "1")
    check_failure(done, 5, proxied.url)


@pytest.mark.parametrize("command", [("ls",), ("cat", TOPIC)], ids=" ".join)
def test_a_wrong_secret_is_6_and_no_secret_is_shown(
    command: tuple[str, ...], run: Run, in_s3: Bucket
) -> None:
    verb, *rest = command
    done = run(verb, *given(in_s3, secret="wrong-secret-0123456789"), *rest)
    check_failure(done, 6, "permission denied: ", in_s3.url)
    assert "wrong-secret-0123456789" not in done.err[0]


def test_a_bucket_that_is_not_there_is_3(run: Run, in_s3: Bucket) -> None:
    missing = Bucket("s3://no-such-bucket-0123456789/x", in_s3.storage_options)
    check_failure(run("ls", *given(missing)), 3, "not found: ", missing.url)


@pytest.mark.parametrize("fault", [{"flip_byte": 200}, {"cut_after": 100, "times": 1}])
def test_bytes_that_are_damaged_on_the_way_give_no_wrong_answer(
    fault: dict[str, int], run: Run, proxied: ProxiedBucket, three: str
) -> None:
    how = (TOPIC, "--format", "jsonl", "--encoding", "hex")
    expected = run("cat", three, *how).out
    proxied.proxy.add("GET", r"\.log", **fault)  # type: ignore[arg-type] # a part of them
    done = run("cat", *given(proxied), *how)
    assert (done.code, done.out) in {(0, expected), (4, b"")}


def test_records_are_the_same_from_s3_by_changing_only_the_url(
    run: Run, in_s3: Bucket, three: str
) -> None:
    how = (TOPIC, "--format", "jsonl", "--encoding", "base64")
    done = run("cat", *given(in_s3), *how)
    assert (done.code, done.err) == (0, [])
    assert done.out == run("cat", three, *how).out


def test_fsspecs_environment_reaches_a_store_without_an_option(in_s3: Bucket) -> None:
    options = in_s3.storage_options
    env = {
        "FSSPEC_S3_KEY": options["key"],
        "FSSPEC_S3_SECRET": options["secret"],
        "FSSPEC_S3_ENDPOINT_URL": options["endpoint_url"],
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = run_process("ls", in_s3.url, TOPIC, "--json", env=env)
    assert (done.code, done.err) == (0, [])
    assert [row["end_offset"] for row in json.loads(done.out)["partitions"]] == [
        255,
        225,
        250,
    ]


def test_fsspecs_configuration_files_reach_a_store_without_an_option(
    in_s3: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "conf.json").write_text(json.dumps({"s3": in_s3.storage_options}))
    env = {"FSSPEC_CONFIG_DIR": str(tmp_path)}
    done = run_process("ls", in_s3.url, env=env)
    assert (done.code, done.text, done.err) == (0, f"{TOPIC}\n", [])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ls",), 0),
        (("ls", TOPIC, "--json"), 0),
        (("cat", TOPIC, "--json", "--limit", "1"), 0),
        (("ls", "nosuch"), 3),
        (("cat", TOPIC, "--from", "100000"), 3),
        (("ls", "--plugin", "nosuch"), 2),
        (("ls", "--plugin-options", '{"nosuch": 1}'), 2),
    ],
    ids=str,
)
def test_no_credential_is_in_any_output(
    arguments: tuple[str, ...], code: int, run: Run, in_s3: Bucket
) -> None:
    verb, *rest = arguments
    done = run(verb, *given(in_s3), *rest)
    assert done.code == code
    for name in ("key", "secret"):
        assert in_s3.storage_options[name] not in done.text
        assert in_s3.storage_options[name] not in "".join(done.err)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["cat", "URL", TOPIC], "list-type"),
        (["cat", "URL", TOPIC], r"\.log"),
        (["cat", "URL", TOPIC, "--format", "arrow"], r"\.log"),
        (["cat", "URL", TOPIC], r"\.index"),
        (["ls", "URL", TOPIC], r"\.index"),
        (["verify", "URL"], r"\.log"),
        (["pull", "URL", "FOLDER"], r"\.log"),
        (["push", "FOLDER", "URL"], r"\.log"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_ctrl_c_ends_a_command_that_hangs_with_130_and_one_line(
    command: list[str],
    where: str,
    proxied: ProxiedBucket,
    data: Path,
    tmp_path: Path,
) -> None:
    verb, *rest = command
    url, *options = given(proxied)
    folder = tmp_path / "folder"
    if verb == "push":  # of logs that are not there yet
        folder = data / "kafka" / "plain" / LOCAL
    places = {"URL": url, "FOLDER": str(folder)}
    words = [places.get(word, word) for word in rest]
    rule = proxied.proxy.add("PUT" if verb == "push" else "GET", where, hang=900)
    with start_process(verb, *words, *options, "--deadline", "900") as process:
        try:
            wait_until(lambda: rule.hits, process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    # A line feed first, for a terminal has just shown ^C.
    assert (out, err.lstrip(b"\n")) == (b"", b"tieredfs: interrupted\n")
