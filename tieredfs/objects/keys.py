"""Valid object keys, and the names reserved for temporary files and probes.

Reserved names belong to objects that are being written, and to probes of a store's
capabilities; listings omit them.

Traps closed here, seen with our own first versions: every name with the suffix was
taken for a temporary file, so an object ``x.tieredfs-tmp`` could be put, was in no
listing, and was removed as an abandoned upload the next day. Later an object could
still be put under a temporary name, and vanish, though only on local disks; and the
probe of one store was listed as an object of a store whose URL is above it.
"""

import re
import secrets
from collections.abc import Iterable, Sequence

from tieredfs.errors import InvalidArgumentError

__all__ = [
    "COMMON_PROBE",
    "are_keys",
    "check_key",
    "check_keys",
    "check_prefix",
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
_DOUBTFUL = ("\0", "\\", "//", "/.", "/\n", "\n/", "\n.", "\n\n")
"""What keys that are joined by line feeds contain if a part of one is empty or begins
with a dot, as a probe's name does, or has a character that is not allowed."""

_RULE = "a key is relative, without empty, '.' or '..' parts, NUL or backslash"

COMMON_PROBE = f"{_PROBE}{0:016x}"
"""The probe key that is tried first: if it cannot be deleted, only this one stays."""


def probe_key() -> str:
    """Return a unique key for probing what a store can do."""
    return f"{_PROBE}{secrets.token_hex(8)}"


def is_probe(key: str) -> bool:
    """Return whether a key is a probe of this store, or of a store below it."""
    return key.startswith(_PROBE) or (
        _PROBE in key and _PROBE_BELOW.search(key) is not None
    )


def temporary_name() -> str:
    """Return a unique name for a temporary file in the folder of the final one.

    The name does not extend the final one, which may fill the 255 bytes of a name.
    """
    return f".{secrets.token_hex(8)}.tieredfs-tmp"


def is_temporary(name: str) -> bool:
    """Return whether a file's name is that of a temporary file."""
    return _TEMPORARY.fullmatch(name) is not None


def is_reserved(key: str) -> bool:
    """Return whether the listing of any store would omit an object of this key."""
    return is_probe(key) or is_temporary(key.rpartition("/")[2])


def is_key(text: str) -> bool:
    """Return whether ``text`` is a valid key of an object below a root.

    A key is invalid when it is empty or absolute, has an empty, ``.`` or ``..`` part,
    or contains a character that not every store accepts.
    """
    if "\0" in text or "\\" in text:
        return False
    return not any(part in {"", ".", ".."} for part in text.split("/"))


def are_keys(texts: Sequence[str]) -> bool:
    """Return whether all texts are plainly valid keys, and no probes.

    It is much faster than to ask about each of them, and may be false for valid ones.
    """
    joined = "\n".join(("", *texts, ""))
    return not any(mark in joined for mark in _DOUBTFUL)


def check_key(text: str) -> str:
    """Return ``text`` if it is a valid key.

    Raises:
        InvalidArgumentError: ``is_key`` rejects it.
    """
    if not is_key(text):
        msg = f"invalid key {text!r}: {_RULE}"
        raise InvalidArgumentError(msg)
    return text


def check_keys(keys: Iterable[str]) -> list[str]:
    """Return several keys to be deleted, each once, if all are valid.

    Raises:
        InvalidArgumentError: ``keys`` is one key, or one of them is invalid.
    """
    if isinstance(keys, str | bytes):  # its letters would be taken for keys
        msg = f"delete takes a list of keys, not one: give [{keys!r}]"
        raise InvalidArgumentError(msg)
    return [check_key(key) for key in dict.fromkeys(keys)]


def check_prefix(text: str) -> None:
    """Check that a valid key can begin with ``text``.

    Raises:
        InvalidArgumentError: None can.
    """
    if not is_key(f"{text}x"):
        msg = f"invalid prefix {text!r}: {_RULE}"
        raise InvalidArgumentError(msg)


def check_target(text: str) -> str:
    """Return ``text`` if it is a valid key that an object may be written under.

    Raises:
        InvalidArgumentError: The key is invalid, or reserved.
    """
    if is_reserved(check_key(text)):
        msg = f"reserved key {text!r}: listings omit it; write under another name"
        raise InvalidArgumentError(msg)
    return text
