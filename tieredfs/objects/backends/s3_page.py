"""Parse a page of S3's ListObjectsV2 before botocore does.

botocore spends most of a listing's time on the date of each key, which is not used
here. What this parser does not know is left to botocore.
"""

from collections.abc import Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

__all__ = ["EVENT", "ROWS", "Row", "parse_page", "rows_of"]

EVENT: Final = "before-parse.s3.ListObjectsV2"
"""What botocore calls ``parse_page`` for."""

ROWS: Final = "Rows"
"""Where the objects of a page are in an answer that ``parse_page`` has parsed."""

_ROOT: Final = "ListBucketResult"
_NEXT: Final = "NextContinuationToken"


class Row(NamedTuple):
    """An object of a page."""

    key: str
    size: int
    etag: str


def parse_page(
    response_dict: MutableMapping[str, Any],
    customized_response_dict: MutableMapping[str, object],
    **_: object,
) -> None:
    """Take the fields of a page from its body, so that botocore finds an empty one.

    Args:
        response_dict: The answer, whose body botocore parses next.
        customized_response_dict: Fields that replace those that it finds.
    """
    body = response_dict["body"]
    if response_dict["status_code"] != HTTPStatus.OK or not body:
        return
    try:
        root = ET.fromstring(body)  # noqa: S314 - as botocore has just done
    except ET.ParseError:
        return
    page = _fields(root)
    if page is not None:
        customized_response_dict.update(page)
        response_dict["body"] = b""


def rows_of(answer: MutableMapping[str, Any]) -> Iterable[Row]:
    """Return the objects of an answer, whichever parser has parsed it."""
    rows: Iterable[Row] | None = answer.get(ROWS)
    if rows is not None:
        return rows
    return [
        Row(str(item["Key"]), int(item["Size"]), _without_quotes(item.get("ETag", "")))
        for item in answer.get("Contents") or ()
    ]


def _fields(root: ET.Element) -> dict[str, object] | None:
    """Return the fields of a page, as botocore names them; None where it is unsure."""
    space = root.tag.removesuffix(_ROOT)
    if space == root.tag:
        return None
    contents, prefixes = f"{space}Contents", f"{space}CommonPrefixes"
    key, size, etag = f"{space}Key", f"{space}Size", f"{space}ETag"
    is_encoded = root.findtext(f"{space}EncodingType") == "url"
    decode: Callable[[str], str] = unquote_plus if is_encoded else str
    rows: list[Row] = []
    folders: list[dict[str, str]] = []
    for child in root:
        if child.tag == contents:
            fields = {field.tag: field.text or "" for field in child}
            name, count = fields.get(key), fields.get(size, "")
            if not (name and count.isdecimal()):
                return None
            if "%" in name or "+" in name:
                name = decode(name)
            rows.append(Row(name, int(count), _without_quotes(fields.get(etag, ""))))
        elif child.tag == prefixes:
            prefix = child.findtext(f"{space}Prefix", "")
            folders.append({"Prefix": decode(prefix)})
        elif not child.tag.startswith(space):
            return None
    page: dict[str, object] = {ROWS: rows, "CommonPrefixes": folders}
    truncated = root.findtext(f"{space}IsTruncated")
    if truncated is not None:
        page["IsTruncated"] = truncated == "true"
    following = root.findtext(f"{space}{_NEXT}")
    if following is not None:
        page[_NEXT] = following
    return page


def _without_quotes(etag: object) -> str:
    return str(etag).strip('"')
