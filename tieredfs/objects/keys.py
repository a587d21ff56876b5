"""What names an object below a root, and nothing outside it."""

from tieredfs.errors import InvalidArgumentError

__all__ = ["check_key", "is_key"]


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
