"""What names an object below a root, and nothing outside it."""

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.reserved import is_reserved

__all__ = ["check_key", "check_target", "is_key"]


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
