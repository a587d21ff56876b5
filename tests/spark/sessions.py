"""Spark sessions in processes of their own, which answer questions.

One process has one JVM, and that has one master: a session on another one, or on
Connect, has to be another process.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar
from unittest.mock import patch

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from servers.process import die_with_parent
from tieredfs.spark import register

__all__ = [
    "CONF",
    "LONG_LIVED",
    "ApartSession",
    "HereSession",
    "Session",
    "session_here",
    "spark_environment",
]

P = ParamSpec("P")
T = TypeVar("T")

# A JVM of a minute: what compiles its code best would not pay, nor would more threads.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

CONF: Mapping[str, str] = {
    "spark.app.name": "tieredfs tests",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",  # 40 ms a task
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
}
"""A quiet session, on loopback, in UTC."""

LONG_LIVED: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "",
    "spark.executor.extraJavaOptions": "",
}
"""What to add for a JVM with all of its compilers, as users have it."""

_TAIL = 5000
_SECONDS_TO_STOP = 60
_CONNECT = "connect:"
_session: SparkSession  # of a process that has one


def spark_environment() -> dict[str, str]:
    """Return what Spark, and the Python processes that it starts, need to find."""
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextmanager
def session_here(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session of this process, with two threads, and stop it at the end."""
    with patch.dict(os.environ, spark_environment()):
        builder = SparkSession.builder.master("local[2]")
        for name, value in conf.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


class Session(Protocol):
    """Answers questions about what a session on some master does."""

    def ask(
        self,
        question: Callable[Concatenate[SparkSession, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function of a module with the session.

        Args:
            question: The function. Its parameters and what it returns can be pickled.
            *args: Its parameters besides the session.
            **kwargs: More of them.
        """


class HereSession:
    """A session of the process of the test."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def ask(
        self,
        question: Callable[Concatenate[SparkSession, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function with the session."""
        return question(self._session, *args, **kwargs)


class ApartSession:
    """A session in a process of its own; a context manager that ends it.

    It starts with the first question. What is logged, by executors and by Python
    workers too, is kept, and so are the events from which Spark shows what it did.
    """

    def __init__(
        self,
        master: str,
        folder: Path,
        conf: Mapping[str, str],
        modules: Mapping[str, str],
    ) -> None:
        """Say what is to be started.

        Args:
            master: The master's URL; one that begins with ``connect:`` is reached by
                Spark Connect.
            folder: An empty folder.
            conf: Added to what all sessions have.
            modules: Modules that Spark's Python processes find, by their names.
        """
        self._folder = folder
        self._pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_start,
            initargs=(master, folder, conf, modules),
        )

    @property
    def output(self) -> str:
        """What the session and its executors have printed, which is logs mostly."""
        return self._text("output", "home/work/*/*/std*")

    @property
    def events(self) -> str:
        """What the UI and the history server show: Spark's events."""
        return self._text("events/*/*")

    def ask(
        self,
        question: Callable[Concatenate[SparkSession, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function with the session, in its process."""
        try:
            return self._pool.submit(_answer, question, args, kwargs).result()
        except BrokenProcessPool as error:
            msg = f"the session has ended: {self.output[-_TAIL:]}"
            raise AssertionError(msg) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._pool.submit(_stop).result(_SECONDS_TO_STOP)
        except (BrokenProcessPool, TimeoutError):
            for process in list(self._pool._processes.values()):
                process.kill()  # and its JVM ends with it
        self._pool.shutdown()

    def _text(self, *patterns: str) -> str:
        found = [path for each in patterns for path in self._folder.glob(each)]
        return "\n".join(path.read_text(errors="replace") for path in sorted(found))


def _start(
    master: str, folder: Path, conf: Mapping[str, str], modules: Mapping[str, str]
) -> None:
    """Start the session of this process."""
    global _session  # noqa: PLW0603 - a process has one
    die_with_parent()
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.environ.update(spark_environment())
    # Executors are processes of their own: they are to find what this one finds.
    found = [*filter(None, sys.path), str(_folder(folder, "modules"))]
    os.environ["PYTHONPATH"] = os.pathsep.join(found)
    for name, source in modules.items():
        (folder / "modules" / f"{name}.py").write_text(source)
    os.environ["SPARK_HOME"] = str(_own_home(folder))
    builder = SparkSession.builder
    if master.startswith(_CONNECT):
        os.environ["SPARK_TESTING"] = "1"  # any free port, and not the usual one
        builder = builder.remote(master.removeprefix(_CONNECT))
    else:
        builder = builder.master(master)
    own = {
        "spark.sql.warehouse.dir": str(_folder(folder, "warehouse")),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": _folder(folder, "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.pyspark.worker.logging.enabled": "true",
    }
    for name, value in {**CONF, **own, **conf}.items():
        builder = builder.config(name, value)
    _session = builder.getOrCreate()
    register(_session)


def _folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def _own_home(folder: Path) -> Path:
    """Make an installation of Spark that is all links: executors write into it."""
    home = _folder(folder, "home")
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def _answer(
    question: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> T:
    try:
        return question(_session, *args, **kwargs)
    except (PySparkException, Py4JError):  # they refer to the JVM: not to be pickled
        raise AssertionError(traceback.format_exc()) from None


def _stop() -> None:
    _session.stop()
