"""Records as lines of JSON, which steer no terminal.

The kernel in use writes them: ``json_lines_compiled``, or ``json_lines_python`` where
the compiled kernel is not available. Both write the same bytes.
"""

from collections.abc import Iterator

import pyarrow as pa

from tieredfs.cli.output import json_lines_python
from tieredfs.cli.output.text_encoder import TextEncoder
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["json_lines"]


def json_lines(
    batch: pa.RecordBatch, encode: TextEncoder
) -> Iterator[bytes | memoryview]:
    """Yield the records of a batch, as JSON objects with an end of line behind each.

    Args:
        batch: The records.
        encode: Turns keys and values into text.

    Yields:
        Whole lines, to be used before the next ones are taken.
    """
    if chosen_kernel() is not Kernel.COMPILED:
        yield json_lines_python.lines_of(batch, encode)
        return
    # It may be missing.
    from tieredfs.cli.output import json_lines_compiled  # noqa: PLC0415

    yield from json_lines_compiled.lines_of(batch, encode)
