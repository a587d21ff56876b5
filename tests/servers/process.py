"""Start and stop a real server as a child process.

A server listens on loopback only, on ports that no other test run draws, writes its log
to a file, and is ended by its process group. On Linux the kernel ends it too when the
test run itself is killed. A start that fails is repeated.
"""

import ctypes
import http.client
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from servers.ports import free_ports

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

_STARTS = 3
_TAIL = 3000
_PIP = "pip install --group tests"


class NotInstalledError(RuntimeError):
    """The program that a server needs is not on this machine; says how to get it."""


def executable(name: str, install: str = _PIP) -> str:
    """Find a program beside this interpreter, else on PATH.

    Args:
        name: Of the program.
        install: How to get it.

    Raises:
        NotInstalledError: It is in neither place.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise NotInstalledError(f"{name} is not installed: {install}")
    return found


def package(name: str) -> Path:
    """Find the folder of a package that is installed, without importing it.

    Raises:
        NotInstalledError: It is not.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise NotInstalledError(f"{name} is not installed: {_PIP}")
    return Path(spec.origin).parent


class Answer(NamedTuple):
    """What a server says to a GET."""

    status: int
    body: bytes


def http_get(url: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Ask once; an error status is an answer, not an exception."""
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 -- ours
    try:
        with urllib.request.urlopen(request, timeout=1.0) as reply:  # noqa: S310 -- ours
            return Answer(reply.status, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"no HTTP: {error!r}") from error


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends; on Linux."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ServerFailedError(RuntimeError):
    """A server ended by itself, or did not answer as itself."""


class Server(ABC):
    """A server with its own folder; a context manager that starts and ends it.

    Subclasses say what to run (`argv`, with `env` added to the environment), on how
    many ports, and how to tell that it answers (`ready`).

    Attributes:
        failures: How each start failed and how it ended by itself, each with the end
            of its log.
    """

    name: str
    port_count: ClassVar[int] = 1
    start_timeout = 30.0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = free_ports(self.port_count)
        self.env: dict[str, str] = {}
        self.failures: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._has_served = False

    @property
    def port(self) -> int:
        """Where clients find it."""
        return self.ports[0]

    @abstractmethod
    def argv(self) -> list[str]:
        """Return the command that starts it.

        Raises:
            NotInstalledError: The program is not on this machine.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Ask what only this server answers; an OSError means not yet."""

    @property
    def log(self) -> Path:
        """The file with all that the server printed."""
        return self.root / f"{self.name}.log"

    def start(self) -> Self:
        """Start it, and return when it answers.

        A start that fails is repeated: on other ports, if no client knows the old
        ones, because another program may have taken one of them.

        Raises:
            NotInstalledError: The program is not on this machine.
            ServerFailedError: No start succeeded.
        """
        for _ in range(_STARTS):
            try:
                self._start_once()
            except ServerFailedError as error:
                self.failures.append(str(error))
            else:
                self._has_served = True
                return self
            if not self._has_served:
                self.ports = free_ports(self.port_count)
        raise ServerFailedError("\n".join(self.failures[-_STARTS:]))

    def kill(self) -> None:
        """Kill it: what a crash looks like to a client."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait(10)
        self._process = None

    def restart_if_ended(self) -> bool:
        """Start it again, on the same ports, if it ended by itself.

        Raises:
            ServerFailedError: It ended, and no start succeeded.
        """
        if self._process is None or self._process.poll() is None:
            return False
        self.failures.append(self._complaint(_ending(self._process.returncode)))
        self.start()
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start_once(self) -> None:
        argv = self.argv()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- the command is ours
                argv,
                cwd=self.root,
                env=os.environ | self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- one call into libc
            )
        deadline = time.monotonic() + self.start_timeout
        heard = "nothing"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                ending = _ending(self._process.returncode)
                raise ServerFailedError(self._complaint(ending))
            try:
                if self.ready():
                    return
                heard = "an answer that is not its own"
            except OSError as error:
                heard = str(error)
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        self._process.wait(10)
        waited = f"was not ready in {self.start_timeout} s (heard: {heard})"
        raise ServerFailedError(self._complaint(waited))

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)  # the group that start() made

    def _complaint(self, what: str) -> str:
        tail = self.log.read_bytes()[-_TAIL:].decode(errors="replace")
        return f"{self.name} {what}; the end of its log:\n{tail}"


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
