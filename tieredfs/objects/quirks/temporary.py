"""The names of files that are being written, beside the one they will have.

Trap closed here, seen with our own first version: every name with the ending was taken
for one of these, so an object ``x.tieredfs-tmp`` could be put, was in no listing, and
was removed as an abandoned upload on the next day.
"""

import re
import secrets

__all__ = ["is_temporary", "temporary_name"]

_NAME = re.compile(r"\.[0-9a-f]{16}\.tieredfs-tmp")


def temporary_name() -> str:
    """Return a name that nobody else has.

    It is short: the final one may fill the 255 bytes that a name has.
    """
    return f".{secrets.token_hex(8)}.tieredfs-tmp"


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is one of these."""
    return _NAME.fullmatch(name) is not None
