"""What a test needs and this machine lacks."""

import os
import shutil
from typing import NoReturn

import pytest

from servers import Fleet, NotInstalledError, Service


def miss(reason: str) -> NoReturn:
    """Skip the test, or fail it where CI runs, which has to have everything."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def server_of(kind: str, fleet: Fleet) -> Service:
    """Return the server of a kind, or miss it."""
    try:
        return fleet.server(kind)
    except NotInstalledError as error:
        miss(str(error))


def java_needed() -> None:
    """Miss Java if it is not there."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        miss("Spark needs Java 17: apt-get install openjdk-17-jre-headless (Debian)")
