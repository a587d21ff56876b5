"""Run the ``tieredfs`` command, here or as a process, with or without a terminal."""

import contextlib
import json
import os
import pty
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from servers.process import executable
from support.golden import expected_record_facts
from support.kafka_data import KAFKA

__all__ = [
    "Outcome",
    "Run",
    "expected_records",
    "ours",
    "run_process",
    "run_with_terminal",
    "start_process",
    "start_with_terminal",
    "wait_until",
]

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Its exit code.
        out: What it wrote to standard output.
        err: What it wrote to standard error, as lines.
    """

    code: int
    out: bytes
    err: list[str]

    @property
    def text(self) -> str:
        """Return standard output as text."""
        return self.out.decode()


class Run(Protocol):
    """Run the command in this process."""

    def __call__(self, *arguments: str) -> Outcome:
        """Run it with these arguments."""


def ours(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment for a process: ours, as on a terminal that has colours."""
    return {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **(extra or {})}


def start_process(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start the installed script; both outputs are pipes unless said otherwise."""
    return subprocess.Popen(  # noqa: S603 - our own script
        [executable("tieredfs"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=ours(env),
    )


def run_process(
    *arguments: str, env: Mapping[str, str] | None = None, seconds: float = _SECONDS
) -> Outcome:
    """Run the installed script with both outputs in pipes."""
    with start_process(*arguments, env=env) as process:
        out, err = process.communicate(timeout=seconds)
    return Outcome(process.returncode, out, err.decode().splitlines())


def run_with_terminal(
    *arguments: str, on: frozenset[str], env: Mapping[str, str] | None = None
) -> tuple[Outcome, str]:
    """Run the installed script with a terminal.

    Args:
        arguments: Of the command.
        on: Which of ``stdout`` and ``stderr`` are the terminal; the other is a pipe.
        env: Variables of its environment, beyond ours.

    Returns:
        The outcome as the pipes saw it, and all that the terminal saw.
    """
    with start_with_terminal(*arguments, on=on, env=env) as (process, seen):
        out, err = process.communicate(timeout=_SECONDS)
    lines = (err or b"").decode().splitlines()
    return Outcome(process.returncode, out or b"", lines), seen.decode()


@contextlib.contextmanager
def start_with_terminal(
    *arguments: str, on: frozenset[str], env: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], bytearray]]:
    """Start the installed script with a terminal; it is killed at the end.

    Args:
        arguments: Of the command.
        on: Which of ``stdout`` and ``stderr`` are the terminal; the other is a pipe.
        env: Variables of its environment, beyond ours.

    Yields:
        The process, and what the terminal has seen so far.
    """
    ours_end, its_end = pty.openpty()
    seen = bytearray()
    reader = threading.Thread(target=_drain, args=(ours_end, seen))
    reader.start()
    try:
        with start_process(
            *arguments,
            env=env,
            stdout=its_end if "stdout" in on else subprocess.PIPE,
            stderr=its_end if "stderr" in on else subprocess.PIPE,
        ) as process:
            os.close(its_end)
            try:
                yield process, seen
            finally:
                process.kill()
    finally:
        reader.join(_SECONDS)
        os.close(ours_end)


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[bytes]
) -> None:
    """Wait until something is so while a process runs."""
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            pytest.fail("the process has ended")


def expected_records(topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """Return what Kafka's own classes read of a partition, control records left out."""
    folders = f"{topic}/expected/kafka-tiered-storage/{topic}-{partition}-*"
    return [expected_record_facts(record) for record in _visible(folders)]


def _visible(folders: str) -> Iterator[dict[str, Any]]:
    for file in sorted(KAFKA.glob(f"{folders}/*.log.expected.jsonl")):
        for line in file.read_bytes().splitlines():
            record = json.loads(line)
            if not record["control"]:
                yield record


def _drain(descriptor: int, seen: bytearray) -> None:
    # The end of a terminal is an error on Linux.
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 4096):
            seen += data
