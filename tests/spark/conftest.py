"""Sessions that know the source, on several masters, and quick ways to ask them."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from servers import Bucket, Fleet
from spark.oracle import TIER
from spark.sessions import ApartSession, HereSession, Session
from support.prerequisites import java_needed, server_of
from support.stores import files_of, fill, open_store
from tieredfs.spark import register

# What stands between a session and a source that is found by its name alone.
_BROKEN: Final = {"pyspark_broken": "raise ImportError('a package that is broken')"}
_TWO_EXECUTORS: Final = "local-cluster[2,1,1024]"
_LOUD: Final = {
    "spark.log.level": "DEBUG",
    "spark.executor.syncLogLevel.enabled": "true",
}
_PLACES: Final = {
    "local": ["s3"],  # everything else runs there, too
    "local-cluster": ["s3"],
    "connect": ["local"],
}


class Load(Protocol):
    """Make a frame over a tier; schema and options as in Spark."""

    def __call__(
        self,
        options: Mapping[str, str],
        path: str = str(TIER),
        schema: str | StructType = "",
    ) -> DataFrame:
        """Make it; only an action runs it."""


@pytest.fixture
def load(spark: SparkSession) -> Load:
    """Make frames with ``format("tieredfs")``."""
    register(spark)

    def make(
        options: Mapping[str, str],
        path: str = str(TIER),
        schema: str | StructType = "",
    ) -> DataFrame:
        source = spark.read.format("tieredfs").options(**options)
        return (source if schema == "" else source.schema(schema)).load(path)

    return make


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApartSession]:
    """A session with two executors, which are JVMs of their own."""
    java_needed()
    folder = tmp_path_factory.mktemp("local-cluster")
    with ApartSession(_TWO_EXECUTORS, folder, _LOUD, _BROKEN) as session:
        yield session


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApartSession]:
    """A session on a Spark Connect server, reached as any other client reaches it."""
    java_needed()
    folder = tmp_path_factory.mktemp("connect")
    quiet = {"spark.log.level": "INFO"}  # below it Spark logs plans as they came
    with ApartSession("connect:local[2]", folder, quiet, _BROKEN) as session:
        yield session


@pytest.fixture
def session(master: str, request: pytest.FixtureRequest) -> Session:
    """A session on each kind of master."""
    if master == "local":
        here: SparkSession = request.getfixturevalue("spark")
        register(here)
        return HereSession(here)
    found: ApartSession = request.getfixturevalue(master.replace("-", "_"))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks a session on every master, over each place if it has one.

    All that one master runs, one worker runs: a session takes seconds to start.
    """
    if "session" in metafunc.fixturenames:
        has_place = "place_kind" in metafunc.fixturenames
        metafunc.parametrize(
            ["master", "place_kind"] if has_place else ["master"],
            [
                pytest.param(
                    *([master, place] if has_place else [master]),
                    id=f"{master}-{place}" if has_place else master,
                    marks=pytest.mark.xdist_group(
                        "spark" if master == "local" else master
                    ),
                )
                for master, places in _PLACES.items()
                for place in (places if has_place else places[:1])
            ],
        )


@pytest.fixture(scope="session")
def tier_in_s3(fleet: Fleet) -> Bucket:
    """The topics of the cases, in a bucket."""
    server_of("s3", fleet)
    place = fleet.place("s3")
    fill(open_store(place), files_of(TIER))
    return place


@pytest.fixture
def tier(place_kind: str, request: pytest.FixtureRequest) -> Bucket:
    """The topics of the cases, in a folder and in a bucket."""
    if place_kind == "local":
        return Bucket(str(TIER), {})
    found: Bucket = request.getfixturevalue("tier_in_s3")
    return found
