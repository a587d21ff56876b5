"""The commands on every store: only the URL and its options are others."""

import json
from pathlib import Path

import pytest

from cli.commands import Outcome, Run
from servers import Bucket
from support.log_directories import closed_files, recorded
from support.stores import CLOUDS, files_of, fill, make_place, open_store

KINDS = ("local", "memory", *CLOUDS)
TOPIC = "two-partitions"


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place with nothing in it."""
    return make_place(request.param, request, tmp_path)


def given(place: Bucket) -> tuple[str, ...]:
    """Return the URL, and the option that reaches it."""
    return place.url, "--storage-options", json.dumps(place.storage_options)


def check(done: Outcome) -> Outcome:
    assert (done.code, done.err) == (0, [])
    return done


def test_what_a_broker_tiered_is_read_alike(
    run: Run, place: Bucket, three: str
) -> None:
    fill(open_store(place), files_of(Path(three)))
    for words in (
        ["ls"],
        ["ls", TOPIC],
        ["cat", TOPIC, "--format", "jsonl", "--encoding", "base64"],
        [
            "cat",
            TOPIC,
            "--partition",
            "1",
            "--from",
            "100",
            "--limit",
            "7",
            "--encoding",
            "hex",
        ],
        ["verify", TOPIC, "--deep"],
    ):
        verb, *rest = words
        done = check(run(verb, *given(place), *rest))
        assert done.out == check(run(verb, three, *rest)).out
        assert done.out


def test_a_log_directory_goes_there_and_comes_back(
    run: Run, place: Bucket, tmp_path: Path
) -> None:
    root = recorded("epochs", tmp_path / "broker")
    closed = closed_files(root)
    (row,) = json.loads(check(run("push", str(root), *given(place), "--json")).out)[
        "partitions"
    ]
    assert (row["copied"], row["present"], row["failed"]) == (3, 0, 0)
    (row,) = json.loads(check(run("push", str(root), *given(place), "--json")).out)[
        "partitions"
    ]
    assert (row["copied"], row["present"], row["failed"]) == (0, 3, 0)
    check(run("verify", *given(place), "--deep"))
    how = ("--format", "jsonl", "--encoding", "hex")
    done = check(run("cat", *given(place), "epochs", *how))
    assert done.out.count(b"\n") == 500
    check(run("pull", *given(place)[:1], str(tmp_path / "back"), *given(place)[1:]))
    assert closed.items() <= files_of(tmp_path / "back").items()


def test_what_is_not_there_is_3_and_no_secret_is_shown(run: Run, place: Bucket) -> None:
    done = run("ls", *given(place))
    assert (done.code, done.out, len(done.err)) == (3, b"", 1)
    assert done.err[0].startswith("tieredfs: not found: ")
    assert "tieredfs-secret" not in done.err[0]
