"""What importing tieredfs brings with it."""

import subprocess
import sys

_HEAVY = {
    "adlfs",
    "boto3",
    "botocore",
    "aiobotocore",
    "click",
    "duckdb",
    "gcsfs",
    "hypothesis",
    "pandas",
    "polars",
    "pyspark",
    "pytest",
    "rich",
    "s3fs",
}


def test_importing_tieredfs_imports_no_client_no_spark_and_no_test_tools() -> None:
    code = "import sys, tieredfs; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {name.partition(".")[0] for name in done.stdout.split()} & _HEAVY
    assert done.stderr == ""


def test_importing_tieredfs_warns_of_nothing() -> None:
    code = "import tieredfs"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
