"""The bytes of records as text, and back."""

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

__all__ = ["DECODINGS", "ENCODINGS", "TIMESTAMP_TYPES", "TextEncoder"]

TIMESTAMP_TYPES: Final = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}
"""The types of timestamps, as they are shown."""


class TextEncoder:
    """Turn keys and values into text.

    Attributes:
        lossy: Whether some bytes were not UTF-8 and were shown as U+FFFD.
    """

    def __init__(self, encoding: str) -> None:
        """Choose one of ENCODINGS."""
        self._encode = ENCODINGS[encoding]
        self.lossy = False

    def __call__(self, data: bytes | None) -> str | None:
        """Return ``data`` as text; None stays None."""
        if data is None:
            return None
        try:
            return self._encode(data)
        except UnicodeDecodeError:
            self.lossy = True
            return data.decode("utf-8", "replace")

    def column(self, column: pa.Array) -> pa.Array | list[str | None]:
        """Return each of a column's bytes as text: as a column, if that is UTF-8."""
        if self._encode is ENCODINGS["utf8"]:
            with suppress(pa.ArrowInvalid):  # some are not UTF-8
                return column.cast(pa.string())
        return [self(data) for data in column.to_pylist()]

    def headers(self, pairs: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Return the headers of a record with their values as text."""
        return [
            {"key": pair["key"], "value": self(pair["value"])} for pair in pairs or ()
        ]


ENCODINGS: Final[dict[str, Callable[[bytes], str]]] = {
    "utf8": bytes.decode,
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "hex": bytes.hex,
}
"""How bytes become text; each raises UnicodeDecodeError for undecodable bytes."""

DECODINGS: Final[dict[str, Callable[[str], bytes]]] = {
    # As given on a command line, where a byte that is not text is half of a pair.
    "utf8": lambda text: text.encode("utf-8", "surrogateescape"),
    "base64": lambda text: base64.b64decode(text, validate=True),
    "hex": bytes.fromhex,
}
"""How text becomes the bytes that it shows; each raises ValueError for any other."""
