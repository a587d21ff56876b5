"""The keys that are our own: of what is being written or tried; listings hide them.

Traps closed here, seen with our own first versions: every name with the ending was
taken for one of a file that is being written, so an object ``x.tieredfs-tmp`` could be
put, was in no listing, and was removed as an abandoned upload on the next day. Later an
object could still be put under a name that is one, and vanish, though on disks only.
"""

import re
import secrets

__all__ = ["is_probe", "is_reserved", "is_temporary", "probe_key", "temporary_name"]

_PROBE = ".tieredfs-probe-"
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tieredfs-tmp")


def probe_key() -> str:
    """Return a key, which nobody else has, to find out by what a store can."""
    return f"{_PROBE}{secrets.token_hex(8)}"


def is_probe(key: str) -> bool:
    """Tell whether a key, or the folder it lies in, is one of these."""
    return key.startswith(_PROBE)


def temporary_name() -> str:
    """Return a name, which nobody else has, for a file beside the one it becomes.

    It is short: the final one may fill the 255 bytes that a name has.
    """
    return f".{secrets.token_hex(8)}.tieredfs-tmp"


def is_temporary(name: str) -> bool:
    """Tell whether a file's name is one of these."""
    return _TEMPORARY.fullmatch(name) is not None


def is_reserved(key: str) -> bool:
    """Tell whether a listing of some store would leave an object of this key out."""
    return is_probe(key) or is_temporary(key.rpartition("/")[2])
