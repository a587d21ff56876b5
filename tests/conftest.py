"""Fixtures for all tests: real servers, a real Spark session, sample data.

What a fixture needs and this machine lacks is a skip with a line that says what to
install, and a failure when the environment variable CI is set.
"""

import functools
import gc
import os
import signal
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import botocore.session
import hypothesis
import pytest
import s3fs

from servers import Bucket, FaultProxy, Fleet, ProxiedBucket, SeaweedS3
from support.memory import restored_memory
from support.prerequisites import java_needed, server_of
from support.stores import make_place, open_store
from tieredfs import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before anything imports gcsfs: it would ask a server of ours over gRPC and TLS first.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

# Each client of S3 loads the model of the service: two thirds of what it costs.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

# No test reads what another one kept, nor writes to the user's own cache.
os.environ["TIEREDFS_CACHE_DIR"] = ""

# What runs in the background may ignore these, and with it what the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Coverage is that of the tests' own processes: measured too, what they start would be
# slower than its deadline, and open files that no test expects.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

# No deadlines: the cores are shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "ci",
    parent=hypothesis.settings.get_profile("default"),
    derandomize=True,
    max_examples=20,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "few", parent=hypothesis.settings.get_profile("ci"), max_examples=10
)
hypothesis.settings.register_profile(
    "quick", parent=hypothesis.settings.get_profile("default"), max_examples=5
)
hypothesis.settings.register_profile(
    "proofs",
    parent=hypothesis.settings.get_profile("default"),
    max_examples=5000,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


_FLEET = pytest.StashKey[Fleet]()
_SERVER_FAILED = "server failed"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all tests that use Spark to one worker: a session takes seconds to start."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's rounds.

    They would stop all threads, those of servers too, for half a second now and then.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say with the test during which a server ended how it did, and start it again."""
    report = yield
    fleet = item.config.stash.get(_FLEET, None)
    for failure in fleet.restart_ended() if fleet else ():
        report.sections.append((_SERVER_FAILED, failure))
        report.user_properties.append((_SERVER_FAILED, failure))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the reports of all workers hold besides their outcomes."""
    _say_which_servers_failed(terminalreporter)
    _say_how_many_cells_were_tried(terminalreporter)


def _say_which_servers_failed(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == _SERVER_FAILED:
                    terminalreporter.section(f"a server failed at {report.nodeid}")
                    terminalreporter.write_line(str(value))


def _say_how_many_cells_were_tried(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        dict(report.user_properties)
        for report in terminalreporter.getreports("passed")
        if report.when == "call"
    ]
    cells = [each for each in told if "fault cells" in each]
    if cells:
        count = sum(each["fault cells"] for each in cells)
        slowest = max(each["slowest fault cell"] for each in cells)
        terminalreporter.write_line(
            f"fault matrix: {count} cells on {len(cells)} clouds,"
            f" each right or the right error; the slowest took {slowest:.2f} s"
        )


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of sample data."""
    return Path(__file__).parent / "data"


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of this test's own."""
    return open_store(make_place("memory", request, tmp_path))


@pytest.fixture(autouse=True)
def _restored_memory() -> Iterator[None]:
    """Leave nothing in memory for the listings of the tests that follow."""
    with restored_memory():
        yield


@pytest.fixture(scope="session")
def fleet(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Fleet]:
    """The servers of this worker, each started by the first test that asks for it."""
    fleet = pytestconfig.stash[_FLEET] = Fleet(tmp_path_factory.mktemp)
    yield fleet
    del pytestconfig.stash[_FLEET]
    fleet.kill()


@pytest.fixture(scope="session")
def s3_server(fleet: Fleet) -> SeaweedS3:
    """An S3 server of this worker's own."""
    return cast("SeaweedS3", server_of("s3", fleet))


@pytest.fixture(scope="session")
def _s3_admin(s3_server: SeaweedS3) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(skip_instance_cache=True, **s3_server.storage_options())


@pytest.fixture
def s3_bucket(s3_server: SeaweedS3, _s3_admin: s3fs.S3FileSystem) -> Iterator[Bucket]:
    """A bucket of this test's own."""
    name = f"t{uuid.uuid4().hex}"
    _s3_admin.mkdir(name)
    yield Bucket(f"s3://{name}", s3_server.storage_options())
    _s3_admin.invalidate_cache()
    _s3_admin.rm(name, recursive=True)  # a bucket holds volumes, and these are limited


@pytest.fixture
def s3_proxied(s3_server: SeaweedS3, s3_bucket: Bucket) -> Iterator[ProxiedBucket]:
    """A bucket of this test's own, reached through a proxy of its own."""
    with FaultProxy(s3_server.port) as proxy:
        options = s3_server.storage_options(endpoint=proxy.url)
        yield ProxiedBucket(s3_bucket.url, options, proxy)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A Spark session with two threads, on loopback, in UTC."""
    java_needed()
    from spark.sessions import CONF, session_here  # noqa: PLC0415 - most need no Spark

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    with session_here({**CONF, "spark.sql.warehouse.dir": warehouse}) as session:
        yield session
