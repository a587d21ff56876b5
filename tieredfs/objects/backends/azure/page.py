"""Take the objects out of a page of Azure's List Blobs before the client parses them.

The client makes a model of some sixty fields of each object, dates among them, of which
a listing uses four. What this parser does not know is left to the client.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree as ET

__all__ = ["PageTaker", "TakenBlob"]

_ROOT: Final = "EnumerationResults"
_ENCODED: Final = {None: False, "false": False, "true": True}


class TakenBlob(NamedTuple):
    """An object of a page, with the names that the client has for its fields."""

    name: str
    size: int
    etag: str
    metadata: Mapping[str, str]


class PageTaker:
    """A ``raw_response_hook`` that leaves the client a page without objects.

    Attributes:
        blobs: The objects of the last answer; None where they were left to the client.
    """

    def __init__(self) -> None:
        """Begin without an answer."""
        self.blobs: list[TakenBlob] | None = None

    def __call__(self, response: Any) -> None:  # noqa: ANN401 - the client's own class
        """Take the objects out of an answer, if it is a page of which all are known."""
        self.blobs = None
        answer = response.http_response
        if answer.status_code != HTTPStatus.OK:
            return
        try:
            root = ET.fromstring(answer.body())  # noqa: S314 - as the client does next
        except (ET.ParseError, LookupError):  # no XML, or an encoding that is unknown
            return
        listed = root.find("Blobs") if root.tag == _ROOT else None
        if listed is None:
            return
        found = [_blob(child) for child in listed]
        blobs = [blob for blob in found if blob is not None]
        if len(blobs) < len(found):
            return
        listed.clear()
        response.http_response = _Answer(answer, ET.tostring(root))
        self.blobs = blobs


class _Answer:
    """An answer with another body."""

    def __init__(self, answer: object, body: bytes) -> None:
        self._answer = answer
        self._body = body

    def body(self) -> bytes:
        return self._body

    def text(self, encoding: str | None = None) -> str:
        return self._body.decode(encoding or "utf-8")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        return getattr(self._answer, name)


def _blob(element: ET.Element) -> TakenBlob | None:
    """Return an object of a page; None where it is not known what it says."""
    name, properties = element.find("Name"), element.find("Properties")
    if element.tag != "Blob" or name is None or properties is None:
        return None
    encoded = name.get("Encoded")
    size = properties.findtext("Content-Length", "")
    if not name.text or encoded not in _ENCODED or not size.isdecimal():
        return None
    text = unquote(name.text) if _ENCODED[encoded] else name.text
    metadata = {field.tag: field.text or "" for field in element.iterfind("Metadata/*")}
    return TakenBlob(text, int(size), properties.findtext("Etag", ""), metadata)
