"""A server that does not start, answers as another or ends is reported and replaced."""

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import override

from servers import SERVICES, CloudServer, Fleet, Server
from servers.ports import HOST, free_ports
from servers.process import ServerFailedError, http_get
from servers.web import Handler, WebThread
from support.child_process import child_environment

KINDS = ("s3", "s3-moto", "s3-rclone", "gcs", "azure")


class Friendly(Handler):
    """Says to everybody that all is well, as another server may."""

    def do_GET(self) -> None:  # noqa: N802 -- as http.server calls it
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


class Python(Server):
    """A server of a line of Python."""

    name = "python"
    start_timeout = 10.0
    line = "import http.server as s; s.test(s.SimpleHTTPRequestHandler, port={})"

    @override
    def argv(self) -> list[str]:
        return [sys.executable, "-c", self.line.format(self.port)]

    @override
    def ready(self) -> bool:
        return http_get(f"http://{HOST}:{self.port}/").status == 200


class Falling(Python):
    """Ends before it listens, for as long as a number of starts."""

    falls = 1

    @override
    def argv(self) -> list[str]:
        if len(self.failures) < self.falls:
            return [sys.executable, "-c", "print('no disk'); raise SystemExit(7)"]
        return super().argv()


def end(server: Server) -> None:
    """Let it end as if by itself."""
    assert server._process is not None
    os.killpg(server._process.pid, signal.SIGKILL)
    server._process.wait(10)


SUITE = """\
import os, signal

def test_during_which_a_server_ends(fleet):
    fleet.place("gcs")
    process = fleet.server("gcs")._process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    raise AssertionError("what the client says")

def test_that_comes_after_it(fleet):
    assert fleet.server("gcs").ready()
"""


def test_all_ports_of_a_server_differ(tmp_path: Path) -> None:
    for kind in ("s3", "azure"):
        server = cast("CloudServer", SERVICES[kind](tmp_path))
        assert len(set(server.ports)) == server.port_count
        assert server.port in server.ports


def test_no_port_is_drawn_twice_before_its_server_listens() -> None:
    drawn = [port for _ in range(10) for port in free_ports(10)]
    assert len(set(drawn)) == len(drawn)


def test_two_processes_draw_no_port_of_each_other() -> None:
    mine = free_ports(1)
    line = "from servers.ports import free_ports; print(*free_ports(200))"
    said = subprocess.run(  # noqa: S603 -- the command is ours
        [sys.executable, "-c", line],
        env=child_environment(),
        capture_output=True,
        check=True,
        text=True,
    )
    theirs = {int(port) for port in said.stdout.split()}
    assert len(theirs) == 200
    assert not theirs & {*mine, *free_ports(40)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_not_ready_while_another_one_answers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = cast("CloudServer", SERVICES[kind](tmp_path))
    server.argv()  # what it would begin with
    with WebThread(Friendly) as other:
        monkeypatch.setattr(server, "ports", [other.port] * server.port_count)
        assert http_get(f"{server.endpoint}/healthz").status == 200
        assert not server.ready()


@pytest.mark.parametrize("kind", ["s3", "s3-rclone", "gcs", "azure"])
def test_a_server_is_not_ready_while_another_of_its_kind_answers(
    kind: str, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = cast("CloudServer", fleet.server(kind))
    assert running.ready()
    server = cast("CloudServer", SERVICES[kind](tmp_path))
    server.argv()
    monkeypatch.setattr(server, "ports", running.ports)
    assert not server.ready()


def test_what_is_no_http_is_not_ready_yet() -> None:
    class Mute(Handler):
        def do_GET(self) -> None:  # noqa: N802 -- as http.server calls it
            self.wfile.write(b"\x00\x00\x12\x04 no HTTP\r\n")
            self.close_connection = True

    with WebThread(Mute) as other, pytest.raises(OSError, match=r"BadStatusLine"):
        http_get(other.endpoint)
    assert not issubclass(http.client.BadStatusLine, OSError)


def test_a_start_that_fails_is_repeated_on_other_ports(tmp_path: Path) -> None:
    server = Falling(tmp_path)
    first = server.port
    with server:
        assert server.ready()
        assert server.port != first
    (failure,) = server.failures
    assert failure.startswith("python ended with exit code 7; the end of its log:")
    assert "no disk" in failure


def test_a_server_that_never_starts_is_an_error_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    server = Falling(tmp_path)
    server.falls = 99
    with pytest.raises(ServerFailedError, match=r"(?s)(exit code 7.*no disk.*){3}"):
        server.start()


def test_a_server_that_ended_is_reported_and_answers_again_where_it_was(
    tmp_path: Path,
) -> None:
    with Python(tmp_path) as server:
        port = server.port
        assert not server.restart_if_ended()
        end(server)
        assert server.restart_if_ended()
        assert server.port == port
        assert server.ready()
    (failure,) = server.failures
    assert failure.startswith("python was killed by SIGKILL; the end of its log:")
    assert "GET / " in failure


def test_a_server_that_a_test_killed_stays_killed(tmp_path: Path) -> None:
    server = Python(tmp_path).start()
    server.kill()
    assert not server.restart_if_ended()
    assert server.failures == []


def test_a_fleet_gives_a_new_bucket_of_a_server_that_ended(tmp_path: Path) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    fleet = Fleet(folder)
    before = fleet.place("gcs")
    server = cast("CloudServer", fleet.server("gcs"))
    try:
        end(server)
        (failure,) = fleet.restart_ended()
        assert failure.startswith("fake-gcs-server was killed by SIGKILL")
        assert fleet.restart_ended() == []
        after = fleet.place("gcs")
        assert after.url.split("/")[2] != before.url.split("/")[2]
        assert server.client().exists(after.url.rsplit("/", 2)[0])
    finally:
        fleet.kill()


def test_a_test_run_names_the_server_that_ended_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:randomly", "-n1"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        check=False,
        text=True,
    ).stdout
    assert "1 failed, 1 passed" in said
    assert said.count("a server failed at test_suite.py::test_during_which_a_") == 1
    assert said.count("fake-gcs-server was killed by SIGKILL; the end of its log") == 2
