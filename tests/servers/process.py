"""Start and stop a real server as a child process.

A server listens on loopback only, on ports that were free a moment ago, writes its log
to a file, and is ended by its process group. On Linux the kernel ends it too when the
test run itself is killed.
"""

import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from typing import Self

HOST = "127.0.0.1"

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
# Not the `random` module: pytest-randomly gives all workers one seed, and so one port.
_random = SystemRandom()


class NotInstalledError(RuntimeError):
    """The program that a server needs is not on this machine."""


def free_ports(count: int) -> list[int]:
    """Find free ports below the range from which the kernel gives ports to clients.

    No two workers of pytest-xdist choose among the same ones.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 12_000 + 2_500 * (worker % 8)
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            candidate = held.enter_context(socket.socket())
            with suppress(OSError):
                candidate.bind((HOST, _random.randrange(first, first + 2_500)))
                ports.append(candidate.getsockname()[1])
    return ports


def executable(name: str) -> str:
    """Find a program beside this interpreter, else on PATH.

    Raises:
        NotInstalledError: It is in neither place.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise NotInstalledError(f"{name} is not installed")
    return found


def package(name: str) -> Path:
    """Find the folder of a package that is installed, without importing it.

    Raises:
        NotInstalledError: It is not.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise NotInstalledError(f"{name} is not installed")
    return Path(spec.origin).parent


def http_status(url: str, timeout: float = 1.0) -> int:
    """Return the status of a GET; an error status is an answer, not an exception."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:  # noqa: S310 -- ours
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server(ABC):
    """A server with its own folder; a context manager that starts and ends it.

    Subclasses say what to run (`argv`, with `env` added to the environment) and how to
    tell that it answers (`ready`).
    """

    name: str
    start_timeout = 30.0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def argv(self) -> list[str]:
        """Return the command that starts it.

        Raises:
            NotInstalledError: The program is not on this machine.
        """

    @abstractmethod
    def ready(self) -> bool:
        """Tell whether it answers; an OSError means not yet."""

    @property
    def log(self) -> Path:
        """The file with all that the server printed."""
        return self.root / f"{self.name}.log"

    def start(self) -> Self:
        """Start it, and return when it answers."""
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
                preexec_fn=_die_with_parent,  # noqa: PLW1509 -- one call into libc
            )
        deadline = time.monotonic() + self.start_timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                code = self._process.returncode
                raise RuntimeError(self._complaint(f"exited {code}"))
            with suppress(OSError):
                if self.ready():
                    return self
            time.sleep(0.02)
        self.kill()
        raise TimeoutError(self._complaint(f"not ready in {self.start_timeout} s"))

    def kill(self) -> None:
        """End it at once: what a crash looks like to a client."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait(10)
        self._process = None

    def pause(self) -> None:
        """Stop it from answering while its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again after `pause`."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)  # the group that start() made

    def _complaint(self, what: str) -> str:
        tail = self.log.read_bytes()[-3000:].decode(errors="replace")
        return f"{self.name} {what}:\n{tail}"
