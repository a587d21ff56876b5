"""A number of bytes, as an option of the command."""

import re
from typing import Final

import click

__all__ = ["Size"]

_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)(i?B)?", re.ASCII)
_PREFIXES: Final = "KMGTP"
_MAX_BYTES: Final = 2**63 - 1


class Size(click.ParamType[int]):
    """Bytes, such as ``512MiB`` or ``1.5TB``: KiB is 1024 bytes, and KB is 1000.

    A prefix alone is as that with ``iB``, as in the rates of ``--bwlimit``.
    """

    name = "size"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Parse it."""
        text = str(value)
        match = _SIZE.fullmatch(text)
        if match is None or (match[3] == "iB" and not match[2]):
            self.fail(f"{text!r} is not a size such as 500MB or 1TiB", param, ctx)
        base = 1000 if match[3] == "B" else 1024
        exponent = _PREFIXES.index(match[2]) + 1 if match[2] else 0
        whole, _, fraction = match[1].partition(".")
        digits = 10 ** len(fraction)
        size: int = int(whole + fraction) * base**exponent // digits
        if size > _MAX_BYTES:
            self.fail(f"{text!r} is more than any log holds", param, ctx)
        return size
