"""``push --watch``: a log directory stays tiered, whatever happens to it or to us."""

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.commands import Run, start_process, wait_until
from servers.ports import free_ports
from support.log_directories import OTHER_ID, log_of, small, write_log
from tieredfs import NotFoundError, ObjectStore
from tieredfs.storage.layouts.single_object.layout import SingleObject


@contextmanager
def watching(
    logs: Path, tier: Path, *options: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process; it is killed at the end."""
    arguments = ("push", str(logs), str(tier), "--watch", *options)
    with start_process(*arguments, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[bytes]) -> tuple[list[str], list[str]]:
    """Ask it to end, and return what it has said."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    said = err.decode().splitlines()
    assert said[-1] == "tieredfs: interrupted by SIGTERM"
    return out.decode().splitlines(), said[:-1]


def starts(tier: Path, topic: str = "t") -> list[int]:
    """Return the first offsets that are in the tier."""
    storage = SingleObject(ObjectStore(str(tier)))
    found: list[int] = []
    try:
        for partition in storage.list_partitions(topic):
            listed = storage.list_segments(partition)
            found += [one.start_offset for one in listed]
    except NotFoundError:
        return []
    return found


def roll(folder: Path, start: int) -> None:
    """Begin a segment, as a broker does when it closes the one before."""
    (folder / f"{start:020d}.log").write_bytes(log_of(start))


@pytest.mark.parametrize("polls", [False, True], ids=["reported", "looked-at"])
def test_each_segment_is_copied_when_it_is_closed(
    tmp_path: Path, *, polls: bool
) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    folder = small(logs)
    env = {"PYTHONPATH": str(without_watchfiles(tmp_path))} if polls else None
    with watching(logs, tier, env=env) as process:
        wait_until(lambda: starts(tier) == [0, 10, 20], process)
        roll(folder, 40)
        wait_until(lambda: starts(tier) == [0, 10, 20, 30], process)
        out, err = end(process)
    assert err == []
    assert out[-1].startswith("t-0: copied 1 segments, ")
    assert out[-1].endswith(" bytes, up to offset 40")


def without_watchfiles(folder: Path) -> Path:
    """Return a path on which Python finds no watchfiles."""
    place = folder / "without"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'watchfiles' "
        "else find(name, *a)\n"
    )
    return place


def test_a_new_topic_is_taken_on_and_one_that_is_deleted_stays_in_the_tier(
    tmp_path: Path,
) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    folder = small(logs)
    with watching(logs, tier) as process:
        wait_until(lambda: len(starts(tier)) == 3, process)
        folder.rename(logs / f"t-0.{'a' * 32}-delete")
        write_log(
            logs, {0: log_of(0), 10: log_of(10)}, partition="u-3", topic_id=OTHER_ID
        )
        wait_until(lambda: starts(tier, "u") == [0], process)
        shutil.rmtree(logs / f"t-0.{'a' * 32}-delete")
        roll(logs / "u-3", 20)
        wait_until(lambda: starts(tier, "u") == [0, 10], process)
        _, err = end(process)
    assert err == []
    assert starts(tier) == [0, 10, 20]


