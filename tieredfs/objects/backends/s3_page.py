"""Parse a page of S3's ListObjectsV2 before botocore does.

botocore spends most of a listing's time on the date of each key, which is not used
here. What this parser does not know is left to botocore.
"""

from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final
from xml.etree import ElementTree as ET

__all__ = ["EVENT", "parse_page"]

EVENT: Final = "before-parse.s3.ListObjectsV2"
"""What botocore calls ``parse_page`` for."""

_ROOT: Final = "ListBucketResult"
_TEXTS: Final = ("EncodingType", "NextContinuationToken")
_FIELDS: Final = ("Key", "Size", "ETag")


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


def _fields(root: ET.Element) -> dict[str, object] | None:
    """Return the fields of a page, as botocore names them; None where it is unsure."""
    space = root.tag.removesuffix(_ROOT)
    if space == root.tag:
        return None
    names = {f"{space}{name}": name for name in _FIELDS}
    contents, prefixes = f"{space}Contents", f"{space}CommonPrefixes"
    objects: list[dict[str, str]] = []
    folders: list[dict[str, str]] = []
    page: dict[str, object] = {"Contents": objects, "CommonPrefixes": folders}
    for child in root:
        if child.tag == contents:
            fields = {
                names[field.tag]: field.text or ""
                for field in child
                if field.tag in names
            }
            if not (fields.get("Key") and fields.get("Size", "").isdecimal()):
                return None
            objects.append(fields)
        elif child.tag == prefixes:
            folders.append({"Prefix": child.findtext(f"{space}Prefix", "")})
        elif not child.tag.startswith(space):
            return None
    truncated = root.findtext(f"{space}IsTruncated")
    if truncated is not None:
        page["IsTruncated"] = truncated == "true"
    for name in _TEXTS:
        text = root.findtext(f"{space}{name}")
        if text is not None:
            page[name] = text
    return page
