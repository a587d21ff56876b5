"""What names an object below a root, and which names are our own.

Our own are those of what is being written or tried; listings leave them out.

Traps closed here, seen with our own first versions: every name with the ending was
taken for one of a file that is being written, so an object ``x.tieredfs-tmp`` could be
put, was in no listing, and was removed as an abandoned upload on the next day. Later an
object could still be put under a name that is one, and vanish, though on disks only;
and what one store had tried its own with was an object of a store whose URL is above.
"""

import re
import secrets

from tieredfs.errors import InvalidArgumentError

__all__ = [
    "COMMON_PROBE",
    "check_key",
    "check_target",
    "is_key",
    "is_probe",
    "is_reserved",
    "is_temporary",
    "probe_key",
    "temporary_name",
]

_PROBE = ".tieredfs-probe-"
_PROBE_BELOW = re.compile(r"/\.tieredfs-probe-[0-9a-f]{16}$")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tieredfs-tmp")


COMMON_PROBE = f"{_PROBE}{0:016x}"
"""The key that all try first: where it cannot be deleted, no more than it stays."""


def probe_key() -> str:
    """Return a key, which nobody else has, to find out by what a store can."""
    return f"{_PROBE}{secrets.token_hex(8)}"


def is_probe(key: str) -> bool:
    """Tell whether a key is one of these, of this store or of one below it."""
    return key.startswith(_PROBE) or (
        _PROBE in key and _PROBE_BELOW.search(key) is not None
    )


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


def is_key(text: str) -> bool:
    """Return whether ``text`` names an object below a root.

    It does not when it is empty, absolute, has an empty, ``.`` or ``..`` part, or a
    character that not every store takes.
    """
    if "\0" in text or "\\" in text:
        return False
    return not any(part in {"", ".", ".."} for part in text.split("/"))


def check_key(text: str) -> str:
    """Return ``text`` if it is a key.

    Raises:
        InvalidArgumentError: It is none, by ``is_key``.
    """
    if not is_key(text):
        msg = f"not a key: {text!r}"
        raise InvalidArgumentError(msg)
    return text


def check_target(text: str) -> str:
    """Return ``text`` if it is a key that an object may be written under.

    Raises:
        InvalidArgumentError: It is no key, or one that listings leave out.
    """
    if is_reserved(check_key(text)):
        msg = f"not a key to write: {text!r}: listings leave such names out"
        raise InvalidArgumentError(msg)
    return text
