"""Ctrl-C, and the system's own signals, end every command, whatever it waits for."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cli.commands import start_process, wait_until
from cli.readers import small_pipe
from servers.stalling import Stalling
from support.child_process import child_environment
from tieredfs import ObjectStore, Tier
from tieredfs.cli.output.records import FORMATS
from tieredfs.storage.layouts.single_object.layout import SingleObject

COMMANDS = (
    "ls URL",
    "ls URL topic --json",
    "cat URL topic",
    "cat URL topic --format arrow",
    "verify URL",
    "push LOGS URL",
    "push LOGS URL --watch",
    "pull URL FOLDER",
    "scrub URL --delete",
    "migrate URL FOLDER",
    "expire URL --older-than 1d",
    "rm URL topic --yes",
    "demo --url URL",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_ends_every_command_whose_store_never_answers(
    command: str, number: signal.Signals, data: Path, tmp_path: Path
) -> None:
    with Stalling() as server:
        places = {
            "URL": "s3://bucket/root",
            "LOGS": str(data / "kafka" / "plain" / "raw-log-dir"),
            "FOLDER": str(tmp_path / "folder"),
        }
        keys = {"key": "key", "secret": "secret", "endpoint_url": server.url}
        options = ("--storage-options", json.dumps(keys), "--deadline", "900")
        words = [places.get(word, word) for word in command.split()]
        with start_process(*words, *options) as process:
            try:
                assert server.asked.acquire(timeout=60)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
            finally:
                process.kill()
    by = "" if number == signal.SIGINT else f" by {number.name}"
    said = f"tieredfs: interrupted{by}\n".encode()
    code = 130 if number == signal.SIGINT else -number
    assert (process.returncode, out, err) == (code, b"", said)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tier with a topic, ``large``, of 4 MiB: more than one batch."""
    url = str(tmp_path_factory.mktemp("large"))
    values = pa.table({"value": [bytes(1 << 10)] * (4 << 10)})
    Tier(SingleObject(ObjectStore(url))).create_topic("large").append(values)
    return url


@pytest.mark.parametrize("form", FORMATS)
def test_ctrl_c_ends_cat_while_a_large_batch_waits_for_its_reader(
    form: str, large: str
) -> None:
    with small_pipe() as pipe:
        writer = pipe.writer.fileno()
        with start_process(
            "cat", large, "large", "--format", form, stdout=writer
        ) as process:
            try:
                wait_until(pipe.is_full, process)
                pipe.reader.read(1 << 12)  # it is in the midst of a batch now
                wait_until(pipe.is_full, process)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30)
            finally:
                process.kill()
    assert (process.returncode, err) == (130, b"tieredfs: interrupted\n")


HIDDEN = """
from tieredfs.cli import app

def invoke(arguments):
    raise SystemError("returned a result with an exception set") from {raised}

app._invoke = invoke
app.main(["ls"])
"""


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("KeyboardInterrupt()", 130, "tieredfs: interrupted"),
        ("app._EndedError(15)", -15, "SIGTERM"),
        ("ValueError()", 1, "SystemError"),
    ],
)
def test_a_signal_that_a_client_in_c_hides_ends_a_command_as_any_other(
    raised: str, code: int, said: str
) -> None:
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", HIDDEN.format(raised=raised)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=child_environment(),
    )
    assert run.returncode == code
    assert said in run.stderr
    assert ("Traceback" in run.stderr) is (code == 1)
