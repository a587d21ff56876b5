"""What the kernel and the Python code both state is the same."""

from importlib import import_module, util
from itertools import accumulate

import pytest

from tieredfs.format.batch.table import BATCH_ROW

if util.find_spec("tieredfs.format.kernel._kernel") is None:
    pytest.skip("the kernel is not compiled", allow_module_level=True)

from tieredfs.format.kernel import _kernel
from tieredfs.format.records import decode_compiled


@pytest.mark.parametrize("name", _kernel.SHARED_NUMBERS)
def test_a_number_is_the_same_in_python(name: str) -> None:
    package, module, *rest = name.split(".")
    found: object = import_module(f"tieredfs.format.{package}.{module}")
    for part in rest:
        found = getattr(found, part)
    assert found == _kernel.SHARED_NUMBERS[name]


def test_a_table_of_batches_has_the_columns_that_the_kernel_fills() -> None:
    columns = sorted(_kernel.BATCH_ROW_COLUMNS.items(), key=lambda item: item[1])
    assert columns == [(name, at) for at, name in enumerate(BATCH_ROW.names or ())]


def test_the_buffers_are_passed_in_the_order_of_the_kernel() -> None:
    counts = [len(items) for items in decode_compiled._COLUMNS.values()]
    firsts = [0, *accumulate(counts)]
    names = [*decode_compiled._COLUMNS, ""]
    assert dict(zip(names, firsts, strict=True)) == _kernel.FIRST_BUFFERS


def test_the_nulls_are_counted_where_python_reads_them() -> None:
    assert decode_compiled._NULLS == _kernel.NULL_COUNTERS
