"""Each kernel in turn, for the tests that decode records."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel, chosen_kernel


@pytest.fixture(scope="module", params=list(Kernel))
def each_kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """Decode by this kernel for as long as the test runs."""
    if request.param is Kernel.COMPILED and not find_spec(
        "tieredfs.format.kernel._kernel"
    ):
        reason = "the kernel is not compiled: install a C compiler, and tieredfs again"
        # The wheel without one is tested with the setting that asks for just that.
        if os.environ.get("CI") and os.environ.get(KERNEL_SETTING) != Kernel.PYTHON:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNEL_SETTING, request.param)
        chosen_kernel.cache_clear()
        yield request.param
    chosen_kernel.cache_clear()
