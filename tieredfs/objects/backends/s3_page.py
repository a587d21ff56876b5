"""Parse a page of S3's ListObjectsV2 before botocore does.

botocore spends most of a listing's time on the date of each key, which is not used
here. What this parser does not know is left to botocore.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from tieredfs.objects.backends.s3_rows import Row, take_rows

__all__ = ["EVENT", "ROWS", "Row", "parse_page", "rows_of", "text_of"]

EVENT: Final = "before-parse.*.ListObjectsV2"
"""What botocore calls ``parse_page`` for.

With ``s3`` for ``*`` it would be called after botocore's own handler of
``before-parse.s3.*``, which parses a page to see whether it is an error.
"""

ROWS: Final = "Rows"
"""Where the objects of a page are in an answer that ``parse_page`` has parsed."""

_ROOT: Final = "ListBucketResult"
_NEXT: Final = "NextContinuationToken"


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
    page = _parse(body)
    if page is not None:
        customized_response_dict.update(page)
        response_dict["body"] = b""


def _parse(body: bytes) -> dict[str, object] | None:
    """Parse a page, its objects apart from the rest where that is possible."""
    taken = take_rows(body)
    if taken is not None:
        rows, rest = taken
        page = _parse_tree(rest, rows)
        if page is not None:
            return page
    return _parse_tree(body)


def _parse_tree(
    body: bytes, taken: Sequence[Row] | None = None
) -> dict[str, object] | None:
    """Parse a page as a tree of elements, which has a place for objects taken out."""
    try:
        root = ET.fromstring(body)  # noqa: S314 - as botocore has just done
    except (ET.ParseError, LookupError):  # no XML, or an encoding that is unknown
        return None
    return _fields(root, taken)


def rows_of(answer: MutableMapping[str, Any]) -> Iterable[Row]:
    """Return the objects of an answer, whichever parser has parsed it.

    Raises:
        OSError: botocore has parsed it, and a field of an object is there twice.
    """
    rows: Iterable[Row] | None = answer.get(ROWS)
    if rows is not None:
        return rows
    return [
        Row(
            text_of(item["Key"]),
            int(item["Size"]),
            _without_quotes(item.get("ETag", "")),
        )
        for item in answer.get("Contents") or ()
    ]


def text_of(field: object) -> str:
    """Return a field's text as botocore has parsed it.

    Raises:
        OSError: It is there twice, of which botocore makes a list.
    """
    if not isinstance(field, str):
        msg = "a field of the listing is there twice; check the endpoint"
        raise OSError(msg)
    return field


def _fields(root: ET.Element, taken: Sequence[Row] | None) -> dict[str, object] | None:
    """Return the fields of a page, as botocore names them; None where it is unsure."""
    space = root.tag.removesuffix(_ROOT)
    contents, folder = f"{space}Contents", f"{space}CommonPrefixes"
    if space == root.tag or not _is_plain(root, space, (contents, folder)):
        return None
    found: Iterable[Row | None]
    if taken is None:
        found = (_row(child, space) for child in root.iterfind(contents))
    else:
        found = taken if _has_place(root, contents) else [None]
    is_encoded = root.findtext(f"{space}EncodingType") == "url"
    decode: Callable[[str], str] = unquote_plus if is_encoded else str
    rows: list[Row] = []
    for row in found:
        if row is None or not row.key:
            return None
        is_plain = "%" not in row.key and "+" not in row.key
        rows.append(row if is_plain else row._replace(key=decode(row.key)))
    prefixes = [child.findtext(f"{space}Prefix", "") for child in root.iterfind(folder)]
    folders = [{"Prefix": decode(prefix)} for prefix in prefixes]
    page: dict[str, object] = {ROWS: rows, "CommonPrefixes": folders}
    truncated = root.findtext(f"{space}IsTruncated")
    if truncated is not None:
        page["IsTruncated"] = truncated == "true"
    following = root.findtext(f"{space}{_NEXT}")
    if following is not None:
        page[_NEXT] = following
    return page


def _is_plain(root: ET.Element, space: str, lists: tuple[str, str]) -> bool:
    """Return whether a page has one namespace, and each field once but for lists."""
    names = [child.tag for child in root]
    single = [name for name in names if name not in lists]
    prefix = [f"{space}Prefix"]
    return (
        all(name.startswith(space or name.lstrip("{")) for name in names)
        and len(set(single)) == len(single)
        and all(
            [one.tag for one in child] == prefix for child in root.iterfind(lists[1])
        )
    )


def _row(content: ET.Element, space: str) -> Row | None:
    """Return an object of a page; None where its size is no number."""
    fields = {field.tag: field.text or "" for field in content}
    size = fields.get(f"{space}Size", "")
    if not size.isdecimal() or len(fields) < len(content):
        return None
    etag = _without_quotes(fields.get(f"{space}ETag", ""))
    return Row(fields.get(f"{space}Key", ""), int(size), etag)


def _has_place(root: ET.Element, contents: str) -> bool:
    """Return whether a page has one object, empty, where the others were."""
    places = root.findall(contents)
    return len(places) == 1 and not len(places[0])


def _without_quotes(etag: object) -> str:
    return text_of(etag).strip('"')
