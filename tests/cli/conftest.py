"""The command in this process, and the topics it reads."""

import json
import warnings
from pathlib import Path

import pytest

from cli.commands import Outcome, Run
from servers import Bucket
from support.kafka_data import REMOTE
from support.stores import files_of, fill, open_store
from tieredfs.cli import main
from tieredfs.errors import TieredFSWarning


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command in this process."""

    def call(*arguments: str) -> Outcome:
        capsysbinary.readouterr()
        # The command shows warnings its own way; the test run makes them errors.
        with warnings.catch_warnings():
            warnings.simplefilter("default", TieredFSWarning)
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
        out, err = capsysbinary.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, out, err.decode().splitlines())

    return call


@pytest.fixture
def plain(data: Path) -> str:
    """A tier with one topic, ``plain``, of one partition."""
    return str(data / "kafka" / "plain" / REMOTE)


@pytest.fixture
def three(data: Path) -> str:
    """A tier with one topic, ``two-partitions``, of three partitions."""
    return str(data / "kafka" / "two-partitions" / REMOTE)


@pytest.fixture
def in_s3(s3_bucket: Bucket, three: str) -> Bucket:
    """The topic ``two-partitions`` in a bucket."""
    fill(open_store(s3_bucket), files_of(Path(three)))
    return s3_bucket


@pytest.fixture
def credentials(in_s3: Bucket) -> tuple[str, str]:
    """The option that reaches the bucket."""
    return "--storage-options", json.dumps(in_s3.storage_options)