def test_a_directory_without_a_partition_yet_is_waited_for(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    logs.mkdir()
    (logs / "meta.properties").touch()
    with watching(logs, tier) as process:
        small(logs)
        wait_until(lambda: len(starts(tier)) == 3, process)


def test_one_that_was_killed_is_replaced_without_waiting(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    cache = {"TIEREDFS_CACHE_DIR": str(tmp_path / "cache")}
    folder = small(logs)
    with watching(logs, tier, env=cache) as process:
        wait_until(lambda: starts(tier) == [0, 10, 20], process)
        process.kill()
    roll(folder, 40)
    with watching(logs, tier, env=cache) as process:
        wait_until(lambda: starts(tier) == [0, 10, 20, 30], process)
        out, err = end(process)
    assert err == []
    assert len(out) == 1


def test_another_one_that_lives_keeps_what_it_has_begun(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    cache = {"TIEREDFS_CACHE_DIR": str(tmp_path / "cache")}
    folder = small(logs)
    with watching(logs, tier, env=cache) as first:
        assert first.stdout is not None
        while not first.stdout.readline().endswith(b" up to offset 30\n"):
            assert first.poll() is None
        first.send_signal(signal.SIGSTOP)  # when it has finished what it had begun
        roll(folder, 40)
        with watching(logs, tier, "--json", env=cache) as second:
            assert second.stdout is not None
            told = json.loads(second.stdout.readline())
            assert (told["level"], told["partition"]) == ("info", "t-0")
            assert re.fullmatch(
                r"standing by: \S+ is in charge, with leader epoch 0, as this one, and "
                "is alive",
                told["message"],
            )
            assert told["lag_segments"] == 1
            assert starts(tier) == [0, 10, 20]
            first.send_signal(signal.SIGCONT)
            wait_until(lambda: starts(tier) == [0, 10, 20, 30], first)


def test_a_directory_that_disappears_is_reported_and_waited_for(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    folder = small(logs)
    (port,) = free_ports(1)
    with watching(logs, tier, "--metrics", f"127.0.0.1:{port}") as process:
        wait_until(lambda: len(starts(tier)) == 3, process)
        logs.rename(tmp_path / "unmounted")
        wait_until(lambda: get(port, "/health")[0] == 503, process)
        said = f"not found: {logs}: waiting until it is there"
        assert get(port, "/health")[1] == f"{said}\n"
        (tmp_path / "unmounted").rename(logs)
        wait_until(lambda: get(port, "/health")[0] == 200, process)
        roll(folder, 40)
        wait_until(lambda: starts(tier) == [0, 10, 20, 30], process)
        _, err = end(process)
    assert err == [f"tieredfs: {said}"]


def test_a_topic_that_is_not_there_yet_is_waited_for_with_a_warning(
    tmp_path: Path,
) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    small(logs)
    with watching(logs, tier, "--topic", "u") as process:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert said.startswith("tieredfs: not found: topic 'u' in ")
        write_log(
            logs, {0: log_of(0), 10: log_of(10)}, partition="u-3", topic_id=OTHER_ID
        )
        wait_until(lambda: starts(tier, "u") == [0], process)
    assert starts(tier) == []


def test_a_store_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    small(logs)
    with watching(logs, tier, "--bwlimit", "1") as process:
        wait_until((tier / "@tieredfs").is_dir, process)
        begun = time.monotonic()
        _, err = end(process)
    assert time.monotonic() - begun < 20  # where Docker kills after ten seconds
    assert err == ["tieredfs: warning: tasks are still running"]


def test_what_is_too_old_or_too_much_expires(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    small(logs)
    size = len(log_of(0))
    options = ("--retention-bytes", str(size), "--json")
    with watching(logs, tier, *options) as process:
        wait_until(lambda: starts(tier) == [0, 10, 20], process)
        out, _ = end(process)
    # For a minute readers may have them open; the log begins later from now on.
    assert json.loads(out[-1])["earliest_offset"] == 20


def test_health_and_metrics_are_served(tmp_path: Path) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    folder = small(logs)
    (port,) = free_ports(1)
    with watching(logs, tier, "--metrics", f"127.0.0.1:{port}") as process:
        wait_until(lambda: len(starts(tier)) == 3, process)
        wait_until(lambda: metric(port, "copied_segments_total") == 3, process)
        assert metric(port, "lag_segments") == 0
        assert metric(port, "earliest_offset") == 0
        assert metric(port, "end_offset") == 30
        assert get(port, "/health") == (200, "ok\n")
        assert get(port, "/")[0] == 404
        damaged = bytearray(log_of(40))
        damaged[-1] ^= 1
        (folder / f"{40:020d}.log").write_bytes(damaged)
        roll(folder, 50)
        wait_until(lambda: get(port, "/health")[0] == 503, process)
        wait_until(lambda: metric(port, "copied_segments_total") == 4, process)
        wait_until(lambda: metric(port, "lag_segments") == 1, process)
        assert metric(port, "failing") == 1


def get(port: int, path: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metric(port: int, name: str) -> float:
    """Return a number of partition 0."""
    text = get(port, "/metrics")[1]
    pattern = rf'^tieredfs_{name}{{partition="0",topic="t"}} (\S+)$'
    found = re.search(pattern, text, re.MULTILINE)
    return float(found[1]) if found else -1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--watch", "--active"], "--active cannot be combined with --watch"),
        (["--watch", "-n"], "--dry-run cannot be combined with --watch"),
        (["--watch", "--repair"], "--repair cannot be combined with --watch"),
        (["--retention", "1d"], "--retention is of use only with --watch"),
        (["--retention-bytes", "1K"], "--retention-bytes is of use only with --watch"),
        (["--metrics", ":1"], "--metrics is of use only with --watch"),
        (["--single-writer"], "--single-writer is of use only with --watch"),
        (["--watch", "--metrics", "here"], "'here' is not an address such as"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    run: Run, tmp_path: Path, options: Sequence[str], said: str
) -> None:
    small(tmp_path / "logs")
    done = run("push", str(tmp_path / "logs"), str(tmp_path / "tier"), *options)
    assert done.code == 2
    assert said in done.err[-1]


def test_a_place_that_is_no_log_directory_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("push", str(tmp_path), str(tmp_path / "tier"), "--watch")
    assert done.code == 3
    assert "give the broker's log directory" in done.err[-1]


def test_a_log_directory_elsewhere_is_refused(run: Run, tmp_path: Path) -> None:
    small(tmp_path / "logs")
    done = run("push", "memory://logs", str(tmp_path / "tier"), "--watch")
    assert done.code in {2, 3}


def test_an_address_that_is_taken_is_an_error(run: Run, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    small(logs)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(
            "push", str(logs), str(tmp_path / "tier"), "--watch", "--metrics", address
        )
    assert done.code == 2
    assert "Address already in use" in done.err[-1]
